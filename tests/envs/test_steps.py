"""Steps of a network that runs on: where an action comes late, time belongs to no step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import dcgym
from dcgym.backends.records import FIDELITY, FLOWS, Fidelity, RecordKind
from dcgym.backends.simulation import AcceleratorTwin, BalancingTwin
from dcgym.envs.system import System
from dcgym.suites.rollout import run_episode
from dcgym.suites.spec import RunSpec
from dcgym.tasks.accelerators.protocol import NOTHING as NO_COMMANDS
from dcgym.tasks.balancing.protocol import NOTHING
from dcgym.testing import FakeBackend

MS = 1_000_000
OPEN, CHOKED = np.ones(4, np.float32), np.full(4, 0.25, np.float32)


class Running(FakeBackend):
    """A network on which traffic runs on while nobody asks it to."""

    def records(self, kind: RecordKind[Any], env: int) -> Any:
        """Find nothing wrong."""
        return Fidelity() if kind is FIDELITY else super().records(kind, env)

    def think(self, time_ns: int) -> None:
        """Let time pass as a policy does that thinks."""
        self.advance(np.array([self.now_ns + time_ns]))


def make(backend: FakeBackend, **config: Any) -> Any:
    return dcgym.make_env(backend=backend, interval="50ms", traffic="pairs-udp", **config)


@pytest.mark.parametrize(("late_ns", "is_late"), [(10 * MS, False), (10 * MS + 1, True)])
def test_an_action_is_late_beyond_a_fifth_of_the_interval(late_ns: int, is_late: bool) -> None:
    backend = Running()
    env = make(backend)
    env.reset(seed=0)
    backend.think(late_ns)
    *_, info = env.step(OPEN)
    assert info["is_restarted"] == is_late
    assert info["gap_us"] == (late_ns / 1e3 if is_late else 0.0)
    assert info["interval_us"] == 50_000
    assert info["time_s"] == (50 * MS + (late_ns if is_late else 0)) / 1e9
    assert env.unwrapped.session.fidelity(0).figures["late_share"] == is_late


def test_steps_and_gaps_add_up_to_the_time_that_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Running()
    env = make(backend, render_mode="rgb_array")
    env.reset(seed=0)
    began_ns = backend.now_ns
    monkeypatch.setattr(System, "render", lambda *_: backend.think(30 * MS))
    passed_us, late = 0.0, []
    for thought_ms, is_drawn in [(0, 0), (20, 0), (3, 0), (9, 1), (11, 1), (300, 0), (0, 0)]:
        if is_drawn:
            env.render()
        backend.think(thought_ms * MS)
        *_, info = env.step(OPEN)
        late.append(info["is_restarted"])
        assert info["interval_us"] == 50_000
        passed_us += info["interval_us"] + info["gap_us"]
        assert passed_us == (backend.now_ns - began_ns) / 1e3
        assert info["time_s"] == (backend.now_ns - began_ns) / 1e9
    # By its own thought alone, whatever was drawn before.
    assert late == [False, True, False, False, True, True, False]
    # 20 + 300 ms of thought, and two pictures with what was thought after them.
    figures = env.unwrapped.session.fidelity(0).figures
    assert figures["gap_share"] == (20 + 300 + 39 + 41) / (7 * 50 + 400)
    assert figures["late_share"] == 3 / 7
    *_, info = env.reset(seed=0)
    assert (info["time_s"], info["gap_us"], info["interval_us"], info["steps"]) == (0, 0, 0, 0)
    assert not env.unwrapped.session.fidelity(0).figures, "nothing has happened yet"


def test_a_picture_that_is_done_before_the_traffic_begins_takes_no_time_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Resting(Running):
        def read(self, mask: Any = None) -> Any:
            found = super().read(mask)
            found.time_ns = np.maximum(found.time_ns, self._begin_ns + 40 * MS)
            return found

    backend = Resting()
    env = make(backend, render_mode="rgb_array")
    env.reset(seed=0)
    monkeypatch.setattr(System, "render", lambda *_: backend.think(30 * MS))
    env.render()
    *_, info = env.step(OPEN)
    assert (info["interval_us"], info["gap_us"]) == (50_000, 0)
    assert backend.now_ns - backend._begin_ns == 90 * MS


def test_copies_are_late_each_for_itself() -> None:
    envs = gym.make_vec(
        "dcgym/CongestionControl-v2",
        2,
        "vector_entry_point",
        backend=Running,
        interval="50ms",
        traffic="pairs-udp",
    )
    envs.reset(seed=0)
    first, _ = envs.unwrapped.system.backend.networks
    actions = np.ones((2, 4), np.float32)
    thoughts = [((70, 50), 20), ((120, 100), 0), ((270, 150), 100)]
    for step, (passed_ms, thought_ms) in enumerate(thoughts, 1):
        first.think(thought_ms * MS)
        infos = envs.step(actions)[-1]
        assert infos["gap_us"].tolist() == [thought_ms * 1e3, 0]
        assert infos["interval_us"].tolist() == [50_000, 50_000]
        assert infos["steps"].tolist() == [step, step]
        assert infos["time_s"].tolist() == [ms / 1e3 for ms in passed_ms]
    session = envs.unwrapped.session
    shares = [session.fidelity(copy).figures["gap_share"] for copy in range(2)]
    assert shares == [120 / 270, 0]


class Hesitant:
    """A policy of two actions in turn, which takes its time before every third."""

    name = "hesitant"

    def __init__(self, think: Callable[[], None], note: Callable[[], None]) -> None:
        self._think, self._note, self._steps = think, note, 0

    def env_overrides(self) -> dict[str, object]:
        return {}

    def bind(self, env: object) -> Hesitant:
        return self

    def act(self, observation: Any, info: Any) -> Any:
        self._steps += 1
        self._note()
        if self._steps % 3 == 0:
            self._think()
        return CHOKED if self._steps % 2 else OPEN


def run(thought_ms: int, steps: int = 30, warmup_s: float = 0.0) -> tuple[Any, Any]:
    """Return the record of a run, and what the network counted after the warm-up."""
    backend = Running(
        dcgym.topologies.make_topology({"name": "dumbbell", "queue": "60KB", "mark": "15KB"})
    )
    looks: list[tuple[int, float, float, float]] = []

    def note() -> None:
        ports, hosts = backend._ports, backend._hosts
        looks.append(
            (
                backend.now_ns,
                float(hosts["rx_bytes"].astype(np.uint64).sum()),
                float(ports["drops"].astype(np.uint64).sum()),
                float(ports["marks"].astype(np.uint64).sum()),
            )
        )

    def think() -> None:
        backend.think(thought_ms * MS)
        if thought_ms > 10:
            # The step begins now; else it has begun.
            looks.pop()
            note()

    policy = Hesitant(think, note)
    env = {
        "env": "dcgym/CongestionControl-v2",
        "backend": backend,
        "marking": True,
        "interval": "50ms",
        "traffic": "pairs-udp",
    }
    spec = RunSpec(env=env, policy="hesitant", steps=steps, warmup_s=warmup_s)
    record = run_episode(spec, make=lambda _: policy)
    note()
    # The first step that ends after the warm-up.
    ends_ns = [time_ns + 50 * MS - looks[0][0] for time_ns, *_ in looks[:-1]]
    first = next(n for n, end_ns in enumerate(ends_ns) if end_ns > warmup_s * 1e9)
    return record, np.subtract(looks[-1], looks[first])


@pytest.mark.parametrize("warmup_s", [0.0, 0.6])
@pytest.mark.parametrize("thought_ms", [0, 9, 30, 200])
def test_a_run_counts_what_happened_between_its_steps(thought_ms: int, warmup_s: float) -> None:
    record, (passed_ns, rx_bytes, drops, marks) = run(thought_ms, warmup_s=warmup_s)
    metrics = record["metrics"]
    assert metrics["goodput_bps"] == pytest.approx(rx_bytes * 8e9 / passed_ns, rel=1e-12)
    assert (metrics["drops"], metrics["marks"]) == (drops, marks)
    assert marks > 0 and drops > 0
    # The links carry 10 Mbit/s of which every run has its part, however its steps fell.
    assert metrics["goodput_bps"] <= 10e6


@pytest.mark.parametrize(
    ("thought_ms", "gap_share", "status"),
    [
        (0, 0.0, "ok"),
        # Every third of thirty actions is late.
        (11, 110 / 1610, "degraded"),
        (30, 300 / 1800, "invalid"),
    ],
)
def test_fidelity_tells_the_time_in_no_step(thought_ms: int, gap_share: float, status: str) -> None:
    fidelity = run(thought_ms)[0]["fidelity"]
    assert fidelity["figures"]["late_share"] == (1 / 3 if thought_ms else 0)
    assert fidelity["figures"]["gap_share"] == pytest.approx(gap_share, rel=1e-12)
    assert fidelity["status"] == status
    assert len(fidelity["reasons"]) == (2 if thought_ms else 0)


class Pool(BalancingTwin):
    """Servers whose time runs on."""

    capabilities = replace(BalancingTwin.capabilities, real_time=True)


class Devices(AcceleratorTwin):
    """Devices whose time runs on, and whose intervals end late."""

    capabilities = replace(AcceleratorTwin.capabilities, real_time=True)
    late_ns = 0

    def advance(self, until_ns: Any) -> Any:
        return super().advance(np.asarray(until_ns) + self.late_ns)


@pytest.mark.simulation
def test_a_step_of_a_pool_leaves_out_the_time_before_a_late_action() -> None:
    env = dcgym.make_env(
        env="dcgym/LoadBalancing-v1",
        scenario="testbed-7",
        backend=lambda scenario, copies: Pool(scenario, copies, 1, 10**6),
    )
    env.reset(seed=0)
    pool = env.unwrapped.system.running
    pool.advance(pool.apply(NOTHING) + 2_000 * MS)
    before = pool.read().truth
    *_, info = env.step(np.zeros(env.action_space.shape, np.float32))
    assert info["is_restarted"] and info["gap_us"] == 2_000_000
    assert info["interval_us"] == 250_000 and info["time_s"] == 2.25
    after, metrics = pool.read().truth, info["metrics"]
    ended = after.ended[0] - before.ended[0]
    assert metrics["completed"] == ended > 0
    took_ns = after.ended_after_ns[0] - before.ended_after_ns[0]
    assert metrics["ended_fct_us_mean"] == took_ns / ended / 1e3


@pytest.mark.simulation
@pytest.mark.parametrize("settle_ms", [0, 4_000])
def test_rates_of_devices_are_over_the_time_that_was_measured(settle_ms: int) -> None:
    env = dcgym.make_env(
        env="dcgym/AcceleratorBalancing-v0",
        settle=f"{settle_ms}ms",
        record_limit=10**6,
        backend=lambda pool, copies: Devices(pool, copies, record_limit=10**6),
    )
    env.reset(seed=0)
    devices = env.unwrapped.system.running
    spans_ns, rates = [], []
    for late_ms in (0, 5_000, 0):
        begun_ns = int(devices.apply(NO_COMMANDS)[0])
        devices.late_ns = late_ms * MS
        *_, info = env.step(env.action_space.sample())
        ended_ns = int(devices.apply(NO_COMMANDS)[0])
        assert info["interval_us"] == (ended_ns - begun_ns) / 1e3 - info["gap_us"]
        spans_ns.append((begun_ns + settle_ms * MS + late_ms * MS * (settle_ms > 0), ended_ns))
        rates.append(info["metrics"]["throughput_per_s"])
    ends_ns = devices.records(FLOWS, 0)["end_ns"]
    for (begin_ns, end_ns), rate in zip(spans_ns, rates, strict=True):
        served = ((ends_ns > begin_ns) & (ends_ns <= end_ns)).sum()
        # A request may be on its way back at either end.
        assert rate == pytest.approx(served * 1e9 / (end_ns - begin_ns), rel=0.01)
