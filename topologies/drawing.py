"""Pictures of topologies: still for documents, coloured by load for `render`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dcgym.config import check_in
from dcgym.errors import ConfigError, MissingDependency
from dcgym.topologies.layout import layout
from dcgym.units import format_rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dcgym.topologies.graph import Port, Topology

__all__ = ["FORMATS", "draw", "figure", "paint"]

FORMATS = (".svg", ".png", ".pdf")
"""File formats that can be drawn."""

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
_MAX_INCHES = 16.0
_QUEUE_COLOUR = "#b3202c"


def draw(topology: Topology, path: str | Path) -> None:
    """Draw a topology to an .svg, .png or .pdf file.

    Args:
        topology: What to draw.
        path: Where to; the suffix decides the format.

    Raises:
        ConfigError: Unknown suffix, or the file cannot be written.
        MissingDependency: Matplotlib is not installed.
    """
    path = Path(path)
    check_in(f"suffix of {path.name}", path.suffix.lower(), FORMATS)
    picture = figure(topology)
    try:
        picture.savefig(path, dpi=150, format=path.suffix.lower()[1:])
    except OSError as error:
        raise ConfigError("path", str(path), f"a writable file ({error.strerror})") from error


def figure(
    topology: Topology,
    utilisation: Sequence[float] | None = None,
    occupancy: Sequence[float] | None = None,
) -> Figure:
    """Return a Matplotlib figure of a topology, sized to fit it.

    Args:
        topology: What to draw.
        utilisation: Load of each switch port, 0 to 1, in the order of `switch_ports`.
        occupancy: Filling of each switch port's queue, 0 to 1, in the same order.
    """
    figure_class = _figure_class()
    positions = layout(topology)
    width, height = _extent(positions)
    inches_per_unit = min(0.8, _MAX_INCHES / width, _MAX_INCHES / height)
    # No pyplot: it would keep each figure alive and pick a window system.
    size = (max(4.0, width * inches_per_unit), max(2.2, height * inches_per_unit) + 0.4)
    picture = figure_class(figsize=size, layout="constrained")
    paint(topology, picture.add_subplot(), utilisation, occupancy)
    return picture


def paint(
    topology: Topology,
    axes: Axes,
    utilisation: Sequence[float] | None = None,
    occupancy: Sequence[float] | None = None,
) -> None:
    """Paint a topology onto Matplotlib axes.

    The half of a cable next to a switch port takes the colour of that port's load; a bar on it
    grows with the port's queue.

    Args:
        topology: What to draw.
        axes: Where to draw it.
        utilisation: Load of each switch port, 0 to 1, in the order of `switch_ports`.
        occupancy: Filling of each switch port's queue, 0 to 1, in the same order.
    """
    positions = layout(topology)
    points = _points_per_unit(axes, positions)
    axes.set_aspect("equal")
    axes.set_axis_off()
    _paint_cables(topology, axes, positions, points)
    if utilisation is not None:
        _paint_load(topology, axes, positions, utilisation, points)
    if occupancy is not None:
        _paint_queues(topology, axes, positions, occupancy, points)
    _paint_nodes(topology, axes, positions, points)
    axes.set_title(_title(topology), fontsize=10, color=_INK)
    axes.margins(0)
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
    topology: Topology, axes: Axes, positions: Mapping[str, tuple[float, float]], points: float
) -> None:
    from matplotlib.collections import LineCollection

    fastest = max((link.rate_bps for link in topology.links), default=1)
    segments = [(positions[link.a], positions[link.b]) for link in topology.links]
    thick = min(2.2, 0.045 * points)
    widths = [thick * max(0.4, link.rate_bps / fastest) for link in topology.links]
    axes.add_collection(LineCollection(segments, colors=_CABLE, linewidths=widths, zorder=1))


def _paint_load(
    topology: Topology,
    axes: Axes,
    positions: Mapping[str, tuple[float, float]],
    utilisation: Sequence[float],
    points: float,
) -> None:
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection

    palette = colormaps["YlGnBu"]
    segments, colours = [], []
    for port, load in zip(topology.switch_ports, utilisation, strict=True):
        segments.append((positions[port.node], _along(port, positions, 0.5)))
        colours.append(palette(0.15 + 0.8 * min(max(float(load), 0.0), 1.0)))
    width = min(4.0, 0.08 * points)
    axes.add_collection(LineCollection(segments, colors=colours, linewidths=width, zorder=2))


def _paint_queues(
    topology: Topology,
    axes: Axes,
    positions: Mapping[str, tuple[float, float]],
    occupancy: Sequence[float],
    points: float,
) -> None:
    from matplotlib.collections import LineCollection

    segments = []
    for port, filling in zip(topology.switch_ports, occupancy, strict=True):
        share = min(max(float(filling), 0.0), 1.0)
        if share > 0:
            # Node markers hide the first part of the cable.
            ends = _along(port, positions, 0.15), _along(port, positions, 0.15 + 0.33 * share)
            segments.append(ends)
    width = min(9.0, 0.18 * points)
    axes.add_collection(LineCollection(segments, colors=_QUEUE_COLOUR, linewidths=width, zorder=3))


def _along(
    port: Port, positions: Mapping[str, tuple[float, float]], share: float
) -> tuple[float, float]:
    (x, y), (peer_x, peer_y) = positions[port.node], positions[port.peer]
    return x + (peer_x - x) * share, y + (peer_y - y) * share


def _paint_nodes(
    topology: Topology, axes: Axes, positions: Mapping[str, tuple[float, float]], points: float
) -> None:
    side = min(26.0, 0.62 * points)
    for role, colour in _COLOURS.items():
        names = [node.name for node in topology.nodes if node.role == role]
        if not names:
            continue
        xs, ys = zip(*(positions[name] for name in names), strict=True)
        is_endpoint = topology.node(names[0]).is_endpoint
        style: dict[str, Any] = {"marker": "o" if is_endpoint else "s", "s": side**2}
        axes.scatter(xs, ys, c=colour, edgecolors="white", linewidths=side / 20, zorder=4, **style)
    # Below four points nobody can read a label, and a thousand of them take seconds.
    if 0.36 * side >= 4:
        for node in topology.nodes:
            _label(axes, node.name, positions[node.name], 0.36 * side)


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


def _title(topology: Topology) -> str:
    rates = sorted({link.rate_bps for link in topology.links})
    spans = format_rate(rates[0]) if rates else "no links"
    if len(rates) > 1:
        spans += f" to {format_rate(rates[-1])}"
    switches = len(topology.switches)
    plural = "es" if switches != 1 else ""
    return f"{topology.name}: {len(topology.hosts)} hosts, {switches} switch{plural}, {spans}/s"
