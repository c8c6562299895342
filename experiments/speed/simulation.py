"""Speed of the balancing twin, side by side with a plain model of the same.

The twin and a plain SimPy model simulate the same pool under the same rule; then a vector of
environments is stepped, weights and observation included. All on one core, in its CPU time.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dcgym.backends.simulation.balancing import BalancingTwin
from dcgym.cli.console import table_console
from dcgym.errors import MissingDependency
from dcgym.tasks.balancing import make_scenario
from dcgym.units import NS_PER_S
from experiments.speed.simpy_model import SimPyModel

__all__ = ["measure", "show"]

TWIN_S = {"hlb-128": 600, "yao-sim-8": 20_000}
SIMPY_S = {"hlb-128": 20, "yao-sim-8": 600}
LOAD = 0.9
N_ENVS = 64
STEPS = 400
INTERVAL_NS = 250_000_000


def twin_figures(preset: str, rule: str, seconds: int) -> dict[str, Any]:
    """Measure the twin, one environment on one core."""
    twin = BalancingTwin(make_scenario(preset, load=LOAD))
    twin.reset(1)
    twin.set_rule(rule)
    begun = time.process_time()
    twin.advance(seconds * NS_PER_S)
    cpu_s = time.process_time() - begun
    summary = twin.summary()
    flow = next(iter(summary["applications"].values()))
    return _figures("twin", preset, rule, seconds / cpu_s, summary["events"] / cpu_s) | {
        "flows_per_s": summary["completed"] / cpu_s,
        "fct_us_mean": flow["mean_us"],
    }


def simpy_figures(preset: str, rule: str, seconds: int) -> dict[str, Any]:
    """Measure the SimPy model of the same."""
    model = SimPyModel(make_scenario(preset, load=LOAD), rule, seed=1)
    begun = time.process_time()
    model.run(seconds)
    cpu_s = time.process_time() - begun
    return _figures("simpy", preset, rule, seconds / cpu_s, model.events / cpu_s) | {
        "flows_per_s": len(model.completion_s) / cpu_s,
        "fct_us_mean": 1e6 * float(np.mean(model.completion_s)),
    }


def vector_steps_per_s() -> float:
    """Measure env-steps a second: new weights, 250 ms of simulation, the whole observation."""
    twin = BalancingTwin("yao-sim-8", n_envs=N_ENVS)
    twin.reset(1)
    twin.advance(60 * NS_PER_S)
    shape = (STEPS, N_ENVS, twin.n_balancers, twin.n_servers)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, shape)
    begun = time.process_time()
    for step in range(STEPS):
        twin.set_weights(weights[step])
        twin.advance(60 * NS_PER_S + (step + 1) * INTERVAL_NS)
        twin.observe()
    return N_ENVS * STEPS / (time.process_time() - begun)


def _figures(model: str, preset: str, rule: str, real: float, events: float) -> dict[str, Any]:
    return {
        "model": model,
        "preset": preset,
        "rule": rule,
        "times_real_time": real,
        "events_per_s": events,
    }


def measure() -> dict[str, Any]:
    """Measure everything."""
    rows = []
    for preset in TWIN_S:
        for rule in ("lsq", "sed"):
            rows.append(twin_figures(preset, rule, TWIN_S[preset]))
            try:
                rows.append(simpy_figures(preset, rule, SIMPY_S[preset]))
            except MissingDependency as error:
                Console(stderr=True).print(f"no comparison with SimPy: {error}")
    return {"models": rows, "vector_env_steps_per_s": vector_steps_per_s(), "n_envs": N_ENVS}


def show(found: dict[str, Any]) -> None:
    """Print the figures."""
    table = Table(title=f"Balancing twin, load {LOAD}")
    for name in ("pool", "rule", "model", "x real time", "events/s", "flows/s", "mean FCT, s"):
        table.add_column(name, justify="right")
    for row in found["models"]:
        table.add_row(
            *(row["preset"], row["rule"], row["model"]),
            *(f"{row[name]:,.0f}" for name in ("times_real_time", "events_per_s", "flows_per_s")),
            f"{row['fct_us_mean'] / 1e6:.3f}",
        )
    console = table_console()
    console.print(table)
    steps = found["vector_env_steps_per_s"]
    console.print(f"{found['n_envs']} environments of yao-sim-8: {steps:,.0f} env-steps/s")
