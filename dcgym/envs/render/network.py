"""A picture of the network: load, queues and what the agent decided. Loaded only when asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dcgym.envs.render.map import NetworkMap, draw_host, draw_switch
from dcgym.envs.render.rows import Rows
from dcgym.envs.render.sheet import HEADER, HEIGHT, LINE, MUTED, WIDTH, Pixels, Sheet
from dcgym.envs.render.summary import PortRows
from dcgym.envs.values import Caption
from dcgym.tasks.network.interval import Interval
from dcgym.topologies import Topology

__all__ = ["NetworkPainter"]

FloatArray = npt.NDArray[np.float64]

EDGE = 16
LEGEND = 64
MAP_RIGHT = 610
# In a map of more links than this the queues hide each other.
MOST_LINKS = 100


class NetworkPainter:
    """Draws one network again and again.

    A map shows small networks: each switch port colours its own half of the link by load, and
    carries a bar that fills with its queue. Big ones are rows of ports, one row a kind. The
    agent's decisions stand beside the map or below the rows.

    Args:
        topology: The network.
        rows: What stands beside it, such as the agent's decisions.
    """

    def __init__(self, topology: Topology, rows: Sequence[Rows]) -> None:
        self._rows = rows
        hosts, switches = len(topology.hosts), len(topology.switches)
        plural = "es" if switches != 1 else ""
        self._subject = f"{topology.name}, {hosts} hosts, {switches} switch{plural}"
        self._base = Sheet()
        bottom = HEIGHT - LEGEND
        self._body: NetworkMap | PortRows
        if len(topology.links) <= MOST_LINKS:
            has_shares = any(one.is_rate for one in rows)
            box = (EDGE, HEADER + 4, MAP_RIGHT, bottom)
            self._body = NetworkMap(topology, box, has_shares=has_shares)
            self._boxes = _split(self._rows, (MAP_RIGHT + 24, HEADER + 12, WIDTH - EDGE, bottom))
            self._base.fill(MAP_RIGHT + 12, HEADER, MAP_RIGHT + 13, bottom, LINE)
        else:
            self._body = PortRows(topology, (EDGE, HEADER + 8, WIDTH - EDGE, bottom))
            top = HEADER + 8 + self._body.height + 8
            self._boxes = _split(self._rows, (EDGE, top, WIDTH - EDGE, bottom - 4))
        self._draw_legend()

    def draw(self, interval: Interval, values: Sequence[FloatArray], caption: Caption) -> Pixels:
        """Return an RGB image, 600 x 960 x 3.

        Args:
            interval: What the ports did.
            values: Of the rows, 0 to 1 each.
            caption: Title, time, step and rewards.
        """
        seconds = max(interval.duration_s, 1e-9)
        load = np.clip(interval.port_deltas["tx_bytes"] * 8 / seconds / interval.rates_bps, 0, 1)
        fill = np.clip(interval.ports["backlog_bytes"] / interval.queue_limits_bytes, 0, 1)
        sheet = self._base.copy()
        sheet.header(caption, self._subject)
        rates = [own for rows, own in zip(self._rows, values, strict=True) if rows.is_rate]
        self._body.draw(sheet, load, fill, rates[0] if rates else np.ones(0))
        for rows, box, own in zip(self._rows, self._boxes, values, strict=True):
            rows.draw(sheet, box, own)
        return sheet.pixels

    def _draw_legend(self) -> None:
        sheet, is_map = self._base, isinstance(self._body, NetworkMap)
        sheet.fill(0, HEIGHT - LEGEND, WIDTH, HEIGHT - LEGEND + 1, LINE)
        y, x = HEIGHT - LEGEND + 20, float(EDGE)
        sheet.scale(x, y)
        words = "load of a port in the interval; fill of its queue at the end"
        sheet.text(220, y, words, 12, MUTED)
        x, y = float(EDGE), HEIGHT - 20
        if is_map:
            draw_host(sheet, EDGE, y - 7, EDGE + 18, y + 7)
            x += 24 + sheet.text(x + 24, y, "host", 12, MUTED) + 18
            draw_switch(sheet, round(x), y - 7, round(x) + 18, y + 7)
            x += 24 + sheet.text(x + 24, y, "switch", 12, MUTED) + 18
            sheet.frame(x, y - 10, x + 6, y + 10)
            words = "queue of a switch port"
            x += 12 + sheet.text(x + 12, y, words, 12, MUTED) + 18
            sheet.fill(x, y - 2, x + 18, y + 2, LINE)
            words = "a host's half of a link, not measured"
            x += 24 + sheet.text(x + 24, y, words, 12, MUTED) + 18
        for rows in self._rows:
            sheet.fill(x, y - 5, x + 18, y + 5, rows.colours[0])
            x += 24 + sheet.text(x + 24, y, rows.legend, 12, MUTED) + 18
        if not is_map:
            sheet.text(
                x, y, "where ports outnumber pixels, the fullest gives the colour", 12, MUTED
            )


def _split(
    rows: Sequence[Rows], box: tuple[int, int, int, int]
) -> list[tuple[float, float, float, float]]:
    """Return a box for each decision, one below the other."""
    left, top, right, bottom = box
    room = (bottom - top) / len(rows)
    boxes: list[tuple[float, float, float, float]] = []
    y = float(top)
    for number, one in enumerate(rows):
        left_over = bottom - y - sum(other.height(room) for other in rows[number + 1 :])
        height = one.height(left_over)
        boxes.append((left, y, right, y + height))
        y += height + 6
    return boxes
