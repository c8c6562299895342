"""Path weights on the real kernel: which uplink carries which flows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dcgym
from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.emulation.options import NetworkOptions
from dcgym.errors import ConfigError
from dcgym.testing import OneNetwork
from dcgym.topologies import Topology, make_topology, next_hop_groups
from dcgym.traffic import Flow, Plan
from tests.support.networks import begin, sleep_for
from tests.support.waiting import wait_for
from tests.support.windows import best_of

pytestmark = pytest.mark.emulation

K4 = {"name": "fat-tree", "k": 4}
MBIT = 1_000_000


def flows(source: str, count: int, start_s: float) -> list[Flow]:
    """UDP flows of 1 Mbit/s to the pod of h9."""
    return [
        Flow(source, f"h{9 + n % 4}", "udp", start_ns=round(start_s * 1e9), rate_bps=MBIT)
        for n in range(count)
    ]


def carried(backend: OneNetwork, switch: str) -> Any:
    """Bytes of each host at the two uplinks of an edge switch."""
    matrix = backend.snapshot().flow_matrix
    names = [port.name for port in backend.topology.switch_ports]
    uplinks = [port.name for port in backend.topology.ports(switch)[2:]]
    return matrix[[names.index(name) for name in uplinks]]


def all_on_the_first(backend: OneNetwork, switch: str) -> Any:
    """Weights that send what one switch balances over its first uplink, and are even elsewhere."""
    groups = [group for group in next_hop_groups(backend.topology) if group.has_choice]
    return np.array(
        [
            0.0 if group.switch == switch and place else 1.0
            for group in groups
            for place in range(len(group.ports))
        ]
    )


def test_one_uplink_carries_every_new_flow_and_old_ones_stay(share: Any) -> None:
    backend = share(K4, flow_matrix=True, flow_table=4096)
    # Old flows from h1 and new ones from h2, which hang on the same edge switch.
    begin(backend, Plan("old", 0, tuple(flows("h1", 24, 0))))
    wait_for(lambda: backend.snapshot().hosts["active_flows"][0] == 24)
    wait_for(lambda: carried(backend, "s1")[:, 0].min() > 0)
    backend.apply(path_weights=all_on_the_first(backend, "s1"))
    before = carried(backend, "s1")
    datagrams = f"for port in {{1..24}}; do echo >/dev/udp/{backend.topology.ip('h9')}/$port; done"
    backend.lab.execute("h2", "bash", "-c", datagrams)
    # Both uplinks go on with the flows that the hash gave them.
    wait_for(lambda: (carried(backend, "s1") - before)[:, 0].min() > 0)
    wait_for(lambda: carried(backend, "s1")[0, 1] > 0)
    assert not before[:, 1].any() and carried(backend, "s1")[1, 1] == 0


def test_without_a_flow_table_old_flows_move_too(make: Any) -> None:
    backend = make(K4, flow_matrix=True)
    begin(backend, Plan("old", 0, tuple(flows("h1", 24, 0))))
    wait_for(lambda: carried(backend, "s1")[:, 0].min() > 0)
    backend.apply(path_weights=all_on_the_first(backend, "s1"))

    def is_moved() -> bool:
        before = carried(backend, "s1")
        sleep_for(backend, 0.2)
        first, second = (carried(backend, "s1") - before)[:, 0]
        return bool(first > 0 and second == 0)

    # What waited at the second uplink leaves first.
    wait_for(is_moved)


def test_reset_forgets_weights_and_paths(share: Any) -> None:
    backend = share(K4, flow_matrix=True, flow_table=4096)
    plan = Plan("old", 0, tuple(flows("h1", 24, 0)))
    begin(backend, plan)
    backend.apply(path_weights=all_on_the_first(backend, "s1"))
    sleep_for(backend, 0.1)
    begin(backend, plan)
    wait_for(lambda: carried(backend, "s1")[:, 0].min() > 0)


def test_open_vswitch_takes_no_weights() -> None:
    backend = OneNetwork(EmulationNetwork(make_topology(K4), NetworkOptions(switch="ovs")))
    with pytest.raises(ConfigError, match="switch"):
        backend.apply(path_weights=np.ones(32))


def test_wrong_weights_are_one_clear_line(share: Any) -> None:
    backend = share(K4, flow_matrix=True, flow_table=4096)
    begin(backend, Plan("idle", 0, ()))
    for weights in (np.ones(31), np.full(32, -1.0), np.full(32, np.nan)):
        with pytest.raises(ConfigError, match="weights"):
            backend.apply(path_weights=weights)


Loads = Callable[[], np.ndarray]


@pytest.fixture
def loads() -> Iterator[Loads]:
    """Step an environment whose weights send 24 flows of h1 over one of its two uplinks.

    Returns their loads in each step, of which the first is not before the flows.
    """
    # Flows of before stay where they are for ever: the weights of a late step must be there, too.
    plan = Plan("new", 0, tuple(flows("h1", 24, 2.0)))
    env: Any = dcgym.make_env(env="PathBalancing-v2", topology=K4, traffic=plan, interval="200ms")
    with contextlib.closing(env):
        env.reset(seed=0)
        labels = env.unwrapped.task.uplinks.labels
        mine = [n for n, label in enumerate(labels) if label.startswith("s1-")]
        action = np.ones(env.action_space.shape, np.float32)
        action[mine[0]] = 0

        def step() -> np.ndarray:
            found: np.ndarray = env.step(action)[-1]["uplink_loads"][mine]
            return found

        assert any(step().any() for _ in range(150))
        yield step


def test_the_environment_moves_new_flows_to_one_uplink(loads: Loads) -> None:
    """What the weights of a step say is what the uplinks of the edge switch carry."""
    first, second = loads()
    assert first == 0 and second > 0


@pytest.mark.timing
def test_the_one_uplink_has_their_load(loads: Loads) -> None:
    seen = best_of(loads, lambda found: float(np.abs(found - [0, 0.25]).max()), 0.03)
    # 24 Mbit/s of payload and some headers, of 100.
    assert seen[0] == 0 and seen[1] == pytest.approx(0.25, abs=0.03)


def spines(slow_mbit: int) -> Topology:
    """Two leaves of four hosts, a spine of 100 Mbit/s and a slow one."""
    whole = make_topology({"name": "leaf-spine", "leaves": 2})
    slow = whole.switches[-1].name
    links = [
        replace(link, rate_bps=slow_mbit * MBIT) if link.b == slow else link for link in whole.links
    ]
    return Topology("two-spines", whole.nodes, tuple(links))


@pytest.mark.timing
def test_wcmp_carries_more_than_ecmp_over_unequal_spines() -> None:
    """60 flows of 2 Mbit/s over 100 and 25: ECMP offers the slow spine 60, WCMP 24."""
    topology = spines(25)
    # A flow keeps its first spine, so the weights of a late step must be there before it.
    start_ns = 3 * 10**9
    plan = Plan(
        "crossing",
        0,
        tuple(
            Flow(f"h{1 + n % 4}", f"h{5 + n // 4 % 4}", "udp", start_ns=start_ns, rate_bps=2 * MBIT)
            for n in range(60)
        ),
    )
    env = dcgym.make_env(env="PathBalancing-v2", topology=topology, traffic=plan, interval="100ms")
    goodput_bps = {}
    try:
        for name in ("ecmp", "wcmp"):
            policy = dcgym.make_policy(name, env)
            observation, info = env.reset(seed=0)

            def mean_bps(n_steps: int, policy: Any = policy) -> float:
                nonlocal observation, info
                seen = []
                for _ in range(n_steps):
                    observation, *_, info = env.step(policy.act(observation, info))
                    seen.append(info["metrics"]["goodput_bps"])
                return float(np.mean(seen))

            mean_bps(35)  # The slow spine's queue is full half a second after the beginning.
            # What a path carries is what it carries in the best window.
            enough_bps = 60 * MBIT if name == "ecmp" else 105 * MBIT
            goodput_bps[name] = best_of(lambda: mean_bps(5), lambda bps: -bps, -enough_bps)
    finally:
        env.close()  # type: ignore[no-untyped-call]
    # The hash gives ECMP's slow spine 30 flows, more or less 4: of 120 Mbit/s 85 arrive, more or
    # less 8; WCMP's gets 12, more or less 3.
    assert 60 * MBIT < goodput_bps["ecmp"] < 105 * MBIT < goodput_bps["wcmp"]
