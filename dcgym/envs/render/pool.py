"""A picture of a server pool: flows, processors, weights. Loaded only when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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

__all__ = ["PoolPainter", "PoolWords"]

FloatArray = npt.NDArray[np.float64]

LEFT, RIGHT = 150, WIDTH - 16
LEGEND = 40
WEIGHTS_TOP, FLOWS_TOP, FLOWS_BOTTOM = HEADER + 32, 270, HEIGHT - LEGEND - 40
# More balancers than this are drawn as one row of their means.
MOST_BALANCERS = 5
# The axis reaches at least this far, so that an idle pool does not look full.
LEAST_FLOWS = 8
SERVED: Colour = (42, 157, 143)
WAITING: Colour = (233, 196, 106)
WEIGHT: tuple[Colour, Colour] = (62, 124, 177), (178, 207, 230)


@dataclass(frozen=True)
class PoolWords:
    """What the parts of a picture are called.

    Attributes:
        action: Heading of the upper part.
        share: What its bars are.
        heading: Heading of the lower part.
        unit: What waits and is served there, in the plural.
        place: What a bar stands for.
        workers: What the line at a bar is.
    """

    action: str = "action: share of the weights, %"
    share: str = "weight over the sum of the balancer's weights"
    heading: str = "flows at each server at the end of the interval"
    unit: str = "flows"
    place: str = "server"
    workers: str = "processors of the server"


WORDS = PoolWords()


class PoolPainter:
    """Draws one pool again and again.

    Each server is a bar: flows in service below, waiting ones above, a line at its processors.
    Above stands the share of the weights that each balancer gives each server.

    Args:
        workers: Processors of each server, shape (N,).
        agents: Names of the balancers that are controlled.
        subject: What the pool is called in the header.
        words: What its parts are called.
    """

    def __init__(
        self,
        workers: npt.NDArray[np.float64],
        agents: Sequence[str],
        subject: str,
        words: PoolWords = WORDS,
    ) -> None:
        self._words = words
        self._workers, self._agents = workers, tuple(agents)
        count = len(workers)
        self._subject = subject
        pitch = (RIGHT - LEFT) / count
        self._edges = LEFT + pitch * np.arange(count + 1)
        # Between bars; where they are narrow they touch.
        gap = min(12.0, 0.25 * pitch) if pitch >= 4 else 0.0
        self._lefts, self._rights = self._edges[:-1] + gap / 2, self._edges[1:] - gap / 2
        self._centres = (self._lefts + self._rights) / 2
        self._pitch = pitch
        self._base = Sheet()
        self._draw_base()

    def draw(
        self, queues: npt.NDArray[np.generic], weights: FloatArray, caption: Caption
    ) -> Pixels:
        """Return an RGB image, 600 x 960 x 3.

        Args:
            queues: Flows at each server, shape (N,).
            weights: Weights in force, one row a controlled balancer, shape (M, N).
            caption: Title, time, step and rewards.
        """
        sheet = self._base.copy()
        sheet.header(caption, self._subject)
        self._draw_weights(sheet, weights / weights.sum(axis=1, keepdims=True), caption)
        self._draw_flows(sheet, np.asarray(queues, np.float64))
        return sheet.pixels

    def _draw_base(self) -> None:
        sheet, n_agents = self._base, len(self._agents)
        title = self._words.action
        if n_agents > MOST_BALANCERS:
            title += f" (mean of {n_agents} balancers; pale: up to the largest)"
        sheet.text(16, HEADER + 16, title, 13)
        sheet.text(16, FLOWS_TOP - 18, self._words.heading, 13)
        every = next(step for step in (1, 2, 5, 10, 20, 50, 100) if step * self._pitch >= 26)
        for server in range(0, len(self._workers), every):
            sheet.text(self._centres[server], FLOWS_BOTTOM + 12, str(server), 12, MUTED, "m")
        sheet.text((LEFT + RIGHT) / 2, FLOWS_BOTTOM + 29, self._words.place, 12, MUTED, "m")
        sheet.fill(0, HEIGHT - LEGEND, WIDTH, HEIGHT - LEGEND + 1, LINE)
        x, y = 16.0, HEIGHT - LEGEND / 2
        for colour, words in (
            (WEIGHT[0], self._words.share),
            (SERVED, f"{self._words.unit} in service"),
            (WAITING, f"{self._words.unit} that wait"),
        ):
            sheet.fill(x, y - 6, x + 18, y + 6, colour)
            x += 24 + sheet.text(x + 24, y, words, 12, MUTED) + 20
        sheet.fill(x, y - 1, x + 18, y + 1, INK)
        sheet.text(x + 24, y, self._words.workers, 12, MUTED)

    def _draw_weights(self, sheet: Sheet, shares: FloatArray, caption: Caption) -> None:
        most, names = shares, self._agents
        if len(shares) > MOST_BALANCERS:
            most = shares.max(axis=0)[None]
            shares, names = shares.mean(axis=0)[None], (f"{len(shares)} balancers",)
        top, bottom = WEIGHTS_TOP, FLOWS_TOP - 36
        pitch = (bottom - top) / len(shares)
        has_numbers = self._pitch >= 24 and pitch >= 30
        highest = max(float(most.max()), 1.5 / len(self._workers))
        for row, name in enumerate(names):
            floor = top + (row + 1) * pitch - 5
            height = pitch - (18 if has_numbers else 6)
            middle = floor - height / 2
            has_reward = len(caption.rewards) == len(names) > 1
            sheet.text(16, middle - (8 if has_reward else 0), name.replace("_", " "), 12)
            if has_reward:
                words = f"reward {number(caption.rewards[row])}"
                sheet.text(16, middle + 8, words, 12, MUTED)
            scale = height / highest
            self._bars(sheet, floor, np.zeros_like(most[row]), most[row] * scale, WEIGHT[1])
            self._bars(sheet, floor, np.zeros_like(most[row]), shares[row] * scale, WEIGHT[0])
            sheet.fill(LEFT, floor, RIGHT, floor + 1, LINE)
            for server, share in enumerate(shares[row].tolist() if has_numbers else ()):
                y = floor - most[row, server] * scale - 7
                sheet.text(self._centres[server], y, f"{share * 100:.0f}", 11, MUTED, "m")
            if not has_numbers:
                words = f"{shares[row].min() * 100:.1f} to {shares[row].max() * 100:.1f} %"
                sheet.text(LEFT - 8, middle, words, 11, MUTED, "r")

    def _draw_flows(self, sheet: Sheet, queues: FloatArray) -> None:
        served = np.minimum(queues, self._workers)
        step = _tick_step(max(LEAST_FLOWS, float(queues.max()), float(self._workers.max())))
        highest = step * np.ceil(max(LEAST_FLOWS, queues.max(), self._workers.max()) / step)
        scale = (FLOWS_BOTTOM - FLOWS_TOP) / highest
        for tick in np.arange(0, highest + step / 2, step).tolist():
            y = FLOWS_BOTTOM - tick * scale
            sheet.fill(LEFT, y, RIGHT, y + 1, FAINT if tick else LINE)
            sheet.text(LEFT - 8, y, f"{tick:.0f}", 12, MUTED, "r")
        self._bars(sheet, FLOWS_BOTTOM, np.zeros_like(served), served * scale, SERVED)
        self._bars(sheet, FLOWS_BOTTOM, served * scale, queues * scale, WAITING)
        for left, right, count in zip(self._edges, self._edges[1:], self._workers, strict=False):
            y = FLOWS_BOTTOM - count * scale
            sheet.fill(left + 1, y - 1, right - 1, y + 1, INK)
        words = (
            ("in all", f"{queues.sum():.0f} {self._words.unit}"),
            ("in service", f"{served.sum():.0f} of {self._workers.sum():.0f}"),
            ("waiting", f"{(queues - served).sum():.0f}"),
        )
        for row, (name, value) in enumerate(words):
            y = FLOWS_TOP + 14 + row * 38
            sheet.text(16, y, name, 12, MUTED)
            sheet.text(16, y + 17, value, 14)

    def _bars(
        self, sheet: Sheet, floor: float, low: FloatArray, high: FloatArray, colour: Colour
    ) -> None:
        """Fill each server's bar from `low` to `high` pixels above a floor."""
        for left, right, start, end in zip(
            self._lefts.tolist(), self._rights.tolist(), low.tolist(), high.tolist(), strict=True
        ):
            sheet.fill(left, floor - end, right, floor - start, colour)


def _tick_step(highest: float) -> float:
    """Return the distance of ticks: 1, 2 or 5 times a power of ten, about five of them."""
    size = 10.0 ** np.floor(np.log10(highest / 5))
    return float(next(step * size for step in (1, 2, 5, 10) if step * size * 5 >= highest))
