"""Pictures of plans."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dcgym.errors import MissingDependency
from dcgym.traffic.analysis.summary import link_loads, pair_bytes, sent_bytes, span_s
from dcgym.traffic.plans.plan import Plan
from dcgym.traffic.plans.records import NONE, Records
from dcgym.units import NS_PER_S
from dcgym.writing import PICTURES, check_output, write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dcgym.topologies import Port, Topology

__all__ = ["draw_plan", "plan_figure"]

_INK = "#1f2933"
_BLUE, _ORANGE, _GREEN = "#3e7cb1", "#e08e45", "#2a9d8f"
_BINS = 120
# More bars than that are finer than the picture's pixels; the highest ones are kept.
_MOST_BARS = 160
# Above so many flows a line for each is a grey block, and arrivals are counted in bins instead.
_MOST_LINES = 200


def draw_plan(plan: Plan, topology: Topology, path: str | Path) -> None:
    """Draw a plan to an .svg, .png or .pdf file.

    Args:
        plan: What to draw.
        topology: The network that carries it.
        path: Where to; the suffix decides the format.

    Raises:
        ConfigError: Unknown suffix, or the file cannot be written.
        MissingDependency: Matplotlib is not installed.
    """
    path = check_output(path, "path", PICTURES)
    picture = plan_figure(plan, topology)
    write_file(path, "path", lambda to: picture.savefig(to, dpi=110, format=path.suffix[1:]))


def plan_figure(plan: Plan, topology: Topology) -> Figure:
    """Return a Matplotlib figure: arrivals, sizes, pairs, and the load of the links.

    Args:
        plan: The plan.
        topology: The network.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency("matplotlib", "report") from error
    records = plan.to_records([host.name for host in topology.hosts])
    # No pyplot: it would keep each figure alive and pick a window system.
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    axes = figure.subplots(2, 2)
    figure.suptitle(
        f"{plan.name}, seed {plan.seed}: {len(plan):,} flows on {topology.name}",
        color=_INK,
        parse_math=False,  # names are no formulas
    )
    _paint_arrivals(axes[0, 0], records, topology)
    _paint_sizes(axes[0, 1], records)
    _paint_pairs(axes[1, 0], records, topology)
    _paint_loads(axes[1, 1], records, topology)
    for panel in axes.flat:
        panel.spines[["top", "right"]].set_visible(False)
    return figure


def _paint_arrivals(axes: Axes, records: Records, topology: Topology) -> None:
    timed = records[records["after"] == NONE]
    end_s = span_s(records)
    if len(timed) <= _MOST_LINES or end_s == 0:
        _paint_flows(axes, timed, topology)
        if len(timed) < len(records):
            axes.set_title(f"first flows of {len(timed)} closed loops")
        return
    edges_s = np.linspace(0, end_s, _BINS + 1)
    width_s = edges_s[1]
    starts_s = timed["start_ns"] / NS_PER_S
    counts = np.histogram(starts_s, edges_s)[0]
    axes.stairs(counts / width_s, edges_s, fill=True, color=_BLUE, alpha=0.75)
    axes.set(title="arrivals", xlabel="planned start, s", ylabel="flows per second")
    axes.set_ylim(bottom=0)
    amounts = sent_bytes(timed)
    if not np.isnan(amounts).any():
        rates_bps = np.histogram(starts_s, edges_s, weights=amounts)[0] * 8 / width_s
        other = axes.twinx()
        unit, divisor = ("Gbit/s", 1e9) if rates_bps.max() >= 1e9 else ("Mbit/s", 1e6)
        other.stairs(rates_bps / divisor, edges_s, color=_ORANGE)
        other.set_ylabel(f"offered, {unit}", color=_ORANGE)
        other.set_ylim(bottom=0)
        other.spines["top"].set_visible(False)


