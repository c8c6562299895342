"""Routes around failures: the shortest that are left, and installed without a loop on the way."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import networkx
import pytest

from dcgym.topologies import Topology, fat_tree, jellyfish, leaf_spine
from dcgym.topologies.rerouting import RouteChange, route_changes, surviving_routes
from dcgym.topologies.routing import RouteTable


def dead_ports_of(network: Topology, *pairs: tuple[str, str]) -> set[str]:
    """One end of each link: the other one is as good as dead."""
    return {p.name for a, b in pairs for p in network.ports(a) if p.peer == b}


def has_loop(network: Topology, hops: dict[str, tuple[int, ...]]) -> bool:
    """Whether some choice of next hops for one host leads back to a switch."""
    graph: networkx.DiGraph[str] = networkx.DiGraph()
    for switch, numbers in hops.items():
        peers = {port.number: port.peer for port in network.ports(switch)}
        graph.add_edges_from((switch, peers[number]) for number in numbers)
    return not networkx.is_directed_acyclic_graph(graph)


def ports_of(network: Topology, routes: RouteTable) -> dict[tuple[str, str], tuple[int, ...]]:
    """The next hops of every switch to every host."""
    pairs = itertools.product(network.switches, network.hosts)
    return {(s.name, h.name): routes.next_hops(s.name, h.name) for s, h in pairs}


def loops_while_installing(
    network: Topology, old: RouteTable, changes: Sequence[RouteChange]
) -> bool:
    state = ports_of(network, old)
    for change in changes:
        state[change.switch, change.host] = change.ports
        hops = {switch: p for (switch, host), p in state.items() if host == change.host}
        if has_loop(network, hops):
            return True
    return False


def test_the_whole_network_has_its_own_routes() -> None:
    network = fat_tree(4)
    routes = surviving_routes(network)
    assert all(ports == network.next_hops(*key) for key, ports in ports_of(network, routes).items())
    # Further switches on the way: none at the edge, two within a pod, four between pods.
    assert [routes.route("s1", host)[0] for host in ("h1", "h3", "h16")] == [0, 2, 4]


def test_fat_tree_routes_around_an_uplink() -> None:
    network = fat_tree(4)
    routes = surviving_routes(network, dead_ports_of(network, ("s1", "s9")))
    assert routes.route("s1", "h16") == (4, (4,))  # by s10 alone
    assert routes.route("s2", "h1") == (2, (4,))  # s9 cannot reach s1 any more
    assert routes.route("s2", "h16") == (4, (3, 4))
    # s9 reaches h1 by way of s2 and s10: down, and up again.
    assert routes.route("s9", "h1") == (3, (2,))


def test_a_host_that_lost_its_link_has_no_routes() -> None:
    network = leaf_spine(leaves=2, spines=2, hosts_per_leaf=2)
    routes = surviving_routes(network, dead_ports_of(network, ("s1", "h1")))
    assert all(routes.route(switch.name, "h1") == (None, ()) for switch in network.switches)
    assert routes.route("s1", "h2") == (0, (2,))


@pytest.mark.parametrize("seed", range(12))
def test_no_state_on_the_way_has_a_loop(seed: int) -> None:
    rng = random.Random(seed)
    network = jellyfish(switches=12, degree=3, hosts_per_switch=1, seed=seed)
    links = [(k.a, k.b) for k in network.links if k.a[0] == k.b[0] == "s"]
    old = surviving_routes(network)
    for _ in range(4):
        dead = dead_ports_of(network, *rng.sample(links, rng.randint(0, 5)))
        new = surviving_routes(network, dead)
        changes = route_changes(network, old, new)
        assert not loops_while_installing(network, old, changes)
        before, after = ports_of(network, old), ports_of(network, new)
        different = {key: ports for key, ports in after.items() if ports != before[key]}
        assert {(c.switch, c.host): c.ports for c in changes} == different
        old = new


def test_any_other_order_does_have_loops() -> None:
    """The test above can fail: the reverse order makes loops in the same networks."""
    looping = 0
    for seed in range(12):
        network = jellyfish(switches=12, degree=3, hosts_per_switch=1, seed=seed)
        links = [(k.a, k.b) for k in network.links if k.a[0] == k.b[0] == "s"]
        old = surviving_routes(network)
        new = surviving_routes(network, dead_ports_of(network, *links[:3]))
        looping += loops_while_installing(network, old, route_changes(network, old, new)[::-1])
    assert looping > 0
