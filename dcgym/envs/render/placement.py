"""A picture of VIPs in a data centre: what switches hold, how full their links are."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcgym.envs.render.sheet import (
    FAINT,
    HEADER,
    HEIGHT,
    INK,
    LINE,
    MUTED,
    WIDTH,
    Colour,
    Pixels,
    Sheet,
    number,
)
from dcgym.envs.values import Caption
from dcgym.tasks.placement.data_centre import DataCentre
from dcgym.tasks.placement.view import Usage

__all__ = ["PlacementPainter"]

FloatArray = npt.NDArray[np.float64]

LEFT, RIGHT, LEGEND = 130, WIDTH - 16, 40
PITCH = (HEIGHT - HEADER - LEGEND - 20) / 3
BAR, STRIP = 96, 16
HELD: Colour = (62, 124, 177)


class PlacementPainter:
    """Draws one data centre again and again.

    A row for each tier. Each switch is a bar, as high as the bytes of its VIPs; below it stands
    the colour of its fullest link.

    Args:
        data_centre: The data centre.
    """

    def __init__(self, data_centre: DataCentre) -> None:
        centre = self._centre = data_centre
        n_racks, n_aggs = centre.n_racks, centre.containers * centre.aggs
        self._tiers = (
            ("core", slice(n_racks + n_aggs, centre.n_switches), 1),
            ("aggregation", slice(n_racks, n_racks + n_aggs), centre.containers),
            ("racks", slice(0, n_racks), centre.containers),
        )
        self._ends = centre.link_ends
        self._base = Sheet()
        self._draw_base()

    def draw(
        self,
        rates_bps: FloatArray,
        places: npt.NDArray[np.int32],
        links: FloatArray,
        usage: Usage,
        caption: Caption,
        what: str = "VIPs",
    ) -> Pixels:
        """Return an RGB image, 600 x 960 x 3.

        Args:
            rates_bps: Traffic of each VIP, (V,).
            places: Switch of each VIP, -1 on the muxes, (V,).
            links: Utilisation of each link, of what the reserve leaves, (L,).
            usage: How full links and tables are.
            caption: Title, time, step and rewards.
            what: What is placed.
        """
        sheet, centre = self._base.copy(), self._centre
        share = usage.placed_bps / rates_bps.sum() if rates_bps.sum() > 0 else 0.0
        subject = f"{usage.placed} {what} on {centre.n_switches} switches, {share:.1%} of the bytes"
        sheet.header(caption, subject)
        on = places >= 0
        held = np.bincount(places[on], rates_bps[on], centre.n_switches)
        fullest = np.zeros(centre.n_switches)
        for ends in self._ends:
            np.maximum.at(fullest, ends, links)
        most = max(float(held.max()), 1.0)
        for row, (_, numbers, _) in enumerate(self._tiers):
            base = self._base_of(row)
            own = held[numbers] / most
            edges = LEFT + (RIGHT - LEFT) / len(own) * np.arange(len(own) + 1)
            gap = 1.0 if edges[1] - edges[0] > 4 else 0.0
            for left, right, height in zip(edges[:-1], edges[1:], own, strict=True):
                if height > 0:
                    sheet.fill(left + gap, base - max(BAR * height, 1), right - gap, base, HELD)
            sheet.strip((LEFT, base + 4, RIGHT, base + 4 + STRIP), np.minimum(fullest[numbers], 1))
        sheet.text(16, self._base_of(0) - BAR + 6, f"{number(most / 1e9)} Gbit/s", 12, MUTED)
        return sheet.pixels

    def _base_of(self, row: int) -> float:
        return HEADER + 20 + PITCH * row + BAR + 10

    def _draw_base(self) -> None:
        sheet = self._base
        for row, (name, numbers, groups) in enumerate(self._tiers):
            base = self._base_of(row)
            sheet.text(16, base - BAR / 2 + 6, name, 13)
            count = numbers.stop - numbers.start
            sheet.text(16, base - BAR / 2 + 24, f"{count} switches", 12, MUTED)
            sheet.fill(LEFT, base - BAR, RIGHT, base, FAINT)
            sheet.fill(LEFT, base, RIGHT, base + 1, LINE)
            for group in range(1, groups):
                x = LEFT + (RIGHT - LEFT) * group / groups
                sheet.fill(x, base - BAR, x + 1, base + STRIP + 6, LINE)
        sheet.fill(0, HEIGHT - LEGEND, WIDTH, HEIGHT - LEGEND + 1, LINE)
        x, y = 16.0, HEIGHT - LEGEND / 2
        sheet.fill(x, y - 6, x + 18, y + 6, HELD)
        x += 24 + sheet.text(x + 24, y, "bytes of the VIPs that the switch holds", 12, MUTED) + 20
        x += sheet.text(x, y, "fullest link of the switch, of what the reserve leaves", 12, INK) + 8
        sheet.scale(x, y)
