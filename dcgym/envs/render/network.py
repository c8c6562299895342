"""A picture of the network: link load as colour, queues as bars. Loaded only when asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.errors import MissingDependency
from dcgym.tasks.network.interval import Interval
from dcgym.topologies import Topology
from dcgym.topologies.io.layout import layout

__all__ = ["draw_network"]

SIZE_INCHES = (8.0, 5.0)
DPI = 100
# Names of more nodes than this would cover each other.
MAX_NODES_WITH_SHARES = 20

Positions = dict[str, tuple[float, float]]


def draw_network(
    topology: Topology, interval: Interval, shares: npt.NDArray[np.float64]
) -> npt.NDArray[np.uint8]:
    """Return an RGB image, 500 x 800 x 3.

    Each switch port colours its own half of the link by load, and carries a bar that fills with
    its queue. Below a host stands its rate share.

    Args:
        topology: The network.
        interval: What its ports did.
        shares: Rate share of each host.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency("matplotlib", "report") from error
    figure = Figure(figsize=SIZE_INCHES, dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0.02, 0.02, 0.82, 0.96))
    axes.set_axis_off()
    axes.margins(0.08, 0.16)
    positions = _place_nodes(topology)
    _draw_links(axes, topology, positions)
    _draw_ports(figure, axes, topology, positions, interval)
    _draw_nodes(axes, topology, positions, shares)
    canvas.draw()  # type: ignore[no-untyped-call]
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()  # type: ignore[no-untyped-call]


def _place_nodes(topology: Topology) -> Positions:
    """Fit the layout of the network into a square of side 1."""
    names, places = zip(*layout(topology).items(), strict=True)
    corners = np.array(places)
    low, span = corners.min(axis=0), np.ptp(corners, axis=0)
    unit = np.where(span > 0, (corners - low) / np.where(span > 0, span, 1.0), 0.5)
    return {name: (float(x), float(y)) for name, (x, y) in zip(names, unit, strict=True)}


def _draw_links(axes: Any, topology: Topology, positions: Positions) -> None:
    for link in topology.links:
        (x0, y0), (x1, y1) = positions[link.a], positions[link.b]
        axes.plot([x0, x1], [y0, y1], color="0.85", linewidth=2, zorder=1)


def _draw_ports(
    figure: Any, axes: Any, topology: Topology, positions: Positions, interval: Interval
) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    palette = LinearSegmentedColormap.from_list("load", ["#2a9d8f", "#e9c46a", "#d62828"])
    colours = ScalarMappable(Normalize(0, 100), palette)
    seconds = max(interval.duration_s, 1e-9)
    load = np.clip(interval.port_deltas["tx_bytes"] * 8 / seconds / interval.rates_bps, 0, 1)
    queue = np.clip(interval.ports["backlog_bytes"] / interval.queue_limits_bytes, 0, 1)
    # Bars of many ports are small, so that they do not hide the links.
    height = 0.16 * min(1.0, (12 / len(topology.switch_ports)) ** 0.5)
    for index, port in enumerate(topology.switch_ports):
        start = np.array(positions[port.node])
        middle = (start + np.array(positions[port.peer])) / 2
        colour = palette(load[index])
        axes.plot(*zip(start, middle, strict=True), color=colour, linewidth=4, zorder=2)
        _draw_queue(axes, start + 0.55 * (middle - start), height, float(queue[index]), palette)
    scale = figure.add_axes((0.88, 0.15, 0.025, 0.7))
    figure.colorbar(colours, cax=scale, label="link load, queue fill (%)")


def _draw_queue(
    axes: Any, at: npt.NDArray[np.float64], height: float, fill: float, palette: Any
) -> None:
    from matplotlib.patches import Rectangle

    width = height / 9
    corner = (at[0] - width / 2, at[1] - height / 2)
    frame: dict[str, Any] = {
        "facecolor": "white",
        "edgecolor": "0.3",
        "linewidth": 0.8,
        "zorder": 3,
    }
    axes.add_patch(Rectangle(corner, width, height, **frame))
    axes.add_patch(Rectangle(corner, width, height * fill, color=palette(fill), zorder=4))


def _draw_nodes(
    axes: Any, topology: Topology, positions: Positions, shares: npt.NDArray[np.float64]
) -> None:
    has_room = len(topology.hosts) <= MAX_NODES_WITH_SHARES
    size = min(8.0, 96 / len(topology.hosts))
    for node in topology.nodes:
        x, y = positions[node.name]
        box = {"boxstyle": "round" if node.is_endpoint else "square", "fc": "white", "ec": "0.2"}
        axes.text(x, y, node.name, ha="center", va="center", fontsize=9, bbox=box, zorder=5)
        if node.is_endpoint and has_room:
            label = f"{shares[node.index] * 100:.0f} %"
            axes.text(x, y - 0.06, label, ha="center", va="top", fontsize=size, color="0.3")
