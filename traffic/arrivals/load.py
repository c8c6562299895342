"""How much of a plan's traffic each link carries, with equal-cost paths shared evenly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError, suggest
from dcgym.traffic.plans.patterns import Pairs

if TYPE_CHECKING:
    from dcgym.topologies import Port, Topology

__all__ = ["directed_ports", "link_amounts", "most_loaded", "resolve_link"]

FloatArray = npt.NDArray[np.float64]


def directed_ports(topology: Topology) -> tuple[Port, ...]:
    """Return every direction of every link by the port that sends: hosts first, then switches.

    Args:
        topology: The network.
    """
    hosts = (port for host in topology.hosts for port in topology.ports(host.name))
    return (*hosts, *topology.switch_ports)


def link_amounts(topology: Topology, pairs: Pairs, amounts: FloatArray) -> FloatArray:
    """Spread what pairs of hosts exchange over the links.

    Args:
        topology: The network; its routes are followed, equal-cost next hops in equal shares.
        pairs: Shape (n, 2), indexes of source and destination.
        amounts: Shape (n,), what each pair exchanges, in any unit.

    Returns:
        The amount on each of `directed_ports`.
    """
    ports = directed_ports(topology)
    columns = {(port.node, port.number): i for i, port in enumerate(ports)}
    carried = np.zeros(len(ports))
    first = [columns[port.node, port.number] for port in topology.host_ports]
    np.add.at(carried, np.array(first)[pairs[:, 0]], amounts)
    edges = sorted({port.peer for port in topology.host_ports})
    number = {edge: i for i, edge in enumerate(edges)}
    edge_of = np.array([number[port.peer] for port in topology.host_ports])
    # One sum for each pair of edge switch and sink: thousands of hosts share a few switches.
    sums = np.zeros((len(topology.hosts), len(edges)))
    np.add.at(sums, (pairs[:, 1], edge_of[pairs[:, 0]]), amounts)
    for sink in np.unique(pairs[:, 1]).tolist():
        frontier = {edge: float(sums[sink, i]) for i, edge in enumerate(edges) if sums[sink, i]}
        _descend(topology, topology.hosts[sink].name, frontier, columns, carried)
    return carried


def _descend(
    topology: Topology,
    sink: str,
    frontier: dict[str, float],
    columns: dict[tuple[str, int], int],
    carried: FloatArray,
) -> None:
    """Follow the routes from switches to one sink, adding up what each port carries."""
    while frontier:
        node, amount = frontier.popitem()
        hops = topology.next_hops(node, sink)
        for number in hops:
            column = columns[node, number]
            carried[column] += amount / len(hops)
            peer = topology.ports(node)[number - 1].peer
            if peer != sink:
                frontier[peer] = frontier.get(peer, 0.0) + amount / len(hops)


def most_loaded(topology: Topology, carried: FloatArray) -> int:
    """Return the place in `directed_ports` with the highest amount for its rate.

    Args:
        topology: The network.
        carried: Amount on each of `directed_ports`.
    """
    rates_bps = np.array([port.rate_bps for port in directed_ports(topology)], np.float64)
    return int(np.argmax(carried / rates_bps))


def resolve_link(topology: Topology, name: object, carried: FloatArray, field: str) -> int:
    """Return the place in `directed_ports` of a link that a user names.

    Args:
        topology: The network.
        name: "bottleneck" for the link with the highest load, or "s1-s2" for the direction from
            s1 to s2 (the busiest one, if several links join them).
        carried: Amount on each of `directed_ports`.
        field: Names the field in the error message.

    Raises:
        ConfigError: No such link, or nothing crosses it.
    """
    if name == "bottleneck":
        return most_loaded(topology, carried)
    ports = directed_ports(topology)
    names = [f"{port.node}-{port.peer}" for port in ports]
    if name not in names:
        allowed = f"bottleneck, or a link of {topology.name} such as {names[-1]}"
        raise ConfigError(field, name, allowed, suggest(name, names))
    chosen = max((i for i, known in enumerate(names) if known == name), key=lambda i: carried[i])
    if carried[chosen] <= 0:
        raise ConfigError(field, name, "a link that some of the pairs use")
    return chosen
