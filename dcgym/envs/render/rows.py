"""Actions on a network beside its picture: a bar and a number each, columns where they are many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.envs.render.sheet import FAINT, INK, MUTED, Colour, Sheet
from dcgym.tasks.network.decision import Decision
from dcgym.topologies import Topology

__all__ = ["RATES", "WEIGHTS", "Rows", "make_rows"]

FloatArray = npt.NDArray[np.float64]

RATES: tuple[Colour, Colour] = (62, 124, 177), (178, 207, 230)
WEIGHTS: tuple[Colour, Colour] = (124, 92, 166), (211, 198, 230)
TITLE = 24
LEAST_ROW, MOST_ROW = 13, 24
COLUMNS_HEIGHT = 120


@dataclass(frozen=True)
class Rows:
    """One decision, ready to be drawn.

    Attributes:
        title: What it is.
        names: What each value belongs to.
        rates_bps: What a value of 1 is; None where values are shares of something else.
        colours: Of the bars, and of what several share.
        legend: What a bar is.
    """

    title: str
    names: tuple[str, ...]
    rates_bps: FloatArray | None
    colours: tuple[Colour, Colour]
    legend: str

    @property
    def is_rate(self) -> bool:
        """Whether it is about the rates of hosts."""
        return self.rates_bps is not None

    def height(self, room: float, n_columns: int = 2) -> float:
        """Return how much it takes of some room.

        Args:
            room: Pixels that there are.
            n_columns: Rows may stand in that many columns.
        """
        count = len(self.names)
        if count * MOST_ROW + TITLE <= room:
            return TITLE + count * MOST_ROW
        lines = -(-count // n_columns)
        if lines * LEAST_ROW + TITLE <= room:
            return min(room, TITLE + lines * MOST_ROW)
        return min(room, TITLE + COLUMNS_HEIGHT + 18)

    def draw(
        self, sheet: Sheet, box: tuple[float, float, float, float], values: FloatArray
    ) -> None:
        """Draw the values into a box: left, top, right and bottom."""
        left, top, right, bottom = box
        sheet.text(left, top + 9, self.title, 13)
        room = bottom - top - TITLE
        count = len(self.names)
        for n_columns in (1, 2):
            lines = -(-count // n_columns)
            pitch = min(MOST_ROW, room / lines)
            if pitch >= (LEAST_ROW + 3, LEAST_ROW)[n_columns - 1]:
                break
        else:
            self._draw_columns(sheet, (left, top + TITLE, right, bottom), values)
            return
        width = (right - left - 16 * (n_columns - 1)) / n_columns
        size = 12 if pitch >= 16 else 11
        for row, (name, value) in enumerate(zip(self.names, values.tolist(), strict=True)):
            column, line = divmod(row, lines)
            x, y = left + column * (width + 16), top + TITLE + (line + 0.5) * pitch
            self._draw_row(sheet, (x, y, x + width, size), row, name, value)

    def _draw_row(
        self, sheet: Sheet, at: tuple[float, float, float, int], row: int, name: str, value: float
    ) -> None:
        left, y, right, size = at
        sheet.text(left, y, name, size, MUTED)
        is_wide = right - left > 200
        start = left + (62 if is_wide else 50)
        end = right - (104 if is_wide and self.rates_bps is not None else 36)
        sheet.fill(start, y - 4, end, y + 4, FAINT)
        sheet.fill(start, y - 4, start + (end - start) * min(1.0, value), y + 4, self.colours[0])
        sheet.text(end + 36, y, f"{value * 100:.0f} %", size, INK, "r")
        if is_wide and self.rates_bps is not None:
            sheet.text(right, y, short_rate(value * self.rates_bps[row]), size, MUTED, "r")

    def _draw_columns(
        self, sheet: Sheet, box: tuple[float, float, float, float], values: FloatArray
    ) -> None:
        left, top, right, bottom = box
        low, mean, high = values.min() * 100, values.mean() * 100, values.max() * 100
        words = f"{len(values)} values: least {low:.0f} %, mean {mean:.0f} %, most {high:.0f} %"
        sheet.columns(
            (left, top, right, min(bottom - 18, top + COLUMNS_HEIGHT)), values, *self.colours
        )
        sheet.text(left, min(bottom, top + COLUMNS_HEIGHT + 18) - 8, words, 12, MUTED)


def make_rows(topology: Topology, decision: Decision) -> Rows:
    """Return a decision of a task, ready to be drawn.

    Args:
        topology: The network.
        decision: What is decided about it.
    """
    if decision.uplinks is None:
        names = tuple(host.name for host in topology.hosts)
        rates_bps = np.array([port.rate_bps for port in topology.host_ports], np.float64)
        return Rows(
            "action: limit of each host's sending rate",
            names,
            rates_bps,
            RATES,
            "share of the interface rate",
        )
    groups = decision.uplinks.groups
    switches = [group.switch for group in groups]
    names = tuple(
        f"{port.node}-{port.peer}"
        + (f">{group.first_host.name}" if switches.count(group.switch) > 1 else "")
        for group in groups
        for port in group.ports
    )
    return Rows(
        "action: weight of each path at its switch",
        names,
        None,
        WEIGHTS,
        "share of a group's new flows",
    )


def short_rate(rate_bps: float) -> str:
    """Return a rate in a few characters, such as "6.2 Mbit/s"."""
    for unit, size in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if rate_bps >= size:
            return f"{rate_bps / size:.3g} {unit}"
    return f"{rate_bps:.0f} bit/s"
