"""The paper that pictures are drawn on: rectangles, text and scales of colour in one array.

What never moves is drawn once with Pillow. A frame is a copy of it and a few hundred assignments,
so that a film costs a step little.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.envs.values import Caption
from dcgym.errors import MissingDependency

try:
    from PIL import Image, ImageDraw, ImageFont
except ImportError as error:
    raise MissingDependency("pillow", "video") from error

__all__ = [
    "FAINT",
    "HEADER",
    "HEIGHT",
    "INK",
    "LINE",
    "LOAD",
    "MUTED",
    "WHITE",
    "WIDTH",
    "Colour",
    "Pixels",
    "Sheet",
    "load_colours",
    "number",
]

Colour = tuple[int, int, int]
Pixels = npt.NDArray[np.uint8]
FloatArray = npt.NDArray[np.float64]

WIDTH, HEIGHT, HEADER = 960, 600, 44
WHITE, INK, MUTED = (255, 255, 255), (31, 41, 51), (97, 110, 124)
LINE, FAINT = (203, 210, 217), (240, 243, 246)
_ANCHORS = np.array([(42, 157, 143), (233, 196, 106), (214, 40, 40)], np.float64)
_STEPS = np.linspace(0, 2, 256)
LOAD: Pixels = np.stack([np.interp(_STEPS, (0, 1, 2), part) for part in _ANCHORS.T], axis=1).astype(
    np.uint8
)
"""Colours of a load from 0 to 1: green, yellow, red; 256 x 3."""
FINE = 3
# Where the values of the header stand.
_FIELDS = (("time", 605), ("step", 725), ("reward", 872))
SUBJECT_RIGHT = 560


class Sheet:
    """A picture, 600 x 960 x 3; positions are pixels from the upper left corner.

    Args:
        pixels: What is on it already; white if None.

    Attributes:
        pixels: The picture.
    """

    def __init__(self, pixels: Pixels | None = None) -> None:
        self.pixels = np.full((HEIGHT, WIDTH, 3), 255, np.uint8) if pixels is None else pixels

    def copy(self) -> Sheet:
        """Return a sheet with the same on it."""
        return Sheet(self.pixels.copy())

    def fill(self, left: float, top: float, right: float, bottom: float, colour: Any) -> None:
        """Fill a rectangle, rounded to pixels.

        Args:
            left: First column.
            top: First row.
            right: Column after the last.
            bottom: Row after the last.
            colour: Red, green and blue, 0 to 255.
        """
        self.pixels[round(top) : round(bottom), round(left) : round(right)] = colour

    def frame(
        self, left: float, top: float, right: float, bottom: float, colour: Colour = MUTED
    ) -> None:
        """Fill a rectangle with white and draw an edge of one pixel inside of it."""
        self.fill(left, top, right, bottom, colour)
        self.fill(round(left) + 1, round(top) + 1, round(right) - 1, round(bottom) - 1, WHITE)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: int = 12,
        colour: Colour = INK,
        anchor: str = "l",
    ) -> float:
        """Write a line.

        Args:
            x: Its left end, middle or right end.
            y: Its middle.
            text: ASCII, for Pillow's own font has little else.
            size: Height of the font in pixels.
            colour: Of the ink.
            anchor: "l", "m" or "r": what `x` is.

        Returns:
            Its width in pixels.
        """
        mask = _mask(text, size)
        height, width = mask.shape[:2]
        left = round(x - width * {"l": 0.0, "m": 0.5, "r": 1.0}[anchor])
        top = round(y - height / 2)
        region = self.pixels[max(top, 0) : top + height, max(left, 0) : left + width]
        ink = mask[max(-top, 0) :, max(-left, 0) :][: region.shape[0], : region.shape[1]]
        region[:] = (region * (255 - ink) + np.array(colour, np.uint16) * ink) // 255
        return float(width)

    def header(self, caption: Caption, subject: str) -> None:
        """Write what, when and how well at the top.

        Args:
            caption: What the session knows.
            subject: What is drawn.
        """
        width = self.text(16, HEADER / 2, caption.title, 18)
        left = 28 + width
        longest = max(0, int((SUBJECT_RIGHT - left) / 6.8))
        shown = subject if len(subject) <= longest else f"{subject[: longest - 3]}..."
        self.text(left, HEADER / 2 + 1, shown, 13, MUTED)
        values = (f"{caption.time_s:.2f} s", str(caption.step), _reward(caption))
        for (name, x), value in zip(_FIELDS, values, strict=True):
            is_mean = name == "reward" and len(caption.rewards) > 1
            label = f"mean {name}" if is_mean else name
            self.text(x, HEADER / 2 + 1, label, 13, MUTED, "r")
            self.text(x + 8, HEADER / 2, value, 16)
        self.fill(0, HEADER - 1, WIDTH, HEADER, LINE)

    def columns(
        self,
        box: tuple[float, float, float, float],
        values: FloatArray,
        colour: Colour,
        pale: Colour,
    ) -> None:
        """Draw values of 0 to 1 as columns side by side, in their order.

        Where there are more than pixels, a column stands for several: solid up to the least,
        pale up to the largest of them.

        Args:
            box: Left, top, right and bottom.
            values: What to draw.
            colour: Of the columns.
            pale: Of the part between the least and the largest.
        """
        left, top, right, bottom = (round(edge) for edge in box)
        width, height = right - left, bottom - top
        self.fill(left, top, right, bottom, FAINT)
        low, high = spread(values, width)
        rows = np.arange(height, 0, -1)[:, None]
        region = self.pixels[top:bottom, left:right]
        region[rows <= np.rint(high * height)] = pale
        region[rows <= np.rint(low * height)] = colour
        if 2 * len(values) < width / 3:
            # A gap between neighbours, as between any bars.
            edges = np.rint(np.arange(1, len(values)) * width / len(values)).astype(int)
            region[:, edges] = WHITE

    def strip(self, box: tuple[float, float, float, float], values: FloatArray) -> None:
        """Draw loads of 0 to 1 as colours side by side; the largest wins where pixels are few.

        Args:
            box: Left, top, right and bottom.
            values: What to draw.
        """
        left, top, right, bottom = (round(edge) for edge in box)
        _, high = spread(values, right - left)
        self.pixels[top:bottom, left:right] = load_colours(high)[None]

    def scale(self, left: float, y: float, width: int = 120) -> None:
        """Draw the scale of `load_colours` with its ends."""
        end = self.text(left, y, "0 %", 12, MUTED) + left + 6
        ramp = np.linspace(0, 1, width)
        self.strip((end, y - 6, end + width, y + 6), ramp)
        self.text(end + width + 6, y, "100 %", 12, MUTED)


def spread(values: FloatArray, width: int) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest value under each of some pixels.

    Args:
        values: Side by side, at least one.
        width: Number of pixels.
    """
    count = len(values)
    if count <= width:
        each = values[np.arange(width) * count // width]
        return each, each
    starts = np.arange(width) * count // width
    return np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)


def load_colours(values: FloatArray) -> Pixels:
    """Return the colour of each load of 0 to 1.

    Args:
        values: Shape (n,).
    """
    return LOAD[np.rint(np.clip(values, 0, 1) * 255).astype(np.intp)]


def number(value: float) -> str:
    """Return a number in four or five characters, without an exponent where that is possible."""
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.4g}"


def _reward(caption: Caption) -> str:
    rewards: Sequence[float] = caption.rewards
    return number(sum(rewards) / len(rewards)) if rewards else "-"


@lru_cache(maxsize=16)
def _font(size: int) -> Any:
    return ImageFont.load_default(size)


@lru_cache(maxsize=8192)
def _mask(text: str, size: int) -> npt.NDArray[np.uint16]:
    """Return how much ink each pixel of a line has, 0 to 255, rows x columns x 1."""
    # Drawn large and reduced: at its own size the font's spaces are rounded away.
    font = _font(size * FINE)
    ascent, descent = font.getmetrics()
    image = Image.new("L", (int(font.getlength(text)) + 2 * FINE, ascent + descent))
    ImageDraw.Draw(image).text((0, 0), text, fill=255, font=font)
    return np.asarray(image.reduce(FINE), np.uint16)[:, :, None]
