"""A twin beside the emulation: means, spreads, errors, and what each error is worth."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from dcgym.backends.records import Record
from dcgym.errors import ConfigError
from dcgym.suites.fidelity import describe_reasons, is_as_good_as
from dcgym.suites.intervals import student_95
from dcgym.suites.results import Records
from dcgym.suites.twin_error.quantities import TRACE, Quantity
from dcgym.suites.twin_error.traces import Trace, align, distance_among

__all__ = [
    "BEYOND",
    "EMULATION",
    "MISSING",
    "OK",
    "OWN_SPREAD",
    "TWIN",
    "VERDICTS",
    "Sample",
    "TwinError",
    "case_of",
    "twin_errors",
]

TWIN, EMULATION = "simulation", "emulation"
OK, OWN_SPREAD, BEYOND, MISSING = "ok", "own spread", "beyond", "not measured"
VERDICTS = (OK, OWN_SPREAD, BEYOND, MISSING)
"""Within the tolerance; beyond it but within the emulation's own spread; beyond both; unknown."""

ReadTrace: TypeAlias = Callable[[Record], Trace | None]
Pair: TypeAlias = tuple[Record, Record]
"""The same run in the twin and in the emulation."""


@dataclass(frozen=True)
class Sample:
    """A metric over the runs of one backend.

    Attributes:
        mean: Mean over the runs; NaN where none measured it.
        spread: Largest distance of a run from the mean; NaN for fewer than two runs.
        runs: Runs that measured it.
    """

    mean: float = math.nan
    spread: float = math.nan
    runs: int = 0


@dataclass(frozen=True)
class TwinError:
    """The error of a twin in one metric under one policy in one case.

    Attributes:
        case: Name of the case; "" where there is one.
        policy: Name of the policy.
        metric: Name of the metric.
        emulation: The metric in the emulation.
        simulation: The metric in the twin, over the same seeds.
        error: Twin's mean over the emulation's, less 1; NaN where the emulation's is 0.
        half_width: Of the 95 % interval of `error` (ratio of paired means, Student's t); NaN for a
            single seed.
        verdict: One of `VERDICTS`.
        note: Why it was not measured, or how traces were aligned.
    """

    case: str
    policy: str
    metric: str
    emulation: Sample = Sample()
    simulation: Sample = Sample()
    error: float = math.nan
    half_width: float = math.nan
    verdict: str = MISSING
    note: str = ""


@dataclass(frozen=True)
class _Runs:
    """What was run of a policy in a case: pairs that count, and all records of each backend."""

    is_drawn: bool
    pairs: list[Pair] = field(default_factory=list)
    twin: list[Record] = field(default_factory=list)
    emulated: list[Record] = field(default_factory=list)

    def alike(self, runs: Records) -> list[list[int]]:
        """Return the positions of runs that were asked the same: equal flows and equal actions."""
        found: dict[tuple[object, object], list[int]] = {}
        for position, run in enumerate(runs):
            flows = run.get("plan", {}).get("digest", run["seed"])
            found.setdefault((flows, run["seed"] if self.is_drawn else None), []).append(position)
        return list(found.values())


def twin_errors(
    records: Records,
    quantities: Sequence[Quantity],
    required: str = "invalid",
    trace_of: ReadTrace | None = None,
    draws: Callable[[str], bool] = lambda _: False,
) -> list[TwinError]:
    """Return the error of each quantity under each policy in each case.

    A metric that no run of a policy knows, such as completion times of endless flows, has no row.
    The emulation's own spread is known where several of its runs were asked the same: seeds of bulk
    flows, or repeated runs of a seed.

    Args:
        records: Records of runs, each with backend, scenario, policy, seed, metrics and fidelity.
        quantities: What is compared.
        required: Worst fidelity of an emulated run that counts.
        trace_of: Returns the trace of a run; None leaves traces out.
        draws: Tells whether a policy draws its actions, so that two seeds ask different things.

    Raises:
        ConfigError: No policy was run on both backends.
    """
    found = _by_policy(records, required, draws)
    if not any(runs.twin and runs.emulated for runs in found.values()):
        raise ConfigError("records", f"{len(records)} runs", "runs of both backends")
    errors: list[TwinError] = []
    for (case, policy), runs in found.items():
        for one in quantities:
            row = TwinError(case, policy, one.metric)
            if one.metric != TRACE:
                known = any(one.metric in run["metrics"] for run in (*runs.twin, *runs.emulated))
                errors += [_compared(row, one, runs, required)] if known else []
            elif trace_of is not None:
                errors.append(_compared_traces(row, one, runs, required, trace_of))
    return errors


def case_of(record: Record) -> str:
    """Return the name of a record's case without its backend.

    Args:
        record: Record of a run of a suite in this package.
    """
    # A number behind it counts repeated runs.
    return re.sub(rf"-?{record['backend']}(-\d+)?$", "", str(record.get("scenario", "")))


