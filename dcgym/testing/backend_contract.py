"""The contract that every backend keeps, as checks for whoever writes one.

`check_network` takes a maker of networks of one copy, `check_networks` one of several copies,
`check_pool` one of pools; all raise AssertionError on the first thing that is not as
`dcgym.backends.base` says.
What capabilities do not promise is not asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Network, Pool
from dcgym.backends.records import (
    APPLICATIONS,
    CONGESTION_CONTROL,
    EVENT_RECORDS,
    FIDELITIES,
    FIDELITY,
    FLOWS,
    PROCESSES,
    SUMMARY,
)
from dcgym.errors import ConfigError
from dcgym.monitors import HOST_STATE, PORT_STATE, Snapshot, StateWords
from dcgym.tasks.balancing.protocol import NOTHING, PoolCommands
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.events import Event, make_events
from dcgym.tasks.network.protocol import NOTHING as NO_COMMANDS
from dcgym.tasks.network.protocol import FlowCommands, NetworkCommands, NetworkState
from dcgym.testing.one_network import OneNetwork
from dcgym.topologies import Topology, make_topology, next_hop_groups
from dcgym.traffic import Plan, make_plan
from dcgym.traffic.generators.view import RECORD_DTYPE

__all__ = ["check_network", "check_networks", "check_pool"]

MakeNetwork: TypeAlias = Callable[[Topology], Network]
MakeNetworks: TypeAlias = Callable[[Topology, int], Network]
MakePool: TypeAlias = Callable[[], Pool]

TOPOLOGY = {"name": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 2, "rate": "10Mbit"}
INTERVAL_NS = 50_000_000
SEED = 7
UDP = {"name": "random", "transport": "udp"}
# How far a paced sender may be off its limit within an interval: a token bucket's burst.
SLACK_BYTES = 100_000
COUNTERS = ("tx_bytes", "tx_packets", "rx_bytes", "rx_packets", "drops", "marks")


def check_network(make: MakeNetwork, intervals: int = 10) -> None:
    """Check a backend of networks; raises AssertionError on the first failure.

    Args:
        make: Makes one copy over a topology, new at each call; nothing may be started yet.
        intervals: Intervals of 50 ms that each episode lasts.
    """
    topology = make_topology(TOPOLOGY)
    network = OneNetwork(make(topology), topology)
    try:
        network.close()
        _check_clock(network)
        first = _check_counters(network, intervals)
        _check_limits(network, intervals)
        _check_weights(network)
        _check_flow_commands(network)
        _check_finish(network)
        if network.capabilities.events:
            _check_events(network)
        again = _check_counters(network, intervals)
        if network.capabilities.deterministic:
            assert np.array_equal(first.ports, again.ports), "the same seed gave other counters"
            assert np.array_equal(first.hosts, again.hosts), "the same seed gave other counters"
        assert network.records(FIDELITY).status in FIDELITIES
        assert isinstance(network.records(CONGESTION_CONTROL), Mapping)
    finally:
        network.close()
        network.close()
    _begin(network, "pairs-udp")
    network.close()


def check_networks(make: MakeNetworks, n_envs: int = 3, intervals: int = 4) -> None:
    """Check a backend that runs several networks; raises AssertionError on the first failure.

    Args:
        make: Makes a number of copies over a topology, new at each call; nothing is started yet.
        n_envs: Number of copies, 2 or more.
        intervals: Intervals of 50 ms that each episode lasts.
    """
    topology = make_topology(TOPOLOGY)
    seeds = range(SEED, SEED + n_envs)
    together = _run_networks(make(topology, n_envs), topology, seeds, intervals)
    assert together.any(), "UDP at full rate counted nothing"
    if make(topology, 1).capabilities.deterministic:
        for env, seed in enumerate(seeds):
            alone = _run_networks(make(topology, 1), topology, [seed], intervals)
            assert np.array_equal(alone[0], together[env]), "another number of copies, other counts"


def _run_networks(
    networks: Network, topology: Topology, seeds: Sequence[int], intervals: int
) -> npt.NDArray[np.uint64]:
    """Run episodes of these seeds, and begin one of them anew; return the counters before that."""
    n_envs = len(seeds)
    layout = StateWords(len(topology.switch_ports), len(topology.hosts))
    try:
        networks.close()
        episodes = [NetworkEpisode(make_plan(UDP, topology, one), one) for one in seeds]
        networks.reset(episodes)
        rates_bps = np.array([port.rate_bps for port in topology.host_ports], np.uint64)
        limits = NetworkCommands(rates_bps=np.tile(rates_bps, (n_envs, 1)))
        assert networks.apply(limits).shape == (n_envs,), "a time for each copy"
        until_ns = networks.apply(NO_COMMANDS)
        for _ in range(intervals):
            until_ns = until_ns + INTERVAL_NS
            assert (networks.advance(until_ns) >= 0).all(), "a negative overrun"
        state = networks.read()
        assert not state.finished.any() and state.finished.shape == (n_envs,)
        assert state.words.shape == (n_envs, layout.size), "a row of `StateWords` a copy"
        assert (state.time_ns <= networks.apply(NO_COMMANDS)).all(), "a state of a time to come"
        _check_masks(networks, state, layout)
        counters = state.words[:, : layout.n_counters]
        if n_envs > 1:
            networks.reset([episodes[0], *[None] * (n_envs - 1)])
            again = networks.read().words[:, : layout.n_counters]
            assert not again[0, : layout.n_ports].any(), "a new episode with old counters"
            assert (again[1:] >= counters[1:]).all(), "the episode of another copy was touched"
        return counters
    finally:
        networks.close()
        networks.close()


def _check_masks(networks: Network, state: NetworkState, layout: StateWords) -> None:
    """Compare what all copies show together with what each shows alone."""
    if networks.capabilities.real_time:
        return
    n_envs = len(state.time_ns)
    for env in range(n_envs):
        masked = networks.read(np.arange(n_envs) == env).words[env, : layout.n_counters]
        own = state.words[env, : layout.n_counters]
        assert np.array_equal(masked, own), "a mask changes what is read"


def check_pool(make: MakePool, intervals: int = 8) -> None:
    """Check a backend of server pools; raises AssertionError on the first failure.

    Args:
        make: Makes a pool under load, new at each call; nothing may be started yet.
        intervals: Intervals of 100 ms that each episode lasts.
    """
    pool = make()
    try:
        pool.close()
        first = _run_pool(pool, SEED, intervals)
        _check_pool_arrays(pool)
        _check_pool_rules(pool)
        _check_pool_service(pool)
        again = _run_pool(pool, SEED, intervals)
        other = _run_pool(pool, SEED + 1, intervals)
        if pool.capabilities.deterministic:
            assert np.array_equal(first, again), "the same seed gave other counts"
            assert not np.array_equal(first, other), "another seed gave the same counts"
        assert first.sum() > 0, "no flow was seen under load"
        for env in range(len(first)):
            assert pool.records(FIDELITY, env).status in FIDELITIES
            assert isinstance(pool.records(EVENT_RECORDS, env), list)
    finally:
        pool.close()
        pool.close()


def _begin(
    network: OneNetwork, traffic: str | Mapping[str, object], events: tuple[Event, ...] = ()
) -> None:
    plan = make_plan(traffic, network.topology, SEED)
    network.reset(NetworkEpisode(plan, SEED, events=events))


def _check_clock(network: OneNetwork) -> None:
    _begin(network, "pairs-udp")
    begun_ns = network.now_ns()
    overrun_ns = network.advance(begun_ns + INTERVAL_NS)
    now_ns = network.now_ns()
    assert now_ns >= begun_ns + INTERVAL_NS, "advance came back too early"
    assert overrun_ns >= 0, f"a negative overrun: {overrun_ns}"
    if not network.capabilities.real_time:
        assert now_ns == begun_ns + INTERVAL_NS and overrun_ns == 0, "simulated time is exact"
    network.advance(begun_ns)
    assert network.now_ns() >= now_ns, "time went back"
    assert begun_ns <= network.snapshot().time_ns <= network.now_ns(), "a snapshot of another time"


def _check_counters(network: OneNetwork, intervals: int) -> Snapshot:
    """Run full-rate UDP; return the last snapshot."""
    topology = network.topology
    # Without traffic: in real time, some may have been sent by the first look.
    network.reset(NetworkEpisode(Plan("idle", SEED, ()), SEED))
    idle = network.snapshot()
    for name in (*COUNTERS, "backlog_bytes"):
        assert not idle.ports[name].any(), f"{name} was not cleared by reset"
    _begin(network, "pairs-udp")
    before = network.snapshot()
    for state, wanted, of in (
        (before.ports, PORT_STATE, topology.switch_ports),
        (before.hosts, HOST_STATE, topology.hosts),
    ):
        assert set(wanted.names or ()) <= set(state.dtype.names or ()), f"fields {state.dtype}"
        assert all(state.dtype[name] == np.uint64 for name in state.dtype.names or ())
        assert len(state) == len(of), f"{len(state)} rows for {len(of)}"
    first, begun_ns = before, before.time_ns
    for number in range(1, intervals + 1):
        network.advance(begun_ns + number * INTERVAL_NS)
        after = network.snapshot()
        assert after.time_ns > before.time_ns, "time stood still"
        for name in COUNTERS:
            assert (after.ports[name] >= before.ports[name]).all(), f"{name} fell"
        before = after
    seconds = (before.time_ns - begun_ns) / 1e9
    sent_bytes = before.ports["tx_bytes"] - first.ports["tx_bytes"]
    rates_bps = np.array([port.rate_bps for port in topology.switch_ports], np.float64)
    most_bytes = rates_bps / 8 * seconds + SLACK_BYTES
    assert (sent_bytes <= most_bytes).all(), "a port sent more than its link carries"
    assert before.hosts["rx_bytes"].sum() > 0, "nothing arrived"
    limits = np.array([port.queue_bytes for port in topology.switch_ports])
    assert (before.ports["backlog_bytes"] <= limits).all(), "a queue beyond its limit"
    return before


def _check_limits(network: OneNetwork, intervals: int) -> None:
    """A host that is limited to a tenth of its link sends no more than that and a burst."""
    _begin(network, "pairs-udp")
    rates_bps = np.array([port.rate_bps for port in network.topology.host_ports], np.float64)
    applied_ns = network.apply(rates_bps=(rates_bps / 10).astype(np.uint64))
    assert applied_ns <= network.now_ns(), "limits in force in the future"
    # In real time, some may have been sent before: it has arrived, or waits in a queue.
    first = network.snapshot()
    early = first.hosts["rx_bytes"] + first.ports["backlog_bytes"].sum()
    network.advance(applied_ns + intervals * INTERVAL_NS)
    after = network.snapshot()
    seconds = (after.time_ns - applied_ns) / 1e9
    received = after.hosts["rx_bytes"].astype(np.float64)
    most_bytes = early + rates_bps / 80 * seconds + SLACK_BYTES
    assert (received <= most_bytes).all(), "a limit was not kept"
    assert received.sum() > 0, "limited hosts send nothing at all"


def _check_weights(network: OneNetwork) -> None:
    groups = [group for group in next_hop_groups(network.topology) if group.has_choice]
    n_weights = sum(len(group.ports) for group in groups)
    _begin(network, "pairs-udp")
    for weights in (
        np.ones(n_weights),
        np.arange(n_weights, dtype=np.float64),
        np.zeros(n_weights),
    ):
        in_force_ns = network.apply(path_weights=weights)
        assert in_force_ns <= network.now_ns(), "weights in force in the future"


def _check_flow_commands(network: OneNetwork) -> None:
    if network.capabilities.flow_control:
        return
    words = np.zeros((1, 1), np.uint32)
    try:
        network.apply(
            flow_commands=FlowCommands(words, words, words, words, words.astype(np.uint64))
        )
    except ConfigError:
        return
    raise AssertionError("commands to flows were taken, and nobody obeys them")


def _check_finish(network: OneNetwork) -> None:
    _begin(network, {"name": "pairs", "duration": "60ms"})
    assert not network.finished(), "finished before it began"
    begun_ns = network.now_ns()
    # Real connections need a moment to end, and a busy machine many.
    for number in range(1, 601):
        network.advance(begun_ns + number * INTERVAL_NS)
        if network.finished():
            break
    assert network.finished(), "flows of 60 ms still run after 600 intervals"
    network.apply(cuts_flows=True)
    assert network.flow_records().dtype == RECORD_DTYPE
    assert network.records(APPLICATIONS) == []
    assert network.records(PROCESSES) == []


def _check_events(network: OneNetwork) -> None:
    topology = network.topology
    switch, peer = next(
        (port.node, port.peer) for port in topology.switch_ports if port.peer.startswith("s")
    )
    rows = [{"at": f"{INTERVAL_NS}ns", "link": [switch, peer], "action": "down"}]
    _begin(network, "pairs-udp", events=make_events(rows, topology))
    assert network.records(EVENT_RECORDS) == [], "an event before its time"
    begun_ns = network.snapshot().time_ns
    for number in range(1, 601):
        network.advance(begun_ns + number * INTERVAL_NS)
        network.snapshot()
        if network.records(EVENT_RECORDS):
            break
    records = network.records(EVENT_RECORDS)
    assert [record["action"] for record in records] == ["down"], f"records of events: {records}"
    assert network.now_ns() - begun_ns >= INTERVAL_NS, "an event before its time"
    assert network.capabilities.real_time or number == 1, "an event after its time"


def _run_pool(pool: Pool, seed: int, intervals: int) -> npt.NDArray[np.float64]:
    """Return the flows that each front end has seen on each server."""
    # Nothing that is read says the number of copies before they begin.
    n_envs = len(pool.apply(NOTHING))
    pool.reset(range(seed, seed + n_envs))
    begun_ns = pool.apply(PoolCommands(rules=_rule_of(pool)))
    assert not begun_ns.any(), "the clock does not begin at 0"
    weights = np.ones_like(pool.read().seen.weights)
    for number in range(1, intervals + 1):
        in_force_ns = pool.apply(PoolCommands(weights=weights))
        assert in_force_ns.shape == (n_envs,) and (in_force_ns <= pool.apply(NOTHING)).all()
        until_ns = begun_ns + number * 2 * INTERVAL_NS
        overrun_ns, now_ns = pool.advance(until_ns), pool.apply(NOTHING)
        assert (overrun_ns >= 0).all() and (now_ns >= until_ns).all()
        if not pool.capabilities.real_time:
            assert (now_ns == until_ns).all(), "simulated time is exact"
    return pool.read().seen.flows.astype(np.float64)


def _rule_of(pool: Pool) -> str:
    """Return a rule that the pool offers, if possible one that uses an agent's weights."""
    rules = pool.capabilities.rules
    return "weighted" if "weighted" in rules else rules[0]


