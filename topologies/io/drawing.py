"""Pictures of topologies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dcgym.errors import MissingDependency
from dcgym.topologies.io.layout import layout
from dcgym.topologies.validation import DEFAULT_MTU_BYTES
from dcgym.units import format_rate
from dcgym.writing import PICTURES, check_output, write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dcgym.topologies.base import Graph

__all__ = ["draw", "figure", "paint"]

_INK = "#1f2933"
_CABLE = "#9aa5b1"
_COLOURS = {
    "host": "#3e7cb1",
    "server": "#2a9d8f",
    "client": "#8d6cab",
    "switch": "#e08e45",
    "balancer": "#c8553d",
}
_MARGIN = 0.75
_MOST_ROOM = 4.0  # layout units that a node may fill where it is alone
_MOST_DISTANCES = 1_000_000
_MAX_INCHES = 16.0


def draw(topology: Graph, path: str | Path) -> None:
    """Draw a topology to an .svg, .png or .pdf file.

    Args:
        topology: What to draw.
        path: Where to; the suffix decides the format.

    Raises:
        ConfigError: Unknown suffix, or the file cannot be written.
        MissingDependency: Matplotlib is not installed.
    """
    path = check_output(path, "path", PICTURES)
    picture = figure(topology)
    write_file(path, "path", lambda to: picture.savefig(to, dpi=150, format=path.suffix[1:]))


def figure(topology: Graph) -> Figure:
    """Return a Matplotlib figure of a topology, sized to fit it.

    Args:
        topology: The network.
    """
    figure_class = _figure_class()
    positions = layout(topology)
    width, height = _extent(positions)
    inches_per_unit = min(0.8, _MAX_INCHES / width, _MAX_INCHES / height)
    # No pyplot: it would keep each figure alive and pick a window system.
    size = (max(4.0, width * inches_per_unit), max(2.2, height * inches_per_unit) + 0.4)
    picture = figure_class(figsize=size, layout="constrained")
    paint(topology, picture.add_subplot())
    return picture


def paint(topology: Graph, axes: Axes) -> None:
    """Paint a topology onto Matplotlib axes.

    Args:
        topology: What to draw.
        axes: Where to draw it.
    """
    positions = layout(topology)
    points = _points_per_unit(axes, positions)
    axes.set_aspect("equal")
    axes.set_axis_off()
    _paint_cables(topology, axes, positions, points)
    _paint_nodes(topology, axes, positions, points)
    # A picture of 16 inches is looked at from further away.
    width_inches = axes.get_window_extent().width / axes.figure.dpi
    axes.set_title(_title(topology), fontsize=max(10.0, width_inches), color=_INK, parse_math=False)
    xs, ys = zip(*positions.values(), strict=True)
    axes.set_xlim(min(xs) - _MARGIN, max(xs) + _MARGIN)
    axes.set_ylim(min(ys) - _MARGIN, max(ys) + _MARGIN)


def _figure_class() -> type[Figure]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency("matplotlib", "report") from error
    return Figure


def _extent(positions: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
    xs, ys = zip(*positions.values(), strict=True)
    return max(xs) - min(xs) + 2 * _MARGIN, max(ys) - min(ys) + 2 * _MARGIN


def _points_per_unit(axes: Axes, positions: Mapping[str, tuple[float, float]]) -> float:
    """Return typographic points per layout unit, so that big fabrics get small nodes."""
    width, height = _extent(positions)
    box = axes.get_window_extent()
    dots_per_point = axes.figure.dpi / 72
    return float(min(box.width / width, box.height / height) / dots_per_point)


def _paint_cables(
    topology: Graph, axes: Axes, positions: Mapping[str, tuple[float, float]], points: float
) -> None:
    from matplotlib.collections import LineCollection

    fastest = max((link.rate_bps for link in topology.links), default=1)
    segments = [(positions[link.a], positions[link.b]) for link in topology.links]
    thick = min(2.2, 0.045 * points)
    # By decades: a tenth of the rate is a third of the width, and no link is invisible.
    widths = [max(0.5, thick * (link.rate_bps / fastest) ** 0.5) for link in topology.links]
    axes.add_collection(LineCollection(segments, colors=_CABLE, linewidths=widths, zorder=1))


def _paint_nodes(
    topology: Graph, axes: Axes, positions: Mapping[str, tuple[float, float]], points: float
) -> None:
    for role, colour in _COLOURS.items():
        names = [node.name for node in topology.nodes if node.role == role]
        if not names:
            continue
        side = min(26.0, 0.62 * points * _room(names, positions))
        xs, ys = zip(*(positions[name] for name in names), strict=True)
        is_endpoint = topology.node(names[0]).is_endpoint
        axes.scatter(
            xs,
            ys,
            s=side**2,
            c=colour,
            marker="o" if is_endpoint else "s",
            edgecolors="white",
            linewidths=side / 20,
            zorder=4,
        )
        # Below four points nobody can read a label, and a thousand of them take seconds.
        if 0.36 * side >= 4:
            for name in names:
                _label(axes, name, positions[name], 0.36 * side)


def _room(names: Sequence[str], positions: Mapping[str, tuple[float, float]]) -> float:
    """Return the least distance of any of the nodes from its nearest neighbour, about 1 or more."""
    if len(names) * len(positions) > _MOST_DISTANCES:
        return 1.0
    everybody = np.array([complex(*place) for place in positions.values()])
    own = np.array([complex(*positions[name]) for name in names])
    distances = np.abs(own[:, None] - everybody[None, :])
    return float(np.min(distances, where=distances > 0, initial=_MOST_ROOM))


def _label(axes: Axes, text: str, position: tuple[float, float], size: float) -> None:
    axes.text(
        *position,
        text,
        ha="center",
        va="center",
        fontsize=size,
        color="white",
        fontweight="bold",
        zorder=5,
        clip_on=True,
    )


def _title(topology: Graph) -> str:
    rates = sorted({link.rate_bps for link in topology.links})
    spans = f"{format_rate(rates[0])}/s" if rates else "no links"
    if len(rates) > 1:
        spans += f" to {format_rate(rates[-1])}/s"
    switches = len(topology.switches)
    plural = "es" if switches != 1 else ""
    least_mtu = min((link.mtu_bytes for link in topology.links), default=DEFAULT_MTU_BYTES)
    if any(link.mtu_bytes != DEFAULT_MTU_BYTES for link in topology.links):
        spans += f", MTU from {least_mtu} bytes"
    return f"{topology.name}: {len(topology.hosts)} hosts, {switches} switch{plural}, {spans}"
