"""Where to draw each node: a row of switches, layers, or a ring where layers would not do."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dcgym.topologies.base import Graph

__all__ = ["layout"]

_Positions = dict[str, tuple[float, float]]

_MOST_WITHIN_LAYERS = 0.2  # share of the links between switches that may lie inside one layer
_FAN = 1.3  # from a switch on the ring to its endpoints


def layout(topology: Graph) -> _Positions:
    """Return the position of each node; neighbouring nodes are about 1 apart.

    Args:
        topology: What to lay out.

    Returns:
        (x, y) by node name, y growing upwards.
    """
    forwarders = _forwarder_neighbours(topology)
    chain = _chain(forwarders)
    has_layers = any(node.layer is not None for node in topology.nodes)
    if len(chain) > 1 and not has_layers:
        return _lay_out_chain(topology, chain)
    levels = _levels(topology, forwarders)
    if _share_within_layers(forwarders, levels) > _MOST_WITHIN_LAYERS:
        return _lay_out_ring(topology, _walk(forwarders))
    return _lay_out_layers(_layers(topology, levels))


def _forwarder_neighbours(topology: Graph) -> dict[str, list[str]]:
    neighbours: dict[str, list[str]] = {switch.name: [] for switch in topology.switches}
    for link in topology.links:
        if link.a in neighbours and link.b in neighbours and link.b not in neighbours[link.a]:
            neighbours[link.a].append(link.b)
            neighbours[link.b].append(link.a)
    return neighbours


def _chain(neighbours: dict[str, list[str]]) -> list[str]:
    """Return the forwarders in a row if they form one, else nothing."""
    ends = [name for name, peers in neighbours.items() if len(peers) == 1]
    if len(ends) != 2 or any(len(peers) > 2 for peers in neighbours.values()):
        return []
    row = [ends[0]]
    while len(row) < len(neighbours):
        following = [name for name in neighbours[row[-1]] if name not in row[-2:]]
        row.append(following[0])
    return row


def _lay_out_chain(topology: Graph, chain: Sequence[str]) -> _Positions:
    attached: dict[str, list[str]] = {name: [] for name in chain}
    for host in topology.hosts:
        attached[topology.ports(host.name)[0].peer].append(host.name)
    sides = [len(attached[chain[0]]), len(attached[chain[-1]])]
    reach = max(1.6, 0.45 * max(sides))
    step = max([2.0] + [0.8 * len(attached[name]) for name in chain[1:-1]])
    positions: _Positions = {name: (i * step, 0.0) for i, name in enumerate(chain)}
    for x, name in ((-reach, chain[0]), ((len(chain) - 1) * step + reach, chain[-1])):
        heights = reversed(_spread(len(attached[name])))
        positions |= {host: (x, y) for host, y in zip(attached[name], heights, strict=True)}
    for name in chain[1:-1]:
        centre = positions[name][0]
        offsets = _spread(len(attached[name]), 0.8)
        positions |= {
            host: (centre + x, -1.6) for host, x in zip(attached[name], offsets, strict=True)
        }
    return positions


def _lay_out_layers(layers: list[list[str]]) -> _Positions:
    width = max(len(layers[0]), 1.6 * max(len(layer) for layer in layers))
    height = max(1.5, 0.11 * width)
    positions: _Positions = {}
    for level, layer in enumerate(layers):
        pitch = width / max(1, len(layer))
        for place, name in enumerate(layer):
            positions[name] = ((place + 0.5) * pitch, level * height)
    return positions


def _levels(topology: Graph, forwarders: dict[str, list[str]]) -> dict[str, int]:
    """Return the height of each forwarder: its own, or its distance from the nearest endpoint."""
    edge = [
        switch.name
        for switch in topology.switches
        if any(topology.node(port.peer).is_endpoint for port in topology.ports(switch.name))
    ]
    level = dict.fromkeys(edge, 1)
    waiting = deque(edge)
    while waiting:
        name = waiting.popleft()
        for peer in forwarders[name]:
            if peer not in level:
                level[peer] = level[name] + 1
                waiting.append(peer)
    own = {node.name: node.layer for node in topology.switches if node.layer is not None}
    return level | own


def _layers(topology: Graph, levels: dict[str, int]) -> list[list[str]]:
    """Return the nodes of each layer, in index order; endpoints without one are the lowest."""
    heights = {node.name: node.layer or 0 for node in topology.hosts} | levels
    layers: list[list[str]] = [[] for _ in range(max(heights.values(), default=0) + 1)]
    names = _hosts_beside_their_switch(topology) + [switch.name for switch in topology.switches]
    for name in names:
        layers[heights[name]].append(name)
    return [layer for layer in layers if layer]


def _share_within_layers(forwarders: dict[str, list[str]], levels: dict[str, int]) -> float:
    spans = [levels[name] == levels[peer] for name, peers in forwarders.items() for peer in peers]
    return sum(spans) / max(1, len(spans))


def _walk(neighbours: dict[str, list[str]]) -> list[str]:
    """Return the forwarders depth first, so that neighbours on the ring are mostly linked."""
    seen: dict[str, None] = {}
    waiting = list(reversed(neighbours))
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen[name] = None
            waiting += reversed(neighbours[name])
    return list(seen)


def _lay_out_ring(topology: Graph, names: Sequence[str]) -> _Positions:
    """Put the forwarders on a circle, and each one's endpoints in a fan outside of it."""
    attached: dict[str, list[str]] = {name: [] for name in names}
    for host in topology.hosts:
        attached[topology.ports(host.name)[0].peer].append(host.name)
    broadest = max(len(hosts) for hosts in attached.values())
    # The circle of the endpoints, one unit further out, has room for the broadest fan of all.
    circumference = len(names) * max(1.4, 0.9 * broadest)
    radius = max(2.0, circumference / math.tau - _FAN)
    positions: _Positions = {}
    for place, name in enumerate(names):
        # From the top, clockwise.
        angle = math.pi / 2 - math.tau * place / len(names)
        positions[name] = _polar(radius, angle)
        offsets = _spread(len(attached[name]), 0.9 / (radius + _FAN))
        for endpoint, offset in zip(attached[name], offsets, strict=True):
            positions[endpoint] = _polar(radius + _FAN, angle - offset)
    return positions


def _polar(radius: float, angle: float) -> tuple[float, float]:
    return radius * math.cos(angle), radius * math.sin(angle)


def _hosts_beside_their_switch(topology: Graph) -> list[str]:
    def key(name: str) -> tuple[int, int]:
        first = topology.ports(name)[0] if topology.ports(name) else None
        switch = topology.node(first.peer).index if first else 0
        return switch, topology.node(name).index

    return sorted((host.name for host in topology.hosts), key=key)


def _spread(count: int, pitch: float = 0.9) -> list[float]:
    return [(place - (count - 1) / 2) * pitch for place in range(count)]
