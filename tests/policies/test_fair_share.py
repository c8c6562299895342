"""The fair-share oracle: max-min over the flows that are active, on both ways to the twin."""

from __future__ import annotations

import contextlib
import copy
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dcgym
from dcgym.backends.records import ENDED_FLOWS, RecordKind
from dcgym.backends.simulation.packets import PacketTwin
from dcgym.errors import BackendError
from dcgym.policies import make_policy
from dcgym.tasks.network.max_min import FairShares
from dcgym.tasks.network.protocol import NetworkCommands, NetworkState
from dcgym.topologies import Topology, make_topology
from dcgym.traffic import Flow, Plan
from tests.support.packets import FRAME, MSS, SECOND

pytestmark = pytest.mark.simulation

INTERVAL_NS = SECOND // 20
HEADROOM = 0.02
RATE_BPS = 25_000_000
DUMBBELL = {"name": "dumbbell", "hosts": 6, "rate": "25Mbit", "queue": "400KB"}
SWITCH = {"name": "single-switch", "hosts": 4, "rate": "25Mbit"}
SIZES = (20_000_000, 8_000_000, 4_000_000)
UPTIME_NS = 10_000 * SECOND


class LateTwin:
    """A twin whose clock runs since long ago, as that of a machine does."""

    name, capabilities = "late", replace(PacketTwin.capabilities, copies=1)

    def __init__(self, topology: Topology) -> None:
        self._twin = PacketTwin(topology)
        self.reset, self.close = self._twin.reset, self._twin.close

    def apply(self, commands: NetworkCommands, mask: Any = None) -> npt.NDArray[np.int64]:
        return self._twin.apply(commands, mask) + UPTIME_NS

    def advance(self, until_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return self._twin.advance(until_ns - UPTIME_NS)

    def read(self, mask: Any = None) -> NetworkState:
        state = self._twin.read(mask)
        state.time_ns = state.time_ns + UPTIME_NS
        return state

    def records(self, kind: RecordKind[Any], env: int) -> Any:
        found = self._twin.records(kind, env)
        if kind is ENDED_FLOWS:
            for name in ("planned_start_ns", "start_ns", "end_ns"):
                found[name] += UPTIME_NS
        return found


# A twin whose time begins with the episode, and a clock that goes on, as an emulation's does.
BACKENDS = pytest.mark.parametrize("backend", ["simulation", LateTwin], ids=["new", "late"])


class Run:
    """An episode under the oracle, step by step."""

    def __init__(self, flows: list[Flow], topology: Any = SWITCH, backend: Any = "simulation"):
        self.env = dcgym.make_env(
            topology=topology,
            traffic=Plan("test", 0, flows),
            backend=backend,
            interval="50ms",
            max_steps=1000,
        )
        self.policy = make_policy("fair-share", self.env)
        self.observation, self.info = self.env.reset(seed=0)
        self.arrived_bytes, self.steps = 0.0, 0

    def step(self, count: int = 1) -> list[float]:
        """Go on, and return the shares of the last decision."""
        for _ in range(count):
            action = self.policy.act(self.observation, self.info)
            self.observation, _, _, _, self.info = self.env.step(action)
            seconds = self.info["interval_us"] / 1e6
            self.arrived_bytes += self.info["metrics"]["goodput_bps"] * seconds / 8
            self.steps += 1
        return [round(float(share), 3) for share in self.info["rate_shares"]]

    def ended(self) -> npt.NDArray[np.void]:
        """Return the records of the flows that ended."""
        records: npt.NDArray[np.void] = self.env.unwrapped.flow_records()
        return records

    def step_to_an_end(self) -> list[float]:
        """Go on until one more flow has ended, and one decision further."""
        before = len(self.ended())
        while len(self.ended()) == before:
            assert self.steps < 1000, "no flow ends"
            self.step()
        return self.step()


@BACKENDS
def test_three_flows_take_the_time_of_max_min_sharing(backend: Any) -> None:
    flows = [Flow(f"h{n + 1}", f"h{n + 4}", size_bytes=size) for n, size in enumerate(SIZES)]
    with contextlib.closing((run := Run(flows, DUMBBELL, backend)).env):
        capacity = RATE_BPS * MSS / FRAME * (1 - HEADROOM) / 8
        # Three share until the smallest has ended, then two, then one: all fill the link.
        fluid_s = np.array([12e6, 20e6, 32e6]) / capacity
        interval_s = INTERVAL_NS / SECOND
        for number, end_s in enumerate(fluid_s):
            while len(run.ended()) == number:
                run.step()
            # What a flow that ends leaves is given to the others up to an interval later. The plan
            # begins 10 ms after the first interval, and its handshakes take a round trip.
            lost_s = (number + 1) * interval_s
            assert run.arrived_bytes > capacity * (run.steps * interval_s - lost_s - interval_s)
            records = run.ended()
            took_s = (records["end_ns"] - records["planned_start_ns"])[number] / SECOND
            # Buckets of the hosts' limits start full.
            assert 0.995 * end_s < took_s < end_s + lost_s
        assert run.ended()["id"].tolist() == [2, 1, 0]


@BACKENDS
def test_a_flow_has_a_share_from_the_decision_before_its_start_on(backend: Any) -> None:
    flows = [Flow("h1", "h3"), Flow("h2", "h3", start_ns=12 * INTERVAL_NS - 10_000_000)]
    with contextlib.closing((run := Run(flows, backend=backend)).env):
        for _ in range(11):
            assert run.step() == [0.98, 1, 1, 1]
        assert run.env.unwrapped.task.active_flows().tolist() == [True, True]
        for _ in range(5):
            assert run.step() == [0.49, 0.49, 1, 1]


@BACKENDS
def test_a_flow_to_come_has_no_share_after_another_has_ended(backend: Any) -> None:
    flows = [
        Flow("h1", "h3"),
        Flow("h2", "h3", size_bytes=300_000),
        Flow("h4", "h3", start_ns=100 * SECOND),
    ]
    with contextlib.closing((run := Run(flows, backend=backend)).env):
        assert run.step() == [0.49, 0.49, 1, 1]
        assert run.step_to_an_end() == [0.98, 1, 1, 1]


@BACKENDS
def test_flows_of_other_bottlenecks_get_what_an_ended_one_leaves(backend: Any) -> None:
    # h2 divides its own link between two; one of them meets h1's flow at h3.
    flows = [Flow("h1", "h3"), Flow("h2", "h3", size_bytes=300_000), Flow("h2", "h4")]
    with contextlib.closing((run := Run(flows, backend=backend)).env):
        assert run.step() == [0.49, 0.98, 1, 1]
        assert run.step_to_an_end() == [0.98, 0.98, 1, 1]


def test_a_sender_is_unlimited_once_its_last_flow_has_ended() -> None:
    flows = [Flow("h1", "h3", size_bytes=300_000), Flow("h2", "h3")]
    with contextlib.closing((run := Run(flows)).env):
        assert run.step() == [0.49, 0.49, 1, 1]
        assert run.step_to_an_end() == [1, 0.98, 1, 1]


def test_flows_count_in_their_runs_and_after_those_that_they_wait_for() -> None:
    gap_ns = 4 * INTERVAL_NS
    flows = [
        Flow("h1", "h3", size_bytes=10_000, repetitions=2, gap_ns=gap_ns),
        Flow("h2", "h4", size_bytes=10_000, start_ns=gap_ns, after=0),
    ]
    with contextlib.closing((run := Run(flows)).env):
        task = run.env.unwrapped.task
        seen = []
        while not run.env.unwrapped.session.finished()[0]:
            seen.append(tuple(task.active_flows().tolist()))
            run.step()
    phases = [one for number, one in enumerate(seen) if number == 0 or one != seen[number - 1]]
    idle, first, second = (False, False), (True, False), (False, True)
    assert phases == [first, idle, first, idle, second]


def test_a_new_episode_and_a_copy_have_flows_of_their_own() -> None:
    flows = [Flow("h1", "h3", size_bytes=300_000), Flow("h2", "h3")]
    with contextlib.closing((run := Run(flows)).env):
        copied = copy.deepcopy(run.env)
        assert run.step_to_an_end() == [1, 0.98, 1, 1]
        assert copied.unwrapped.task.active_flows().tolist() == [True, True]
        run.env.reset(seed=1)
        assert run.step() == [0.49, 0.49, 1, 1]


def test_without_an_episode_nobody_knows_what_is_active() -> None:
    policy = make_policy("fair-share", dcgym.make_env(backend="simulation"))
    with pytest.raises(BackendError, match="reset"):
        policy.act(np.empty(0), {})


def test_shares_depend_on_the_active_flows_alone() -> None:
    topology = make_topology({"name": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 2})
    pairs = [("h1", "h3"), ("h2", "h3"), ("h2", "h3"), ("h2", "h4")]
    flows = [Flow(source, sink) for source, sink in pairs]
    fair = FairShares(topology, Plan("all", 0, flows))
    generator = np.random.default_rng(0)
    for active in generator.random((20, len(flows))) < 0.5:
        chosen = [flow for flow, is_active in zip(flows, active, strict=True) if is_active]
        alone = FairShares(topology, Plan("some", 0, chosen)).of(np.ones(len(chosen), np.bool_))
        assert fair.of(active) == pytest.approx(alone)
