"""Which rule needs to know the load well?

Source: Yao 2023, section 5.1.

How to run: ``.venv/bin/python -m experiments.papers.yao.load_noise``

Results to expect: 128 equal servers of speed 4, Poisson jobs of size 1 at 450/s (88 % load); the
dispatcher sees each load with Gaussian noise. With exact loads the least-loaded rule (LLF) is
best; it degrades fastest with the noise, since all jobs run after the same mistake, and two
random choices (Po2) and weighted sampling (WS) pass it or come close. A model of jobs, not of
flows: no twin is used.
"""

from __future__ import annotations

import heapq
from pathlib import Path
from typing import Any

import numpy as np

from experiments.papers.yao.common import run_script, save

SERVERS, SPEED, RATE_PER_S, JOBS = 128, 4.0, 450.0, 40_000
NOISES = (0.0, 1.0, 2.0, 4.0, 8.0)
RULES = ("llf", "po2", "ws", "random")


def choose(rule: str, loads: np.ndarray, generator: np.random.Generator) -> int:
    """Return the server that a rule picks for the loads it sees."""
    if rule == "random":
        return int(generator.integers(SERVERS))
    if rule == "po2":
        first, second = generator.integers(SERVERS, size=2)
        return int(first if loads[first] <= loads[second] else second)
    if rule == "ws":
        # Room below the largest load seen; 1 keeps an even choice among equals.
        room = loads.max() - loads + 1.0
        return int(np.searchsorted(np.cumsum(room), generator.random() * room.sum()))
    return int(generator.choice(np.flatnonzero(loads == loads.min())))


def mean_completion_s(rule: str, noise: float, seed: int, jobs: int) -> float:
    """Return the mean completion time of jobs served first come, first served.

    Args:
        rule: One of `RULES`.
        noise: Standard deviation of the error of each load seen, in jobs.
        seed: Seed of arrivals, sizes, noise and choices.
        jobs: Number of jobs; the first fifth is left out.
    """
    generator = np.random.default_rng(seed)
    arrivals = np.cumsum(generator.exponential(1 / RATE_PER_S, jobs))
    works_s = generator.exponential(1.0, jobs) / SPEED
    free_s, counts = np.zeros(SERVERS), np.zeros(SERVERS)
    departures: list[tuple[float, int]] = []
    times_s = np.empty(jobs)
    for index, now_s in enumerate(arrivals):
        while departures and departures[0][0] <= now_s:
            counts[heapq.heappop(departures)[1]] -= 1
        seen = counts + noise * generator.standard_normal(SERVERS) if noise else counts
        server = choose(rule, seen, generator)
        free_s[server] = max(free_s[server], now_s) + works_s[index]
        counts[server] += 1
        heapq.heappush(departures, (free_s[server], server))
        times_s[index] = free_s[server] - now_s
    return float(times_s[jobs // 5 :].mean())


def main(out: Path) -> None:
    """Run every rule with every noise."""
    cells = {rule: [mean_completion_s(rule, noise, 0, JOBS) for noise in NOISES] for rule in RULES}
    table = [
        {"rule": rule, **{f"noise {n:g}": f"{v:.3f} s" for n, v in zip(NOISES, row, strict=True)}}
        for rule, row in cells.items()
    ]

    def draw(axes: Any) -> None:
        for rule, row in cells.items():
            axes.plot(NOISES, row, marker="o", label=rule)
        axes.set(xlabel="noise of the loads, jobs", ylabel="mean completion time, s")
        axes.legend()

    save(out, table, draw, "LLF best with exact loads, degrades fastest with noise (figure only)")


if __name__ == "__main__":
    run_script(__doc__, "load_noise", main)
