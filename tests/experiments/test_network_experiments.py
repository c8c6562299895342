"""The experiments after Ruffy 2019 run in tiny form on the test double."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from dcgym.suites import load_records
from tests.support.suites import leave_figures_empty

TINY: dict[str, dict[str, Any]] = {
    "iroko_dumbbell": {"seeds": 1, "episode_s": 0.5, "warmup_s": 0.1},
    "reward_sweep": {"shares": (0.25, 0.5, 1.0), "seconds": 3.0, "warmup_s": 1.0},
    "unequal_spines": {"seeds": 1, "seconds": 0.5, "warmup_s": 0.1},
}


@pytest.fixture(autouse=True)
def empty_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_figures_empty(monkeypatch)


@pytest.mark.parametrize("name", TINY)
def test_experiment_runs_in_tiny_form(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(f"experiments.papers.ruffy.{name}")
    double = {"backend": "dcgym.testing:FakeBackend", "jobs": 0}
    args = module.Args(out=tmp_path, **double, **TINY[name])
    module.main(args)
    lines = capsys.readouterr().out.strip().splitlines()
    assert (len(lines) == len(load_records(tmp_path)) and "reward" in lines[0]) or "FCT" in lines[0]


def test_the_reward_rises_up_to_the_fair_share(tmp_path: Path) -> None:
    from experiments.papers.ruffy.reward_sweep import Args, main

    main(Args(tmp_path, backend="dcgym.testing:FakeBackend", jobs=0, **TINY["reward_sweep"]))
    rewards = {r["sweep"]["share"]: r["metrics"]["reward_mean"] for r in load_records(tmp_path)}
    assert rewards[0.25] < rewards[0.5] > rewards[1.0]
