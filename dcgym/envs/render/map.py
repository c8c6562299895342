"""The network as a map: halves of links in the colour of their load, queues as bars, nodes on top.

Which pixel belongs to which half of a link never changes. It is found once, and a frame only looks
up the colours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.envs.render.sheet import INK, LINE, MUTED, WHITE, WIDTH, Colour, Sheet, load_colours
from dcgym.errors import MissingDependency
from dcgym.topologies import Topology
from dcgym.topologies.io.layout import layout

try:
    from PIL import Image, ImageDraw
except ImportError as error:
    raise MissingDependency("pillow", "video") from error

__all__ = ["NetworkMap", "draw_host", "draw_switch"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.signedinteger[Any]]
Box = tuple[int, int, int, int]

FINE = 2  # each pixel is the mean of this many squared
HOST_FILL: Colour = (227, 238, 247)
# Names need that many pixels between neighbouring nodes, shares a line below them.
NAME_ROOM, SHARE_ROOM = 30, 34
TALLEST_QUEUE, LEAST_QUEUE = 64, 15


class NetworkMap:
    """A network in a box of a sheet.

    Args:
        topology: What to draw.
        box: Left, top, right and bottom on the sheet.
        has_shares: Whether hosts have a share to be written below them.
    """

    def __init__(self, topology: Topology, box: Box, *, has_shares: bool) -> None:
        self._topology, self._box = topology, box
        self._places = _places(topology, box)
        self._room = _room(self._places)
        self._queues = self._queue_boxes()
        self._pixels, self._owners, self._n_solid = self._find_owners()
        nodes = Sheet()
        is_drawn = np.zeros(nodes.pixels.shape[:2], np.bool_)
        for left, top, width, height in self._queues:
            nodes.frame(left, top, left + width, top + height)
            is_drawn[top : top + height, left : left + width] = True
        for node in topology.nodes:
            left, top, right, bottom = self._draw_node(nodes, node.name, node.is_endpoint)
            is_drawn[top:bottom, left:right] = True
        # What the nodes cover, as indexes into the flat picture.
        self._covered = np.flatnonzero(is_drawn)
        self._cover = nodes.pixels.reshape(-1, 3)[self._covered]
        shows_shares = has_shares and self._room >= SHARE_ROOM
        self._shares_at = [
            self._beside(host.name) for host in (topology.hosts if shows_shares else ())
        ]

    def draw(self, sheet: Sheet, load: FloatArray, fill: FloatArray, shares: FloatArray) -> None:
        """Draw what the network does.

        Args:
            sheet: A copy of the base.
            load: Of each switch port, 0 to 1.
            fill: Of each switch port's queue, 0 to 1.
            shares: Share of each host, 0 to 1.
        """
        self._paint_links(sheet, load)
        sheet.pixels.reshape(-1, 3)[self._covered] = self._cover
        colours = load_colours(fill)
        levels = np.rint(fill * [height - 2 for *_, height in self._queues]).astype(int).tolist()
        for (left, top, width, height), level, colour in zip(
            self._queues, levels, colours, strict=True
        ):
            bottom = top + height - 1
            sheet.fill(left + 1, bottom - level, left + width - 1, bottom, colour)
        for (x, y), share in zip(self._shares_at, shares.tolist(), strict=False):
            sheet.text(x, y, f"{share * 100:.0f} %", 11, MUTED, "m")

    def _paint_links(self, sheet: Sheet, load: FloatArray) -> None:
        colours = np.empty((len(load) + 2, 3), np.uint16)
        colours[0], colours[1:-1], colours[-1] = WHITE, load_colours(load), LINE
        parts = self._owners[:, self._n_solid :]
        mixed = colours[parts[0]]
        for others in parts[1:]:
            mixed += colours[others]
        flat = sheet.pixels.reshape(-1, 3)
        flat[self._pixels[: self._n_solid]] = colours[self._owners[0, : self._n_solid]]
        flat[self._pixels[self._n_solid :]] = mixed // FINE**2

    def _find_owners(self) -> tuple[IntArray, IntArray, int]:
        """Return the pixels that links touch, whose their parts are, and how many have one owner.

        The latter come first. Owner 0 is the paper, 1 to P are the switch ports in their order,
        P + 1 the halves of hosts; one row a part.
        """
        left, top, right, bottom = self._box
        size = ((right - left) * FINE, (bottom - top) * FINE)
        image = Image.new("I", size)
        pen = ImageDraw.Draw(image)
        ports = self._topology.switch_ports
        width = FINE * (4 if self._room > NAME_ROOM else 2)
        for link in self._topology.links:
            self._line(pen, self._at(link.a), self._at(link.b), len(ports) + 1, width)
        for number, port in enumerate(ports):
            start, end = self._at(port.node), self._at(port.peer)
            self._line(pen, start, (start + end) / 2, number + 1, width)
        owners = np.asarray(image, np.int32)
        blocks = owners.reshape(bottom - top, FINE, right - left, FINE).swapaxes(1, 2)
        parts = blocks.reshape(bottom - top, right - left, FINE**2).astype(np.intp)
        rows, columns = np.nonzero(parts.any(axis=2))
        touched = parts[rows, columns]
        is_mixed = (touched != touched[:, :1]).any(axis=1)
        order = np.argsort(is_mixed, kind="stable")
        pixels = (rows + top) * WIDTH + columns + left
        owners = np.ascontiguousarray(touched[order].T)
        return pixels[order], owners, int((~is_mixed).sum())

    def _line(self, pen: Any, start: FloatArray, end: FloatArray, owner: int, width: int) -> None:
        corner = np.array(self._box[:2])
        points = [tuple(((point - corner) * FINE).tolist()) for point in (start, end)]
        pen.line(points, fill=owner, width=width)

    def _beside(self, host: str) -> tuple[float, float]:
        """Return where the share of a host is written: on the side that its link leaves free."""
        x, y = self._places[host]
        peer_y = self._places[self._topology.ports(host)[0].peer][1]
        return x, y + (16 if peer_y <= y else -17)

    def _at(self, name: str) -> FloatArray:
        return np.array(self._places[name])

    def _queue_boxes(self) -> list[Box]:
        """Return left, top, width and height of the bar of each switch port's queue."""
        ports = self._topology.switch_ports
        middles = []
        for port in ports:
            start, end = self._at(port.node), self._at(port.peer)
            # Further out where the peers, being hosts, stand close together.
            part = 0.3 if self._topology.node(port.peer).is_endpoint else 0.2
            middles.append(start + part * (end - start))
        places = np.array(middles)
        # Bars of many ports are small, so that they do not hide the links.
        tallest = max(9, round(TALLEST_QUEUE * min(1.0, (12 / len(ports)) ** 0.5)))
        # Where bars touch each other at every height, links count more than bars.
        heights = [one for one in range(tallest, LEAST_QUEUE - 1, -2) if _are_apart(places, one)]
        height = heights[0] if heights else tallest
        width = _queue_width(height)
        corners = np.rint(places - (width / 2, height / 2)).astype(int).tolist()
        return [(left, top, width, height) for left, top in corners]

    def _draw_node(self, sheet: Sheet, name: str, is_endpoint: bool) -> Box:
        x, y = self._places[name]
        has_name = self._room >= NAME_ROOM
        half = 9 if has_name else max(2, round(self._room * 0.3))
        wide = half + (4 * max(0, len(name) - 2) + 4 if has_name else 0)
        left, right, top, bottom = (
            round(x - wide),
            round(x + wide),
            round(y - half),
            round(y + half),
        )
        paint = draw_host if is_endpoint else draw_switch
        paint(sheet, left, top, right, bottom)
        if has_name:
            sheet.text(x, y, name, 12, INK if is_endpoint else WHITE, "m")
        return left, top, right, bottom


