"""A task of a protocol of its own runs, is recorded and is reported without touching ours."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import polars as pl
import pytest

from dcgym.backends.base import Capabilities
from dcgym.backends.records import Fidelity
from dcgym.envs.registration import add_environment
from dcgym.envs.registry import ENVIRONMENTS, AgentForm, Environment
from dcgym.envs.system import BoundTask
from dcgym.policies import POLICIES, PolicyFamily
from dcgym.registry import Registry
from dcgym.suites import Case, Suite, load_records, run_suite, write_report
from dcgym.suites.recorders import RECORDERS, Recorder
from dcgym.suites.recorders.network import NetworkRecorder
from dcgym.tasks.common.settings import TaskSettings
from tests.support.suites import leave_figures_empty

ID, FAMILY = "acme/Walk-v0", "walking"
FLOWS = np.array([(1, 2.5)], [("flow", "<i8"), ("time_s", "<f8")])


class Paper:
    """A backend in name only."""

    name, capabilities = "paper", Capabilities()

    def close(self) -> None:
        """Have nothing to end."""


@dataclass(frozen=True, kw_only=True)
class WalkSettings(TaskSettings):
    """Arguments of the walk."""

    backend: object = Paper()
    interval: str = "100ms"
    speed: float = 1.0


class WalkTask:
    """Two agents, who see nothing."""

    family, agents, options, observation_labels = FAMILY, ("left", "right"), (), ["nothing"]
    action_space = observation_space = gym.spaces.Box(0, 1, (1,))

    def draw_seed(self, generator: np.random.Generator) -> int:
        return int(generator.integers(100))


def walk(settings: WalkSettings | None = None) -> WalkTask:
    """Return the task of the walk."""
    return WalkTask()


class Walk(BoundTask[WalkTask, Any, None]):
    """The reward of an agent is what it decides, times the speed."""

    def __init__(self, settings: WalkSettings, n_envs: int) -> None:
        super().__init__(walk(), settings.backend, n_envs, interval_ns=100_000_000)
        self._backend, self._speed = settings.backend, settings.speed
        self.capabilities = Paper.capabilities
        self.terms = {"distance": np.zeros((1, 2))}

    def begin(self, seeds: Any, options: Any) -> None:
        self.read_ns[:] = 0

    def act(self, actions: Any, fresh: Any) -> Any:
        self.terms = {"distance": self._speed * np.array(actions, float).reshape(1, 2)}
        return self.read_ns.copy()

    def advance(self, until_ns: Any) -> Any:
        self.read_ns = until_ns.copy()
        return np.zeros(1, np.int64)

    def now_ns(self) -> Any:
        return self.read_ns

    def measure(self, mask: Any) -> None:
        """Know everything already."""

    def metrics(self) -> Mapping[str, Any]:
        return {"pace": self.terms["distance"].max(axis=1)}

    def told(self) -> dict[str, Any]:
        return {}

    def flow_records(self, env: int) -> Any:
        return FLOWS

    def event_records(self, env: int) -> list[Any]:
        return []

    def fidelity(self, env: int) -> Fidelity:
        return Fidelity()

    def render(self, env: int, caption: Any) -> None:
        """Have no picture."""


class Pacer:
    """Draws its action from its seed."""

    name = "pacer"

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def env_overrides(self) -> dict[str, object]:
        return {}

    def bind(self, env: object) -> Pacer:
        assert env.family == FAMILY  # type: ignore[attr-defined]
        return self

    def act(self, observation: Any, info: Any) -> Any:
        return np.array([self._seed / 2000])


@pytest.fixture
def walking() -> Iterator[None]:
    form = AgentForm(WalkSettings, Walk, "Walk.", Registry("no backends", "backend"), walk)
    add_environment(Environment(ID, FAMILY, form))
    POLICIES.add(FAMILY, PolicyFamily(FAMILY)).add("pacer", Pacer)
    yield
    ENVIRONMENTS.remove(ID)
    POLICIES.remove(FAMILY)
    del gym.registry[ID]


@pytest.mark.usefixtures("walking")
def test_every_environment_names_a_recorder() -> None:
    found = {env_id: RECORDERS.find(one.single.recorder) for env_id, one in ENVIRONMENTS.items()}
    assert found["dcgym/Joint-v2"] is NetworkRecorder and found[ID] is Recorder
    assert set(found.values()) == set(RECORDERS.values())


@pytest.mark.usefixtures("walking")
def test_a_system_from_outside_is_run_recorded_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_figures_empty(monkeypatch)
    cases = tuple(Case({"env": ID, "speed": speed}, f"speed={speed}") for speed in (1.0, 2.0))
    suite = Suite("walk", "A walk.", cases, ("pacer",), seeds=2, episode_s=1, warmup_s=0.5, jobs=0)
    records = run_suite(suite, tmp_path)
    assert [(r["scenario"], r["seed"], r["backend"]) for r in records] == [
        (f"speed={speed}", seed, "paper") for speed in (1.0, 2.0) for seed in (0, 1)
    ]
    # The agents of seed 1 draw 1000 and 1001, over 2000: each has a seed of its own.
    assert records[1]["metrics"]["reward_mean"] == pytest.approx((0.5 + 0.5005) / 2)
    assert records[3]["metrics"]["pace"] == pytest.approx(2 * 0.5005)
    steps = pl.read_parquet(tmp_path / "runs" / "speed=1.0-pacer-1" / "steps.parquet")
    assert steps.columns == ["time_s", "interval_us", "gap_us", "reward", "pace"]
    assert steps.height == 10
    flows = pl.read_parquet(tmp_path / "runs" / "speed=1.0-pacer-1" / "flows.parquet")
    assert flows.rows() == [(1, 2.5)]
    # The task says nothing of its layout: the reward is shown.
    assert "reward" in write_report(tmp_path, load_records(tmp_path)).read_text()
    assert run_suite(suite, tmp_path) == [json.loads(json.dumps(record)) for record in records]
