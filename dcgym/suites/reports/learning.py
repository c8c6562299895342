"""Learning curves: the reward of trainings over their steps, beside policies that do not learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dcgym.backends.records import Record
from dcgym.suites.intervals import bootstrap_95
from dcgym.suites.reports.layout import Column, policies_of, runs_of
from dcgym.suites.reports.numbers import spread_of
from dcgym.suites.reports.plots import clip, embed, error_lengths, look, make_axes
from dcgym.suites.reports.spacing import AROUND_IN, LINE_IN, label_ends
from dcgym.suites.results import SUITE_FILE, Records, read_json
from dcgym.suites.statistics import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["mean_curve", "training_section"]

# What a training reports is the mean reward of a step of its episodes, as this is of a run.
REWARD = Column("reward_mean", "reward", low=None)
MEAN_POINTS = 60
# Thin lines of more trainings hide one another.
MOST_THIN = 10
NOTE = (
    "Curves: mean reward of a step in the episodes of a training, exploration and the start of "
    "episodes included. Thin: each training; thick: their mean with its 95 % interval, as far as "
    "all of them came."
)
COMPARED = (
    "Dashed: mean reward of a step of policies that do not learn, in the scored runs of this "
    "case; the dot: that of the trained policy, without exploration. Both leave the warm-up out."
)
ELSEWHERE = (
    "Without lines: the training met other environments than the case, whose rewards say nothing "
    "of the curve."
)


def training_section(folder: Path, records: Records, cells: Sequence[tuple[str, Records]]) -> str:
    """Return the learning curves of some cells as HTML; empty where nobody learned.

    Args:
        folder: Folder of the results.
        records: Records of the report, which tell the looks of policies.
        cells: Title and records of each cell.
    """
    elsewhere = _trained_elsewhere(folder)
    drawn, notes = [], [NOTE]
    for title, runs in cells:
        if curves := _curves_of(runs):
            is_own = runs[0].get("scenario", "") not in elsewhere
            notes.append(COMPARED if is_own else ELSEWHERE)
            drawn.append(f'<div class="wide">{_figure(records, title, runs, curves, is_own)}</div>')
    if not drawn:
        return ""
    note = f"<p class='note'>{' '.join(dict.fromkeys(notes))}</p>"
    return f"<h3>Training</h3>{note}{''.join(drawn)}"


def mean_curve(curves: Sequence[FloatArray]) -> FloatArray:
    """Return the mean of several curves, and its 95 % interval, as far as all of them come.

    Args:
        curves: Steps and rewards of each training, (n, 2), steps ascending.

    Returns:
        Steps, mean, lower and upper end of the interval, (4, m); NaN ends for a single curve, and
        m = 0 where no step lies in all of them.
    """
    first = max(curve[0, 0] for curve in curves)
    last = min(curve[-1, 0] for curve in curves)
    if first > last:
        return np.empty((4, 0))
    steps = np.linspace(first, last, MEAN_POINTS)
    rows = np.array([np.interp(steps, curve[:, 0], curve[:, 1]) for curve in curves])
    found = [bootstrap_95(column) for column in rows.T]
    return np.array([steps, *zip(*found, strict=True)])


def _trained_elsewhere(folder: Path) -> set[str]:
    """Return the cases whose learners were trained in environments of their own."""
    suite = read_json(folder / SUITE_FILE) or {}
    return {case.get("name", "") for case in suite.get("cases", ()) if case.get("train_env")}


def _curves_of(runs: Records) -> dict[str, list[FloatArray]]:
    """Return the curves of each learner's trainings, (n, 2) each: steps and rewards."""
    found: dict[str, dict[str, FloatArray]] = {}
    for run in runs:
        training: Record = run.get("training") or {}
        if training.get("curve"):
            points = np.array(training["curve"], np.float64)[:, 1:]
            found.setdefault(str(run["policy"]), {})[str(training["checkpoint"])] = points
    return {policy: list(own.values()) for policy, own in found.items()}


def _figure(
    records: Records,
    title: str,
    runs: Records,
    curves: Mapping[str, Sequence[FloatArray]],
    is_own: bool,
) -> str:
    others = [policy for policy in policies_of(runs) if is_own and policy not in curves]
    spreads = {policy: spread_of(runs_of(runs, policy), REWARD) for policy in others}
    levels = {policy: one.mean for policy, one in spreads.items() if one.measured}
    labels = len(levels) + len(curves)
    figure, axes = make_axes(8.0, max(2.8, AROUND_IN + LINE_IN * labels))
    ends: dict[str, float] = {}
    drawn: dict[str, list[float]] = {policy: [level] for policy, level in levels.items()}
    for policy, own in curves.items():
        colour = look(records, policy).colour
        drawn[policy] = [float(value) for curve in own for value in curve[:, 1]]
        ends[policy] = _draw_curves(axes, own, policy, colour)
        if is_own:
            _draw_scored(axes, runs_of(runs, policy), own, colour)
    for policy, level in levels.items():
        colour = look(records, policy).colour
        axes.axhline(level, color=colour, linestyle=(0, (5, 2)), linewidth=1.0, label=policy)
    axes.set(xlabel="training steps", ylabel="mean reward of a step")
    note = clip(axes, drawn, True)
    label_ends(axes, {**levels, **ends}, {p: look(records, p).colour for p in drawn})
    return embed(figure, f"Reward while training{f', {title}' if title else ''}", note)


def _draw_curves(axes: Axes, own: Sequence[FloatArray], policy: str, colour: str) -> float:
    """Draw each training and the mean of several, and return the last reward."""
    if len(own) == 1:
        steps, mean = own[0].T
    else:
        steps, mean, low, high = mean_curve(own)
        axes.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
        for curve in own if len(own) <= MOST_THIN else ():
            axes.plot(*curve.T, color=colour, linewidth=0.6, alpha=0.5)
    axes.plot(steps, mean, color=colour, linewidth=1.8, label=policy)
    return float(mean[-1]) if steps.size else float(np.mean([curve[-1, 1] for curve in own]))


def _draw_scored(axes: Axes, runs: Records, own: Sequence[FloatArray], colour: str) -> None:
    """Draw what the trained policy earns without exploration where its trainings ended."""
    spread = spread_of(runs, REWARD)
    if spread.measured:
        last = max(float(curve[-1, 0]) for curve in own)
        lengths = error_lengths([spread], REWARD)
        axes.errorbar([last], [spread.mean], yerr=lengths, color=colour, fmt="o", markersize=6)