def draw_host(sheet: Sheet, left: int, top: int, right: int, bottom: int) -> None:
    """Draw a host: a pale box with an edge."""
    sheet.fill(left, top, right, bottom, INK)
    sheet.fill(left + 1, top + 1, right - 1, bottom - 1, HOST_FILL)


def draw_switch(sheet: Sheet, left: int, top: int, right: int, bottom: int) -> None:
    """Draw a switch: a dark box."""
    sheet.fill(left, top, right, bottom, INK)


def _queue_width(height: int) -> int:
    return max(5, height // 5)


def _are_apart(places: FloatArray, height: int) -> bool:
    """Tell whether bars of that height around these points leave some pixels between them."""
    apart = np.abs(places[:, None] - places[None])
    collide = (apart < (_queue_width(height) + 1, height + 4)).all(axis=2)
    return int(collide.sum()) == len(places)


def _places(topology: Topology, box: Box) -> dict[str, tuple[float, float]]:
    """Fit the layout of the network into a box, with room for the nodes at its edges."""
    names, places = zip(*layout(topology).items(), strict=True)
    corners = np.array(places)
    low, span = corners.min(axis=0), np.ptp(corners, axis=0)
    unit = np.where(span > 0, (corners - low) / np.where(span > 0, span, 1.0), 0.5)
    left, top, right, bottom = box
    x = left + 24 + unit[:, 0] * (right - left - 48)
    y = bottom - 34 - unit[:, 1] * (bottom - top - 56)
    return {name: (float(a), float(b)) for name, a, b in zip(names, x, y, strict=True)}


def _room(places: dict[str, tuple[float, float]]) -> float:
    """Return how many pixels the two nearest nodes are apart, along the further axis."""
    at = np.array(list(places.values()))
    apart = np.abs(at[:, None] - at[None]).max(axis=2)
    np.fill_diagonal(apart, np.inf)
    return float(apart.min())
