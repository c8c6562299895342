"""Arrivals whose rate changes by itself, recorded ones, and those of users who wait."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dcgym.config import check_int, check_list, check_number, check_range
from dcgym.errors import ConfigError
from dcgym.traffic.arrivals.gaps import ARRIVALS, ArrivalKind, read_gaps
from dcgym.traffic.arrivals.process import MAX_USERS, Modulation, Process, Recording, Users
from dcgym.traffic.plans.tables import read_table
from dcgym.traffic.sizes.read import Written, read_distribution
from dcgym.traffic.sizes.samplers import Sampler
from dcgym.units import NS_PER_S, parse_duration, read_number

__all__ = ["RECORDED_COLUMNS", "read_recording"]

RECORDED_COLUMNS = ("time_s", "time_ns", "application")
"""Columns of a file of recorded arrivals: one of the times, and the application perhaps."""

MAX_RECORDED = 5_000_000
RANDOM = "random"
_LONGEST_NS = 365 * 24 * 3600 * NS_PER_S
# Of a day's sine: what stays below a step's end is under 1 % of the amplitude.
_STEPS = 288


def _mmpp(written: Written) -> Process:
    rates = [float(check_number(f"{written.field}.rates", one)) for one in _list(written, "rates")]
    if min(rates) < 0:
        raise ConfigError(f"{written.field}.rates", min(rates), "0 or more")
    if sum(rates) <= 0 or not math.isfinite(sum(rates)):
        raise ConfigError(f"{written.field}.rates", rates, "one or more above 0")
    times_ns = tuple(_time_ns(time, f"{written.field}.times") for time in _list(written, "times"))
    if len(times_ns) != len(rates):
        raise ConfigError(
            f"{written.field}.times", len(times_ns), f"a time for each of {len(rates)} rates"
        )
    return Process(_gaps(written), Modulation.of_rates(tuple(rates), times_ns, is_markov=True))


def _bursty(written: Written) -> Process:
    spec, field = written.spec, written.field
    times_ns = tuple(_time_ns(spec.get(key), f"{field}.{key}") for key in ("burst", "silence"))
    return Process(_gaps(written), Modulation.of_rates((1.0, 0.0), times_ns, is_markov=True))


def _diurnal(written: Written) -> Process:
    field, spec = written.field, written.spec
    if ("amplitude" in spec) == ("rates" in spec):
        raise ConfigError(field, dict(spec), "either an amplitude or rates")
    period_ns = _time_ns(spec.get("period", "24h"), f"{field}.period")
    if "rates" in spec:
        rates = [check_range(f"{field}.rates", rate, 0, 1e9) for rate in _list(written, "rates")]
        if sum(rates) <= 0:
            raise ConfigError(f"{field}.rates", rates, "one or more above 0")
    else:
        amplitude = check_range(f"{field}.amplitude", spec["amplitude"], 0, 1)
        rates = [1 + amplitude * _mean_of_sine(step) for step in range(_STEPS)]
    if period_ns < len(rates):
        raise ConfigError(f"{field}.period", spec.get("period"), f"{len(rates)} ns or more")
    # Whole nanoseconds, of which the last step takes what is left.
    ends_ns = [period_ns * (step + 1) // len(rates) for step in range(len(rates))]
    times_ns = tuple(end - start for start, end in zip([0, *ends_ns], ends_ns, strict=False))
    phase = _part(written, "phase")
    return Process(_gaps(written), Modulation.of_rates(tuple(rates), times_ns, False, phase))


def _part(written: Written, key: str) -> float | None:
    """Return a part of a whole, 0 where nothing is said, None for one that is drawn."""
    value, field = written.spec.get(key, 0.0), f"{written.field}.{key}"
    if value == RANDOM:
        return None
    if read_number(value) is None:
        raise ConfigError(field, value, f"0 to 1, or {RANDOM}")
    return float(check_range(field, value, 0, 1))


def _mean_of_sine(step: int) -> float:
    """Return the mean of a sine over one of the steps of its period.

    Machines differ in the last bits of a cosine, which the rounding takes away.
    """
    turn = 2 * math.pi / _STEPS
    return round((math.cos(turn * step) - math.cos(turn * (step + 1))) / turn, 9)


def _recorded(written: Written) -> Process:
    spec, field = written.spec, written.field
    if ("file" in spec) == ("times" in spec):
        raise ConfigError(field, dict(spec), "either a file or times")
    if "file" in spec:
        times_ns, applications = _read_file(spec["file"], f"{field}.file")
    else:
        times = [parse_duration(time, f"{field}.times") for time in _list(written, "times")]
        times_ns, applications = np.array(times, np.int64), ()
    start = 0.0 if spec.get("start") == "first" else _part(written, "start")
    return Process(recording=read_recording(times_ns, applications, start, field))


def read_recording(
    times_ns: npt.NDArray[np.int64],
    applications: tuple[str, ...] = (),
    start: float | None = 0.0,
    field: str = "traffic.arrivals",
) -> Recording:
    """Return recorded arrivals by their times.

    Args:
        times_ns: The times, in any order, shape (n,).
        applications: Name of the application of each; none if not known.
        start: As of `Recording`.
        field: Names them in error messages.

    Raises:
        ConfigError: There are too few or too many, or all come at one time.
    """
    order = np.argsort(times_ns, kind="stable")
    times_ns = times_ns[order]
    check_int(f"{field}, recorded arrivals", len(times_ns), 2, MAX_RECORDED)
    length_ns = int(times_ns[-1] - times_ns[0])
    if length_ns == 0 or length_ns > _LONGEST_NS:
        raise ConfigError(f"{field}, recorded time in ns", length_ns, f"1 to {_LONGEST_NS}")
    mean_ns = length_ns / (len(times_ns) - 1)
    # One mean gap lies between the last arrival and the first of the next round.
    gaps = np.append(np.diff(times_ns) / mean_ns, 1.0)
    names = tuple(applications[i] for i in order) if applications else ()
    return Recording(tuple(gaps.tolist()), NS_PER_S / mean_ns, names, start)


def _read_file(file: object, field: str) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    if not isinstance(file, str | Path):
        raise ConfigError(field, file, "the path of a .csv or .parquet file")
    table = read_table(Path(file), field)
    table.check_columns(RECORDED_COLUMNS, ())
    names = tuple(table.texts("application")) if "application" in table.columns else ()
    return table.times_ns(), names


def _closed_loop(written: Written) -> Process:
    count = check_int(f"{written.field}.users", written.spec.get("users"), 1, MAX_USERS)
    default = {"name": "exponential", "mean": "10ms"}
    think = read_distribution(written.spec.get("think", default), f"{written.field}.think")
    return Process(users=Users(count, think))


def _gaps(written: Written) -> Sampler:
    return read_gaps(written.spec.get("gaps", "poisson"), f"{written.field}.gaps")


def _list(written: Written, key: str) -> Sequence[float]:
    where, sizes = f"{written.field}.{key}", range(2, MAX_RECORDED + 1)
    return check_list(where, written.spec.get(key), "a list of two or more", sizes)


def _time_ns(value: object, field: str) -> int:
    time_ns = parse_duration(value, field)
    return check_int(field, time_ns, 1, _LONGEST_NS)


ARRIVALS.add(
    "mmpp",
    ArrivalKind(("rates", "times", "gaps"), _mmpp),
    "the rate jumps between some values, each for exponential times (Markov-modulated)",
)
ARRIVALS.add(
    "bursty",
    ArrivalKind(("burst", "silence", "gaps"), _bursty),
    "bursts and silences of exponential lengths (interrupted Poisson)",
)
ARRIVALS.add(
    "diurnal",
    ArrivalKind(("period", "amplitude", "rates", "phase", "gaps"), _diurnal),
    "the rate follows a sine, or the given rates in equal parts of a period",
)
ARRIVALS.add(
    "recorded",
    ArrivalKind(("file", "times", "start"), _recorded),
    "gaps as they were recorded, at the pace of the load",
)
ARRIVALS.add(
    "closed-loop",
    ArrivalKind(("users", "think"), _closed_loop),
    "users that think once their flow has ended, and send the next",
)
