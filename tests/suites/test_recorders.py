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
from dcgym.backends.records import EVENT_RECORDS, FIDELITY, Fidelity
from dcgym.backends.records import FLOWS as ENDED
from dcgym.envs.bindings.base import Binding
from dcgym.envs.registration import add_environment
from dcgym.envs.registry import ENVIRONMENTS, AgentForm, Environment
from dcgym.envs.system import System
from dcgym.policies import POLICIES, PolicyFamily
from dcgym.registry import REGISTRIES, Registry
from dcgym.suites import Case, Suite, load_records, run_suite, write_report
from dcgym.suites.recorders import RECORDERS, Recorder
from dcgym.suites.recorders.network import NetworkRecorder
from dcgym.tasks.common.settings import TaskSettings
from tests.support.suites import leave_figures_empty

ID, FAMILY = "acme/Walk-v0", "walking"
FLOWS = np.array([(1, 2.5)], [("flow", "<i8"), ("time_s", "<f8")])


@dataclass
class Walked:
    """Where the two are: when, and what they decided."""

    time_ns: Any
    decided: Any


class Paper:
    """A backend that keeps the time, and what was decided."""

    name, capabilities = "paper", Capabilities()

    def __init__(self) -> None:
        self._now = Walked(np.zeros(1, np.int64), np.zeros((1, 2)))

    def reset(self, episodes: Any) -> None:
        self._now = Walked(np.zeros(1, np.int64), np.zeros((1, 2)))

    def apply(self, commands: Any, mask: Any = None) -> Any:
        if commands is not None:
            self._now.decided = commands
        return self._now.time_ns

    def advance(self, until_ns: Any) -> Any:
        self._now = Walked(until_ns.copy(), self._now.decided)
        return np.zeros(1, np.int64)

    def read(self, mask: Any = None) -> Walked:
        return self._now

    def records(self, kind: Any, env: int) -> Any:
        return {ENDED: FLOWS, EVENT_RECORDS: [], FIDELITY: Fidelity()}[kind]

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


class Walk(Binding[WalkTask, int, Any, Walked]):
    """The reward of an agent is what it decides, times the speed."""

    nothing = None

    def __init__(self, settings: WalkSettings, n_envs: int) -> None:
        super().__init__(walk(), n_envs, interval_ns=100_000_000)
        self._settings = settings

    def make(self) -> Any:
        return self._settings.backend

    def decode(self, actions: Any, fresh: Any) -> Any:
        return np.array(actions, float).reshape(1, 2)

    def observe(self, state: Walked, mask: Any) -> Any:
        self._state = state
        return np.zeros((1, 2, 1), np.float32), {"distance": self._settings.speed * state.decided}

    def metrics(self) -> Mapping[str, Any]:
        return {"pace": self._settings.speed * self.now.decided.max(axis=1)}


def make(settings: WalkSettings, n_envs: int) -> System:
    return System(Walk(settings, n_envs))


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
    form = AgentForm(WalkSettings, make, "Walk.", Registry("no backends", "backend"), walk)
    add_environment(Environment(ID, FAMILY, form))
    POLICIES.add(FAMILY, PolicyFamily(FAMILY)).add("pacer", Pacer)
    yield
    ENVIRONMENTS.remove(ID)
    POLICIES.remove(FAMILY)
    del gym.registry[ID], REGISTRIES["no backends"]


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