def _by_policy(
    records: Records, required: str, draws: Callable[[str], bool]
) -> dict[tuple[str, str], _Runs]:
    found: dict[tuple[str, str], _Runs] = {}
    for record in records:
        policy = str(record["policy"])
        runs = found.setdefault((case_of(record), policy), _Runs(draws(policy)))
        (runs.twin if record["backend"] == TWIN else runs.emulated).append(record)
    for runs in found.values():
        twins = {run["seed"]: run for run in runs.twin}
        runs.pairs.extend(
            (twins[run["seed"]], run)
            for run in runs.emulated
            if run["seed"] in twins and is_as_good_as(run, required)
        )
    return found


def _compared(row: TwinError, quantity: Quantity, runs: _Runs, required: str) -> TwinError:
    """Fill a row from the pairs in which both sides measured the metric."""
    known = [
        (values, pair[1])
        for pair in runs.pairs
        if all(map(math.isfinite, values := [_value(run, quantity) for run in pair]))
    ]
    if not known:
        return replace(row, note=_why_not(runs, required, quantity.metric))
    both = [values for values, _ in known]
    twin, real = (_sample([pair[side] for pair in both]) for side in (0, 1))
    error = twin.mean / real.mean - 1 if real.mean else math.nan
    groups = runs.alike([run for _, run in known])
    own = [_sample([both[at][1] for at in group]).spread for group in groups if len(group) > 1]
    verdict = _verdict(quantity, abs(twin.mean - real.mean), abs(real.mean), own)
    half = _half_width(both, error, real.mean)
    return replace(
        row, emulation=real, simulation=twin, error=error, half_width=half, verdict=verdict
    )


def _compared_traces(
    row: TwinError,
    quantity: Quantity,
    runs: _Runs,
    required: str,
    trace_of: ReadTrace,
) -> TwinError:
    """Fill the row of the traces' distance: its error is over the emulation's mean backlog."""
    pairs = [(trace_of(twin), trace_of(real), real) for twin, real in runs.pairs]
    known = [
        (twin, real, run) for twin, real, run in pairs if twin is not None and real is not None
    ]
    if not known:
        return replace(row, note=_why_not(runs, required, quantity.metric))
    aligned = [align(real, twin) for twin, real, _ in known]
    distances = [one.rmse_bytes for one in aligned]
    groups = runs.alike([run for _, _, run in known])
    own = [one for group in groups for one in distance_among([known[at][1] for at in group])]
    mean = float(np.mean([real.queue_bytes.mean() for _, real, _ in known]))
    distance = float(np.mean(distances))
    verdict = _verdict(quantity, distance, mean, own)
    lags_ms = sorted(1e3 * one.lag_s for one in aligned)
    return replace(
        row,
        emulation=_sample(own),
        simulation=_sample(distances),
        error=distance / mean if mean else math.nan,
        verdict=verdict,
        note=f"twin late by {lags_ms[0]:.0f} to {lags_ms[-1]:.0f} ms",
    )


def _verdict(quantity: Quantity, distance: float, scale: float, own: Sequence[float]) -> str:
    if distance <= max(quantity.within * scale, quantity.least):
        return OK
    return OWN_SPREAD if own and distance <= max(own) else BEYOND


def _value(run: Record, quantity: Quantity) -> float:
    return float(run["metrics"].get(quantity.metric, math.nan))


def _sample(values: Sequence[float]) -> Sample:
    if not values:
        return Sample()
    mean = float(np.mean(values))
    spread = max(abs(value - mean) for value in values) if len(values) > 1 else math.nan
    return Sample(mean, spread, len(values))


def _half_width(pairs: Sequence[Sequence[float]], error: float, mean: float) -> float:
    """Return the half width of the 95 % interval of a ratio of paired means, to first order."""
    if not math.isfinite(error):
        return math.nan
    return student_95([(twin - (1 + error) * real) / mean for twin, real in pairs])[1]


def _why_not(runs: _Runs, required: str, metric: str) -> str:
    """Say why a metric could not be compared."""
    if not runs.twin:
        return "no run in the twin"
    if not runs.emulated:
        return "no run in the emulation"
    if not runs.pairs:
        poor = [run for run in runs.emulated if not is_as_good_as(run, required)]
        if not poor:
            return "no seed was run in both"
        statuses = ", ".join(sorted({str(run["fidelity"]["status"]) for run in poor}))
        return f"emulation {statuses}: {describe_reasons(poor) or 'no reason given'}"
    if metric == TRACE:
        return "the steps hold no queue"
    twins, reals = (
        any(math.isfinite(float(run["metrics"].get(metric, math.nan))) for run in side)
        for side in zip(*runs.pairs, strict=True)
    )
    missing: Mapping[tuple[bool, bool], str] = {
        (False, True): "no value in the twin",
        (True, False): "no value in the emulation",
        (False, False): "no value in either, as too few flows ended or none ran",
    }
    return missing.get((twins, reals), "no seed with a value in both")
