"""Small drawings as SVG text: networks as circles and lines, pools as servers with processors."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from dcgym.tasks.accelerators import AcceleratorPool
from dcgym.tasks.balancing import Scenario, ServerGroup
from dcgym.topologies import Topology
from dcgym.topologies.io.layout import layout

__all__ = ["device_pool_drawing", "network_drawing", "pool_drawing"]

INK, CABLE = "#1f2933", "#9aa5b1"
COLOURS = {
    "host": "#3e7cb1",
    "server": "#2a9d8f",
    "client": "#8d6cab",
    "switch": "#e08e45",
    "balancer": "#c8553d",
}
UNIT = 60.0  # of a network's layout
MOST_WIDTH = 640.0
CELL = 11.0  # a processor with its margin
SIDE = 9
GAP = 3.0
BALANCER = 24.0  # from one to the next
LEFT = 300.0  # where servers begin
MOST_BALANCERS = 6


def network_drawing(topology: Topology) -> str:
    """Return the drawing of a network, with the names of its nodes.

    Args:
        topology: The network.
    """
    places = layout(topology)
    xs, ys = zip(*places.values(), strict=True)
    unit = min(UNIT, MOST_WIDTH / (max(xs) - min(xs) + 1.2))
    at = {
        name: ((x - min(xs) + 0.6) * unit, (max(ys) - y + 0.6) * unit)
        for name, (x, y) in places.items()
    }
    radius = 0.26 * unit
    parts = [_line(at[link.a], at[link.b]) for link in topology.links]
    for node in topology.nodes:
        x, y = at[node.name]
        parts.append(
            f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{radius:.0f}" fill="{COLOURS[node.role]}"/>'
        )
        parts.append(_text(x, y + 0.1 * unit, node.name, 0.3 * unit, "#fff"))
    width, height = (max(xs) - min(xs) + 1.2) * unit, (max(ys) - min(ys) + 1.2) * unit
    return _svg(width, height, parts)


def pool_drawing(scenario: Scenario) -> str:
    """Return the drawing of a pool: clients, edge, balancers, and a box a server.

    Each box holds a square a processor.

    Args:
        scenario: The scenario.
    """
    parts, bottom = [], 14.0
    for group in scenario.pool.groups:
        found, bottom = _group(group, bottom)
        parts += found
    shown = min(scenario.pool.balancers, MOST_BALANCERS)
    bottom = max(bottom, shown * BALANCER + 4)
    middle = bottom / 2
    heights = [middle + (i - (shown - 1) / 2) * BALANCER for i in range(shown)]
    lines = [_line((36, middle), (122, middle))]
    for y in heights:
        lines += [_line((122, middle), (216, y)), _line((216, y), (LEFT - 8, middle))]
    nodes = [
        _node(36, middle, "clients", COLOURS["client"]),
        _node(122, middle, "edge", COLOURS["switch"]),
        *(_node(216, y, f"balancer {i + 1}", COLOURS["balancer"]) for i, y in enumerate(heights)),
        f'<path d="M{LEFT - 8} 6V{bottom - 6:.0f}" stroke="{CABLE}"/>',
    ]
    return _svg(MOST_WIDTH, bottom, [*lines, *parts, *nodes])


def device_pool_drawing(pool: AcceleratorPool) -> str:
    """Return the drawing of servers with devices: clients, the balancer, a box a server.

    A server's devices are boxes as wide as their share of its capacity; agents report from each.

    Args:
        pool: A pool of few servers.
    """
    high, width = 62.0, MOST_WIDTH - LEFT - 10
    bottom = pool.n_servers * high + 24
    middle = pool.n_servers * high / 2
    parts = [_line((36, middle), (160, middle))]
    for number, group in enumerate(pool.servers):
        top = number * high + 4
        centre = top + high / 2 - 4
        parts.append(_line((160, middle), (LEFT - 8, centre)))
        box = f'x="{LEFT:.0f}" y="{top:.0f}" width="{width:.0f}" height="{high - 8:.0f}"'
        parts.append(f'<rect {box} rx="3" fill="none" stroke="{INK}"/>')
        rates = pool.capacities_per_s[number][: len(group.devices)]
        left = LEFT + 6
        for device, rate in zip(group.devices, rates, strict=True):
            wide = max(64.0, float(rate / rates.sum()) * (width - 12) - 6)
            wide = min(wide, MOST_WIDTH - 16 - left)
            colour = COLOURS["server" if device.kind == "cpu" else "switch"]
            place = f'x="{left:.0f}" y="{top + 8:.0f}" width="{wide:.0f}" height="38"'
            parts.append(f'<rect {place} rx="2" fill="{colour}"/>')
            parts.append(_text(left + wide / 2, top + 24, device.kind, 11, "#fff"))
            parts.append(_text(left + wide / 2, top + 39, f"{rate:.3g}/s", 10, "#fff"))
            left += wide + 6
    dashes = f'<path d="M{LEFT - 8:.0f} {bottom - 12:.0f}H160V{middle + 12:.0f}" fill="none" '
    parts.append(f'{dashes}stroke="{CABLE}" stroke-dasharray="4 3"/>')
    parts.append(_text(LEFT, bottom - 8, "reports of the devices' agents", 11, INK, "start"))
    parts.append(_node(36, middle, "clients", COLOURS["client"]))
    parts.append(_node(160, middle, "balancer", COLOURS["balancer"]))
    return _svg(MOST_WIDTH, bottom, parts)


def _group(group: ServerGroup, top: float) -> tuple[list[str], float]:
    """Return the boxes of a group of servers, and where the next one begins."""
    workers = group.resources[0].workers
    width = CELL * min(workers, 2) + 4
    rows = -(-workers // 2)
    height = CELL * rows + 4
    in_row = int((MOST_WIDTH - LEFT) // (width + GAP))
    weight = "" if group.weight is None else f", configured weight {group.weight:g}"
    speed = group.resources[0].speed
    fast = "" if speed == 1 else f", speed {speed:g}"
    title = f"{group.count} {group.name}: {workers} processor{'s' * (workers > 1)}{fast}{weight}"
    parts = [_text(LEFT, top, title, 11, INK, "start")]
    for number in range(group.count):
        x = LEFT + number % in_row * (width + GAP)
        y = top + 6 + number // in_row * (height + GAP)
        cells = "".join(
            f"M{x + 3 + i % 2 * CELL:.0f} {y + 3 + i // 2 * CELL:.0f}h{SIDE}v{SIDE}h-{SIDE}z"
            for i in range(workers)
        )
        box = f'x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}"'
        parts.append(f'<rect {box} rx="2" fill="none" stroke="{INK}"/>')
        parts.append(f'<path d="{cells}" fill="{COLOURS["server"]}"/>')
    return parts, top + 6 + -(-group.count // in_row) * (height + GAP) + 20


def _node(x: float, y: float, name: str, colour: str) -> str:
    box = f'<rect x="{x - 34:.0f}" y="{y - 9:.0f}" width="68" height="18" rx="4" fill="{colour}"/>'
    return box + _text(x, y + 4, name, 11, "#fff")


def _line(a: tuple[float, float], b: tuple[float, float]) -> str:
    return f'<path d="M{a[0]:.0f} {a[1]:.0f}L{b[0]:.0f} {b[1]:.0f}" stroke="{CABLE}"/>'


def _text(x: float, y: float, text: str, size: float, colour: str, anchor: str = "middle") -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size:.0f}" fill="{colour}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="sans-serif">\n{body}\n</svg>\n'
    )
