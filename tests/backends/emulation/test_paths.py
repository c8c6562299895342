"""Path weights on the real kernel: which uplink carries which flows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dcgym
from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.emulation.network.options import NetworkOptions
from dcgym.errors import ConfigError
from dcgym.topologies import Topology, make_topology, next_hop_groups
from dcgym.traffic import Flow, Plan
from tests.support.networks import begin, sleep_for
from tests.support.windows import best_of

pytestmark = [pytest.mark.emulation, pytest.mark.alone]

K4 = {"name": "fat-tree", "k": 4}
MBIT = 1_000_000


def flows(source: str, count: int, start_s: float) -> list[Flow]:
    """UDP flows of 1 Mbit/s to the pod of h9."""
    return [
        Flow(source, f"h{9 + n % 4}", "udp", start_ns=round(start_s * 1e9), rate_bps=MBIT)
        for n in range(count)
    ]


def carried(backend: EmulationNetwork, switch: str) -> Any:
    """Bytes of each host at the two uplinks of an edge switch."""
    matrix = backend.snapshot().flow_matrix
    names = [port.name for port in backend.topology.switch_ports]
    uplinks = [port.name for port in backend.topology.ports(switch)[2:]]
    return matrix[[names.index(name) for name in uplinks]]


def all_on_the_first(backend: EmulationNetwork, switch: str) -> Any:
    """Weights that send what one switch balances over its first uplink, and are even elsewhere."""
    groups = [group for group in next_hop_groups(backend.topology) if group.has_choice]
    return np.array(
        [
            0.0 if group.switch == switch and place else 1.0
            for group in groups
            for place in range(len(group.ports))
        ]
    )


def test_one_uplink_carries_every_new_flow_and_old_ones_stay(make: Any) -> None:
    backend = make(K4, flow_matrix=True, flow_table=4096)
    # Old flows from h1 and new ones from h2, which hang on the same edge switch.
    plan = Plan("old and new", 0, (*flows("h1", 24, 0), *flows("h2", 24, 0.4)))
    begin(backend, plan)
    sleep_for(backend, 0.2)
    backend.apply_weights(all_on_the_first(backend, "s1"))
    before = carried(backend, "s1")
    sleep_for(backend, 0.5)
    after = carried(backend, "s1")
    old, new = after[:, 0] - before[:, 0], after[:, 1]
    assert before[:, 0].min() > 0 and old.min() > 0
    assert new[0] > 24 * MBIT / 8 * 0.1 and new[1] == 0
    # Both uplinks go on at the rate that the hash gave them.
    assert old / old.sum() == pytest.approx(before[:, 0] / before[:, 0].sum(), abs=0.02)


def test_without_a_flow_table_old_flows_move_too(make: Any) -> None:
    backend = make(K4, flow_matrix=True)
    begin(backend, Plan("old", 0, tuple(flows("h1", 24, 0))))
    sleep_for(backend, 0.1)
    backend.apply_weights(all_on_the_first(backend, "s1"))
    sleep_for(backend, 0.05)
    before = carried(backend, "s1")
    sleep_for(backend, 0.2)
    moved = carried(backend, "s1") - before
    assert moved[0, 0] > 0 and moved[1, 0] == 0


def test_reset_forgets_weights_and_paths(make: Any) -> None:
    backend = make(K4, flow_matrix=True, flow_table=4096)
    plan = Plan("old", 0, tuple(flows("h1", 24, 0)))
    begin(backend, plan)
    backend.apply_weights(all_on_the_first(backend, "s1"))
    sleep_for(backend, 0.1)
    begin(backend, plan)
    sleep_for(backend, 0.2)
    assert carried(backend, "s1")[:, 0].min() > 0


def test_open_vswitch_takes_no_weights() -> None:
    backend = EmulationNetwork(make_topology(K4), NetworkOptions(switch="ovs"))
    with pytest.raises(ConfigError, match="switch"):
        backend.apply_weights(np.ones(32))


def test_wrong_weights_are_one_clear_line(make: Any) -> None:
    backend = make(K4)
    for weights in (np.ones(31), np.full(32, -1.0), np.full(32, np.nan)):
        with pytest.raises(ConfigError, match="weights"):
            backend.apply_weights(weights)


def test_the_environment_moves_new_flows_to_one_uplink() -> None:
    """What the weights of a step say is what the uplinks of the edge switch carry."""
    # Flows of before stay where they are for ever: the weights of a late step must be there, too.
    plan = Plan("new", 0, tuple(flows("h1", 24, 1.0)))
    env = dcgym.make_env(env="PathBalancing-v1", topology=K4, traffic=plan, interval="200ms")
    try:
        env.reset(seed=0)
        uplinks = env.unwrapped.task.uplinks  # type: ignore[attr-defined]
        mine = [n for n, label in enumerate(uplinks.labels) if label.startswith("s1-")]
        action = np.ones(env.action_space.shape, np.float32)  # type: ignore[arg-type]
        action[mine[0]] = 0

        def step() -> np.ndarray:
            loads: np.ndarray = env.step(action)[-1]["uplink_loads"][mine]
            return loads

        # Until the flows have begun.
        assert any(step().any() for _ in range(50))
        loads = best_of(step, lambda seen: float(np.abs(seen - [0, 0.25]).max()), 0.03)
    finally:
        env.close()  # type: ignore[no-untyped-call]
    # 24 Mbit/s of payload and some headers, of 100.
    assert loads[0] == 0 and loads[1] == pytest.approx(0.25, abs=0.03)


def spines(slow_mbit: int) -> Topology:
    """Two leaves of four hosts, a spine of 100 Mbit/s and a slow one."""
    whole = make_topology({"name": "leaf-spine", "leaves": 2})
    slow = whole.switches[-1].name
    links = [
        replace(link, rate_bps=slow_mbit * MBIT) if link.b == slow else link for link in whole.links
    ]
    return Topology("two-spines", whole.nodes, tuple(links))


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
    env = dcgym.make_env(env="PathBalancing-v1", topology=topology, traffic=plan, interval="100ms")
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
