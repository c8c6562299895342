"""A network too big for a map: ports side by side in rows, one row a kind of port."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.envs.render.sheet import MUTED, Sheet
from dcgym.topologies import Topology

__all__ = ["PortRows"]

FloatArray = npt.NDArray[np.float64]
Box = tuple[int, int, int, int]

MOST_KINDS = 6
PITCH = 56


@dataclass(frozen=True)
class _Kind:
    name: str
    ports: npt.NDArray[np.intp]


class PortRows:
    """The switch ports of a network in a box of a sheet.

    Args:
        topology: What to draw.
        box: Left, top, right and bottom on the sheet.
    """

    def __init__(self, topology: Topology, box: Box) -> None:
        self._kinds, self._box = _kinds(topology), box

    @property
    def height(self) -> int:
        """Pixels that the rows take."""
        return PITCH * len(self._kinds)

    def draw(self, sheet: Sheet, load: FloatArray, fill: FloatArray, shares: FloatArray) -> None:
        """Draw load and queue of every port.

        Args:
            sheet: What to draw on.
            load: Of each switch port, 0 to 1.
            fill: Of each switch port's queue, 0 to 1.
            shares: Share of each host, which is not drawn here.
        """
        left, top, right, _ = self._box
        for row, kind in enumerate(self._kinds):
            y = top + row * PITCH
            own_load, own_fill = load[kind.ports], fill[kind.ports]
            sheet.text(left, y + 10, f"{kind.name}: {len(kind.ports)} ports", 13)
            words = (
                f"load: mean {own_load.mean() * 100:.0f} %, most {own_load.max() * 100:.0f} %"
                f"     queue: mean {own_fill.mean() * 100:.0f} %, most {own_fill.max() * 100:.0f} %"
            )
            sheet.text(right, y + 10, words, 12, MUTED, "r")
            for place, (name, values) in enumerate((("load", own_load), ("queue", own_fill))):
                line = y + 20 + place * 15
                sheet.text(left, line + 7, name, 11, MUTED)
                sheet.strip((left + 40, line, right, line + 13), values)


def _kinds(topology: Topology) -> list[_Kind]:
    """Group the switch ports by how far both ends are from the nearest host."""
    tiers = _tiers(topology)
    ports = topology.switch_ports
    ends = [(tiers[port.node], tiers[port.peer]) for port in ports]
    if len(set(ends)) > MOST_KINDS:
        ends = [(1, min(peer, 1)) for _, peer in ends]
    kinds = []
    for source, target in sorted(set(ends)):
        name = f"tier {source} to {f'tier {target}' if target else 'hosts'}"
        kinds.append(_Kind(name, np.flatnonzero([pair == (source, target) for pair in ends])))
    return kinds


def _tiers(topology: Topology) -> dict[str, int]:
    tiers = {node.name: 0 for node in topology.nodes if node.is_endpoint}
    edge = list(tiers)
    while edge:
        reached = []
        for name in edge:
            for port in topology.ports(name):
                if port.peer not in tiers:
                    tiers[port.peer] = tiers[name] + 1
                    reached.append(port.peer)
        edge = reached
    # A switch that leads nowhere carries nothing.
    return {node.name: tiers.get(node.name, 1) for node in topology.nodes}
