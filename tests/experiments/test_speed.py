"""What the table of the twins' speed counts."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from experiments.speed import __main__ as speed
from experiments.speed import steps


class Timed:
    """An environment on a clock of its own: 50 s to build, 3 s a reset, 0.1 s a step."""

    def __init__(self, length: int, copies: int = 1) -> None:
        self.now_s, self.is_built = 0.0, False
        self.length, self.taken, self.copies = length, 0, copies
        self.action_space = SimpleNamespace(seed=lambda _: None, sample=lambda: 0)
        self.spec = SimpleNamespace(max_episode_steps=length)

    def reset(self, seed: int | None = None) -> None:
        self.now_s += 3.0 if self.is_built else 50.0
        self.is_built, self.taken = True, 0

    def step(self, action: int) -> tuple[object, ...]:
        self.now_s += 0.1
        self.taken += 1
        is_over = self.taken == self.length
        ends = is_over if self.copies == 1 else np.full(self.copies, is_over)
        return None, 0.0, ends, False, {}

    def close(self) -> None:
        pass


# A part of one episode, a whole one, and several.
@pytest.mark.parametrize("length", [100, 20, 2])
@pytest.mark.parametrize("copies", [1, 8])
def test_steps_a_second_are_those_of_an_episode_with_its_reset(monkeypatch, copies, length):
    env = Timed(length, copies)
    monkeypatch.setattr(steps.time, "process_time", lambda: env.now_s)
    found = steps._steps_per_s(env, copies)
    assert found == pytest.approx(copies * length / (3.0 + 0.1 * length))


@pytest.mark.simulation
def test_the_page_has_every_table(monkeypatch):
    monkeypatch.setattr(steps, "ENVS", {"JobAssignment-v0": {}, "FlowControl-v1": steps.NETWORK})
    monkeypatch.setattr(steps, "WIDTHS", (2,))
    monkeypatch.setattr(steps, "LEAST_S", 0.001)
    monkeypatch.setattr(steps, "MOST_S", 0.001)
    rows = steps.measure_twin_steps()
    assert all(row["1, info none"] > 0 and row["2"] > 0 for row in rows)
    row = {"model": "twin", "flows/s": 1234.5, "s": 0.25}
    others = {name: [row] for name in speed.TWIN_TITLES}
    page = speed.page_of("twins", speed.PAGES["twins"], {**others, "twin_steps": rows})
    assert page.count("| twin | 1,234 | 0.25 |") == len(speed.TWIN_TITLES) - 1
    assert page.count("| JobAssignment-v0 |") == 1
