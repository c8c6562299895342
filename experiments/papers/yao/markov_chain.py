"""What do a partial view and wrong weights cost, exactly?

Source: Yao 2023, section 6.2.1.

How to run: ``.venv/bin/python -m experiments.papers.yao.markov_chain``

Results to expect: two servers, one twice as fast, each with room for Q flows; a Markov chain over
the numbers of flows, solved as a linear system, and the same system in the twin. With the full
view and right weights SED and WCMP lead, LSQ is far ahead of ECMP. When half or two thirds of the
flows are placed by others (evenly), LSQ and SED degrade, and GSQ, which places them all, does
not. With swapped weights WCMP and SED degrade even with the full view; LSQ, which has none, does
not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_matrix, csc_matrix
from scipy.sparse.linalg import spsolve

from dcgym.backends.records import SUMMARY
from dcgym.backends.simulation import BalancingTwin
from dcgym.tasks.balancing import make_scenario
from dcgym.tasks.balancing.protocol import PoolCommands
from experiments.papers.yao.common import run_script, save

FloatArray = npt.NDArray[np.float64]
SPEEDS = np.array([1.0, 2.0])
ROOM = 40
LOAD = 0.95
SIMULATED_S = 30_000
VIEWS = {"full": 1.0, "half": 1 / 2, "third": 1 / 3}
RULES = ("ecmp", "wcmp", "lsq", "sed")


def choice(rule: str, flows: tuple[int, int], weights: FloatArray) -> FloatArray:
    """Return the probabilities of the servers for a flow that the balancer places."""
    if rule == "ecmp":
        return np.array([0.5, 0.5])
    if rule == "wcmp":
        return weights / weights.sum()
    scores = np.array(flows, np.float64) if rule == "lsq" else (np.array(flows) + 1) / weights
    best = np.isclose(scores, scores.min())
    return best / best.sum()


def stationary(rule: str, view: float, weights: FloatArray, load: float = LOAD) -> FloatArray:
    """Solve the chain and return the probability of each state, shape (ROOM + 1, ROOM + 1).

    Args:
        rule: One of `RULES`.
        view: Part of the flows that the balancer places; the others are placed evenly.
        weights: Configured weights.
        load: Arrival rate over the sum of the speeds; a flow that meets a full server is lost.
    """
    size = ROOM + 1
    rate = load * SPEEDS.sum()
    rows, columns, rates = [], [], []
    for first in range(size):
        for second in range(size):
            state = (first, second)
            arrivals = rate * (view * choice(rule, state, weights) + (1 - view) / 2)
            for server in range(2):
                for step, speed in ((1, arrivals[server]), (-1, SPEEDS[server])):
                    target = list(state)
                    target[server] += step
                    if 0 <= target[server] <= ROOM:
                        here, there = first * size + second, target[0] * size + target[1]
                        rows += [there, here]
                        columns += [here, here]
                        rates += [speed, -speed]
    generator = coo_matrix((rates, (rows, columns)), shape=(size**2, size**2)).tolil()
    # The probabilities add up to 1 in place of one of the dependent balance equations.
    generator[-1, :] = 1.0
    right = np.zeros(size**2)
    right[-1] = 1.0
    solved: FloatArray = spsolve(csc_matrix(generator), right)
    return solved.reshape(size, size)


def mean_flows(probabilities: FloatArray) -> FloatArray:
    """Return the mean number of flows at each server."""
    flows = np.arange(ROOM + 1)
    return np.array([probabilities.sum(axis=1) @ flows, probabilities.sum(axis=0) @ flows])


def weighted_duration(probabilities: FloatArray) -> float:
    """Return the thesis' metric, the mean of sum l_i / (l_1 + l_2) * l_i / mu_i."""
    first, second = np.indices(probabilities.shape).astype(np.float64)
    total = np.maximum(first + second, 1)
    values = (first**2 / SPEEDS[0] + second**2 / SPEEDS[1]) / total
    return float((probabilities * values).sum())


def simulated_flows(rule: str, load: float, right_weights: bool, seconds: float) -> FloatArray:
    """Return the mean number of flows at each server in the twin, full view, four seeds."""
    scenario = make_scenario("markov-2", load=load, queue=ROOM, right_weights=right_weights)
    twin = BalancingTwin(scenario, 4, warm_up_ns=1000 * 10**9)
    twin.reset(0)
    twin.apply(PoolCommands(rules=rule))
    twin.advance(round(seconds * 1e9))
    return np.array([twin.records(SUMMARY, env).queue_mean for env in range(4)])


def main(out: Path) -> None:
    """Solve all cases, and simulate those with the full view."""
    cases = {}
    for weights_name, weights in (("right", SPEEDS), ("swapped", SPEEDS[::-1])):
        for view_name, view in VIEWS.items():
            for rule in RULES:
                cases[weights_name, view_name, rule] = stationary(rule, view, weights)
    table = []
    for (weights_name, view_name, rule), solved in cases.items():
        row = {
            "weights": weights_name,
            "view": view_name,
            "rule": rule,
            "weighted duration, s": f"{weighted_duration(solved):.3f}",
            "mean flows": " ".join(f"{value:.2f}" for value in mean_flows(solved)),
            "in the twin": "",
        }
        if view_name == "full":
            flows = simulated_flows(rule, LOAD, weights_name == "right", SIMULATED_S)
            row["in the twin"] = " ".join(f"{value:.2f}" for value in flows.mean(axis=0))
        table.append(row)

    def draw(axes: Any) -> None:
        for weights_name, style in (("right", "-"), ("swapped", "--")):
            for index, rule in enumerate(RULES):
                values = [weighted_duration(cases[weights_name, view, rule]) for view in VIEWS]
                label = f"{rule}, {weights_name} weights"
                axes.plot(list(VIEWS), values, style, color=f"C{index}", marker="o", label=label)
        axes.set(xlabel="view", ylabel="weighted service duration, s")
        axes.legend(fontsize=8)

    save(out, table, draw, "orders only (figure 6.1): see the docstring")


if __name__ == "__main__":
    run_script(__doc__, "markov_chain", main)