def _check_pool_arrays(pool: Pool) -> None:
    state = pool.read()
    seen, truth = state.seen, state.truth
    n_envs, frontends, servers = seen.ongoing.shape
    sizes = {1: (n_envs,), 2: (n_envs, servers), 3: (n_envs, frontends, servers)}
    for name in ("ongoing", "flows", "completed", "eligible", "weights"):
        values = getattr(seen, name)
        assert values.shape == sizes[3] and (values >= 0).all(), name
    assert state.time_ns.shape == sizes[1] and (state.time_ns <= pool.apply(NOTHING)).all()
    for name in ("queue", "busy_workers", "capacity"):
        assert getattr(truth, name).shape == sizes[2], name
    for env in range(n_envs):
        flows, summary = pool.records(FLOWS, env), pool.records(SUMMARY, env)
        assert (flows["end_ns"] >= flows["arrival_ns"]).all(), "a flow ended before it came"
        for name in ("rejected", "pcc_violations"):
            before, total = getattr(truth, name)[env], getattr(summary, name)
            assert before <= total, f"{name}: {before} in truth, fewer in summary"
            assert pool.capabilities.real_time or before == total, name


def _check_pool_rules(pool: Pool) -> None:
    for rule in pool.capabilities.rules:
        pool.apply(PoolCommands(rules=rule))
    try:
        pool.apply(PoolCommands(rules="no such rule"))
    except ConfigError:
        return
    raise AssertionError("an unknown rule was taken")


def _check_pool_service(pool: Pool) -> None:
    present = pool.read().seen.eligible
    serving = np.logical_or.reduce(present, axis=1)
    alone = np.zeros_like(serving)
    alone[np.arange(len(serving)), serving.argmax(axis=1)] = True
    try:
        pool.apply(PoolCommands(eligible=alone))
    except ConfigError:
        assert not pool.capabilities.eligible, "a command that the capabilities name was refused"
        return
    assert pool.capabilities.eligible, "a command that no capability names was taken"
    left = present & alone[:, None]
    assert (pool.read().seen.eligible == left).all(), "servers out of service take flows"
    pool.apply(PoolCommands(eligible=np.ones_like(serving)))
    assert (pool.read().seen.eligible == present).all(), "servers are not back in service"
    try:
        pool.apply(PoolCommands(eligible=np.zeros_like(serving)))
    except ConfigError:
        return
    raise AssertionError("no server was left in service")