def _paint_flows(axes: Axes, records: Records, topology: Topology) -> None:
    """Paint a line for each flow: from its start to its planned end, an arrow where it is open."""
    end_s = span_s(records) or 1.0
    records = records[:_MOST_LINES]
    order = np.argsort(records["start_ns"], kind="stable")
    for height, flow in enumerate(records[order]):
        start_s = flow["start_ns"] / NS_PER_S
        lasts_s = flow["duration_ns"] / NS_PER_S if flow["duration_ns"] != NONE else None
        colour = _ORANGE if flow["transport"] else _BLUE
        if lasts_s is not None:
            axes.hlines(height, start_s, start_s + lasts_s, color=colour)
        axes.plot(start_s, height, marker="o" if lasts_s else ">", color=colour, markersize=4)
    axes.set(title="flows (orange: UDP)", xlabel="planned start, s", ylabel="flow")
    if len(records) <= 24:
        names = [topology.hosts[i].name for i in range(len(topology.hosts))]
        labels = [f"{names[flow['src']]}-{names[flow['dst']]}" for flow in records[order]]
        axes.set_yticks(range(len(records)), labels, fontsize=8)
    axes.set_xlim(-0.02 * end_s, 1.04 * end_s)
    axes.set_ylim(-0.5, max(len(records), 1) - 0.5)


def _paint_sizes(axes: Axes, records: Records) -> None:
    sizes = np.sort(records["size_bytes"][records["size_bytes"] != NONE]).astype(np.float64)
    axes.set(title="sizes", xlabel="bytes", ylabel="share of at most that size")
    if not sizes.size:
        _say(axes, "no flow has a size")
        return
    of_flows = (np.arange(sizes.size) + 1) / sizes.size
    of_bytes = np.cumsum(sizes) / sizes.sum()
    # Points in even steps of both curves: the few largest flows carry most bytes.
    steps = np.linspace(0, 1, 500)
    ranks = [np.searchsorted(curve, steps) for curve in (of_flows, of_bytes)]
    shown = np.unique(np.minimum(np.concatenate(ranks), sizes.size - 1))
    axes.step(sizes[shown], of_flows[shown], where="post", color=_BLUE, label="flows")
    axes.step(sizes[shown], of_bytes[shown], where="post", color=_ORANGE, label="bytes")
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)


def _paint_pairs(axes: Axes, records: Records, topology: Topology) -> None:
    count = len(topology.hosts)
    matrix, unit = pair_bytes(records, count)
    edges = np.arange(count + 1) + 0.5
    shown = np.ma.masked_equal(matrix, 0)
    mesh = axes.pcolormesh(edges, edges, shown, cmap="viridis_r", vmin=0, rasterized=True)
    axes.figure.colorbar(mesh, ax=axes, label=unit, pad=0.02)
    axes.set(title="pairs", xlabel="destination", ylabel="source")
    axes.invert_yaxis()
    ticks = range(1, count + 1, -(-count // 16))
    axes.set_xticks(ticks, [topology.hosts[i - 1].name for i in ticks], fontsize=8)
    axes.set_yticks(ticks, [topology.hosts[i - 1].name for i in ticks])


def _paint_loads(axes: Axes, records: Records, topology: Topology) -> None:
    loads = link_loads(records, topology)
    axes.set(title="offered load of the links, highest first", ylabel="load")
    if loads is None:
        _say(axes, "depends on the network:\nflows are endless, wait for others,\nor start at once")
        return
    ports = topology.directed_ports
    order = np.argsort(-loads, kind="stable")[:_MOST_BARS]
    is_host = [_touches_host(topology, ports[i]) for i in order]
    colours = [_BLUE if host else _GREEN for host in is_host]
    axes.bar(np.arange(len(order)), loads[order], width=1.0, color=colours)
    axes.axhline(1, color=_INK, linewidth=0.8, linestyle="--")
    axes.set_xlabel("links of hosts (blue) and between switches (green)")
    if len(order) <= 12:
        axes.set_xticks(
            np.arange(len(order)), [f"{ports[i].node}-{ports[i].peer}" for i in order], rotation=45
        )
    else:
        first = ports[order[0]]
        axes.annotate(
            f"{first.node}-{first.peer}: {loads[order[0]]:.2f}",
            (0, loads[order[0]]),
            (8, 2),
            textcoords="offset points",
            color=_INK,
        )
        axes.set_xticks([])


def _touches_host(topology: Topology, port: Port) -> bool:
    return any(topology.node(name).is_endpoint for name in (port.node, port.peer))


def _say(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes, color=_INK)
    axes.set_xticks([])
    axes.set_yticks([])
