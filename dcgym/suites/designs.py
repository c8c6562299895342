"""Which values meet which: grids, values that vary together, and samples of ranges."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dcgym.config import LONGEST_NAME, check_in, check_int, check_list
from dcgym.errors import ConfigError
from dcgym.files import load_mapping
from dcgym.suites.statistics import FloatArray
from dcgym.suites.suite import MOST_RUNS
from dcgym.tasks.common.draws import DRAWS, Draw, read_draw
from dcgym.units import PLAIN, quantity

__all__ = ["SAMPLE", "SAMPLERS", "Axis", "label_of", "read_axes", "renumbered"]

SAMPLE = "sample"
"""Name of the column that numbers the points of a sample."""

SAMPLERS = ("latin", "sobol")
"""Latin hypercubes, of any number of points, and Sobol's sequence, which goes on where it ended."""

# The same design each time, so that a sweep resumes.
_SEED = 33


@dataclass(frozen=True)
class Axis:
    """Arguments that vary together.

    Attributes:
        paths: The arguments' paths; of a sample, `SAMPLE` stands first.
        rows: Their values, one a path in each row.
        name: What names of cells call it.
        labels: What they call each row.
    """

    paths: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    name: str
    labels: tuple[str, ...]


def read_axes(
    given: Mapping[str, object], sample: int | None = None, sampler: str = "latin"
) -> list[Axis]:
    """Return the axes of a sweep, a sample of all ranges being the last.

    Args:
        given: Values by path. A key of several paths with commas between them has rows of values,
            which vary together. Where there is a sample, a range stands in the place of values: a
            mapping as that of ``randomise``, such as ``{uniform: [0.3, 0.9]}``.
        sample: Points of the sample; none if None.
        sampler: One of `SAMPLERS`.

    Raises:
        ConfigError: No values, the same value twice, or no range where a sample is asked for.
    """
    found: list[tuple[tuple[str, ...], list[tuple[object, ...]]]] = []
    ranges: dict[str, Draw] = {}
    for key, values in load_mapping(given, "set").items():
        paths = tuple(path.strip() for path in key.split(","))
        if sample is not None and len(paths) == 1 and (spec := _range_in(values)) is not None:
            ranges[key] = read_draw(f"set {key}", spec)
        else:
            found.append((paths, _rows(key, paths, values)))
    # As short as they are told apart.
    last = _short_names([path for paths, _ in found for path in paths])
    axes = [
        Axis(paths, tuple(rows), "+".join(last[path] for path in paths), _labels(paths, rows))
        for paths, rows in found
    ]
    if sample is not None:
        axes.append(_sampled(ranges, check_int("sample", sample, 1, MOST_RUNS), sampler))
    named = [path for axis in axes for path in axis.paths]
    if twice := {path for path in named if named.count(path) > 1}:
        raise ConfigError("set", sorted(twice)[0], "each argument once")
    return axes


def renumbered(axes: Sequence[Axis]) -> list[Axis]:
    """Return axes whose rows are called by their numbers, where texts are too long for names.

    Args:
        axes: The axes.
    """
    return [Axis(a.paths, a.rows, a.name, _numbers(a.rows)) for a in axes]


def _range_in(values: object) -> object:
    """Return the range that stands in the place of values; None where there is none."""
    alone = values[0] if isinstance(values, list | tuple) and len(values) == 1 else values
    is_range = isinstance(alone, Mapping) and any(name in alone for name in DRAWS.names())
    return alone if is_range else None


def _rows(key: str, paths: Sequence[str], values: object) -> list[tuple[object, ...]]:
    values = check_list("set", values, f"one or more values of {key}")
    if not values:
        raise ConfigError("set", f"{key}={values}", f"one or more values of {key}")
    rows: list[tuple[object, ...]] = [(value,) for value in values]
    if len(paths) > 1:
        allowed = f"a list of {len(paths)} values, one of each of {key}"
        rows = [tuple(check_list("set", row, allowed, (len(paths),))) for row in values]
    seen: dict[Hashable, object] = {}
    for row in rows:
        first = seen.setdefault(_meaning(row), row)
        if first is not row:
            same = "" if first == row else f" ({_said(first)} and {_said(row)} are the same)"
            raise ConfigError("set", f"{key}={list(values)}", f"each value once{same}")
    return rows


def _said(row: object) -> str:
    return " and ".join(map(str, row)) if isinstance(row, tuple) else str(row)


def _meaning(value: object) -> Hashable:
    """Return what is the same for values that are the same, however they are written."""
    if isinstance(value, PLAIN):
        number = quantity(value)
        return value if number is None else number
    if isinstance(value, Mapping):
        return frozenset((key, _meaning(part)) for key, part in value.items())
    return tuple(map(_meaning, value)) if isinstance(value, list | tuple) else id(value)


def _sampled(ranges: Mapping[str, Draw], sample: int, sampler: str) -> Axis:
    """Return a sample of ranges as one axis."""
    if not ranges:
        allowed = "with a range in --set, such as scenario.load={uniform: [0.3, 0.9]}"
        raise ConfigError("sample", sample, allowed)
    points = _points(len(ranges), sample, check_in("sampler", sampler, SAMPLERS))
    rows = []
    for number, point in enumerate(points):
        values = []
        for (path, draw), share in zip(ranges.items(), point, strict=True):
            at = getattr(draw, "at", None)
            if at is None:
                raise ConfigError(f"set {path}", draw, "a range that has a value at each share")
            values.append(at(float(share)))
        rows.append((number, *values))
    return Axis((SAMPLE, *ranges), tuple(rows), SAMPLE, tuple(str(row[0]) for row in rows))


def _points(dimensions: int, number: int, sampler: str) -> FloatArray:
    """Return points in the unit cube, (number, dimensions)."""
    # Here, as it takes as long to load as all of dcgym.
    from scipy.stats import qmc

    generator = np.random.default_rng(_SEED)
    if sampler == "latin":
        return np.asarray(qmc.LatinHypercube(dimensions, seed=generator).random(number))
    exponent = number.bit_length() - 1
    if number != 1 << exponent:
        raise ConfigError("sample", number, "a power of two for Sobol's sequence, such as 64")
    return np.asarray(qmc.Sobol(dimensions, seed=generator).random_base2(exponent))


def _short_names(paths: Sequence[str]) -> dict[str, str]:
    """Return the last part of each path, or all of it where that is not enough."""
    last = {path: path.rpartition(".")[2] for path in paths}
    names = list(last.values())
    return {path: name if names.count(name) == 1 else path for path, name in last.items()}


def _labels(paths: Sequence[str], rows: Sequence[tuple[object, ...]]) -> tuple[str, ...]:
    """Return a text for each row, fit for a file name."""
    texts = [label_of(row[0] if len(paths) == 1 else row) for row in rows]
    labels = [re.sub(r"[^\w.+:]+", "_", text) for text in texts]
    if len(set(labels)) == len(labels) and max(map(len, labels)) <= LONGEST_NAME:
        return tuple(labels)
    return _numbers(rows)


def _numbers(rows: Sequence[object]) -> tuple[str, ...]:
    return tuple(f"#{position}" for position in range(1, len(rows) + 1))


def label_of(value: object) -> str:
    """Return a short text of a value.

    Args:
        value: The value.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, Mapping):
        parts = [f"{key}:{label_of(part)}" for key, part in value.items()]
        return "+".join(part.removeprefix("name:") for part in parts)
    if isinstance(value, list | tuple):
        return "+".join(map(label_of, value))
    return str(value) if isinstance(value, PLAIN) else type(value).__name__
