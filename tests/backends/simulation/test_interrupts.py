"""Signals in long calls of the twins: handlers run, and what they raise ends the call."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

import numpy as np
import pytest

from dcgym.backends.records import FLOWS, SUMMARY
from dcgym.backends.simulation import AcceleratorTwin, BalancingTwin
from dcgym.backends.simulation.packets import PacketTwin
from dcgym.backends.simulation.placement import FlowLevelModel
from dcgym.errors import BackendError
from dcgym.tasks.accelerators.protocol import DeviceEpisode
from dcgym.tasks.balancing import server_group
from dcgym.tasks.balancing.arrivals import draw_arrivals
from dcgym.tasks.balancing.protocol import PoolCommands
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.placement.data_centre import DATA_CENTRES
from dcgym.tasks.placement.links import ideal_link_bps
from dcgym.tasks.placement.view import AssignmentRule, Failures
from dcgym.topologies import make_topology
from dcgym.traffic import make_plan
from dcgym.traffic.sizes import exponential
from dcgym.traffic.vips import VipTable
from tests.support.packets import TracedTwin
from tests.support.pools import pool
from tests.support.signals import Stop, handled

pytestmark = pytest.mark.simulation

S = 10**9
# Of simulated time: minutes of computation in each call.
AGE_NS = 24 * 3600 * S
TOPOLOGY = make_topology({"name": "dumbbell", "rate": "1Gbit"})
# Four servers of one worker, 320 flows per second.
POOL = pool(server_group("one", 4))
# A flow per second, each of which is served for an hour, while the balancer asks every millisecond.
SLOW = pool(
    server_group("one", 4),
    load=1000.0,
    allow_overload=True,
    service=exponential("1h"),
    probe_interval_ns=10**6,
)
DEVICES = {
    "groups": [
        {
            "name": "server",
            "count": 2,
            "devices": [{"kind": "device", "workers": 1, "service": {"a": "10us"}}],
        }
    ],
    "applications": [{"name": "a", "demand": "exponential"}],
    "latency_ns": 0,
}


def packets(size: str = "100GB") -> NetworkEpisode:
    plan = make_plan({"name": "pairs", "size": size}, TOPOLOGY, 0)
    return NetworkEpisode(plan, 0, dict.fromkeys((one.name for one in TOPOLOGY.hosts), "cubic"))


def one_network() -> Callable[[], object]:
    twin = TracedTwin(TOPOLOGY)
    twin.reset(packets())
    return lambda: twin.advance(AGE_NS)


def networks(threads: int) -> Callable[[], object]:
    """Two copies; with two threads, that of this one has nothing to do."""
    batch = PacketTwin(TOPOLOGY, 2, threads=threads)
    batch.reset([packets()] * 2)
    return lambda: batch.advance(np.array([0, AGE_NS]))


def balancers(threads: int) -> Callable[[], object]:
    twin = BalancingTwin(POOL, n_envs=2, threads=threads)
    twin.reset(0)
    return lambda: twin.advance(np.array([0, AGE_NS]))


def drain() -> Callable[[], object]:
    twin = BalancingTwin(SLOW)
    twin.reset(0)
    twin.advance(10 * S)
    return twin.drain


def assignment() -> Callable[[], object]:
    twin = BalancingTwin(SLOW)
    twin.reset(0)
    twin.apply(PoolCommands(held_flows=1))
    twin.advance(10**6 * S)
    twin.apply(PoolCommands(assignments=np.zeros(1, np.int64)))
    return lambda: twin.advance(10**6 * S)


def accelerators() -> Callable[[], object]:
    twin = AcceleratorTwin(DEVICES)
    twin.reset([DeviceEpisode(1, 1e5)])
    return lambda: twin.advance(AGE_NS)


def placement(call: str) -> Callable[[], object]:
    centre = DATA_CENTRES["duet"]
    # Every rack sends a little to every VIP.
    vips, racks = 2000, centre.n_racks
    start = np.arange(vips + 1, dtype=np.uint64)
    every = np.tile(np.arange(racks, dtype=np.uint32), vips)
    one = np.ones(vips, np.uint32)
    table = VipTable(start * racks, every, every + 1.0, np.zeros(vips), start, one, one)
    model = FlowLevelModel(centre)
    model.reset(0, table)
    if call == "assign":
        return lambda: model.assign(0, AssignmentRule(stops=False))
    if call == "evaluate":
        return lambda: model.evaluate(0, Failures())
    return lambda: ideal_link_bps(centre, table, False)


CALLS: dict[str, Callable[[], Callable[[], object]]] = {
    "packets, one network": one_network,
    "packets, one thread": lambda: networks(1),
    "packets, two threads": lambda: networks(2),
    "balancing, one thread": lambda: balancers(1),
    "balancing, two threads": lambda: balancers(2),
    "balancing, drain": drain,
    "balancing, arrivals": lambda: lambda: draw_arrivals(POOL, 0, AGE_NS),
    "assignment": assignment,
    "accelerators": accelerators,
    **{
        f"placement, {one}": lambda one=one: placement(one)
        for one in ("assign", "evaluate", "ideal")
    },
}


@pytest.mark.parametrize("name", CALLS)
def test_a_signal_ends_a_long_call(name: str) -> None:
    call = CALLS[name]()
    with handled(stops_after=3), pytest.raises(Stop):
        call()


def course(make: Callable[[], TracedTwin | BalancingTwin], until_ns: int, stops: bool) -> bytes:
    """Run to a time, ended by a signal on the way or not, and return the records."""
    twin = make()
    with handled(stops_after=3 if stops else None) as seen:
        if stops:
            with pytest.raises(Stop):
                twin.advance(until_ns)
        twin.advance(until_ns)
    assert len(seen) >= 3
    return twin.flow_records().tobytes() if isinstance(twin, TracedTwin) else served(twin)


def served(twin: BalancingTwin) -> bytes:
    twin.drain()
    return twin.records(FLOWS, 0).tobytes() + repr(twin.records(SUMMARY, 0)).encode()


def make_packets() -> TracedTwin:
    twin = TracedTwin(TOPOLOGY)
    twin.reset(packets("1GB"))
    return twin


def make_balancer() -> BalancingTwin:
    twin = BalancingTwin(POOL, record_limit=10**6)
    twin.reset(0)
    return twin


@pytest.mark.parametrize(("make", "until_ns"), [(make_packets, 20 * S), (make_balancer, 600 * S)])
def test_a_call_that_a_signal_ended_goes_on_where_it_was(
    make: Callable[[], TracedTwin | BalancingTwin], until_ns: int
) -> None:
    twin = make()
    twin.advance(until_ns)
    records = twin.flow_records().tobytes() if isinstance(twin, TracedTwin) else served(twin)
    assert course(make, until_ns, stops=False) == records
    assert course(make, until_ns, stops=True) == records


def test_a_drain_that_a_signal_ended_goes_on() -> None:
    found = []
    for stops in (True, False):
        twin = BalancingTwin(SLOW)
        twin.reset(0)
        twin.advance(10 * S)
        if stops:
            with handled(stops_after=1), pytest.raises(Stop):
                twin.drain(limit_ns=600 * S)
            with pytest.raises(BackendError, match="drained"):
                twin.advance(20 * S)
        twin.drain(limit_ns=600 * S)
        found.append(repr(twin.records(SUMMARY, 0)))
    assert found[0] == found[1]


@pytest.mark.parametrize("threads", [1, 2])
def test_no_second_call_begins_amid_one(threads: int) -> None:
    """Neither by a handler nor on another thread; the first one goes on."""
    twin = BalancingTwin(POOL, n_envs=2, threads=threads)
    twin.reset(0)
    thread = threading.Thread(target=lambda: refused.append(refusal(twin)))
    refused: list[str] = []

    def handle(number: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        refused.append(refusal(twin))
        thread.start()
        thread.join()

    before = signal.signal(signal.SIGVTALRM, handle)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.01)
    try:
        twin.advance(600 * S)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert refused == ["another call is under way"] * 2
    alone = BalancingTwin(POOL, n_envs=2, threads=threads)
    alone.reset(0)
    alone.advance(600 * S)
    assert repr(twin.records(SUMMARY, 1)) == repr(alone.records(SUMMARY, 1))


def refusal(twin: BalancingTwin) -> str:
    with pytest.raises(BackendError) as caught:
        twin.advance(1)
    return str(caught.value)


def test_signals_are_handled_in_the_main_thread_alone() -> None:
    """A call on another thread goes on, and takes nothing from the main thread's handlers."""
    twin = make_packets()
    thread = threading.Thread(target=twin.advance, args=(10 * S,))
    with handled(stops_after=None) as seen:
        thread.start()
        thread.join()
    assert seen
    assert twin.now_ns() == 10 * S
