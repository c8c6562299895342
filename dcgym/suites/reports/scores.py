"""Normalised scores in a report: who is best over all cases, how sure that is, and where."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dcgym.suites.aggregates import Estimate, performance_profile
from dcgym.suites.reports.cells import Cell, Number
from dcgym.suites.reports.html import table
from dcgym.suites.reports.numbers import write_p
from dcgym.suites.reports.plots import embed, legend, look, make_axes
from dcgym.suites.results import Records
from dcgym.suites.scores import Scoreboard, Standing, find_scores

__all__ = ["SCORE_TITLES", "score_cells", "scores_section"]

SCORE_TITLES = (
    *("policy", "IQM", "mean", "lower tenth", "P(better than leader)", "gain over leader"),
    *("p of gain", "cases", "seeds", "trainings", "remark"),
)
"""Titles of the tables of scores, here and in the terminal."""

# Scores below this are as bad as one another: a policy whose queues overflow has any.
LEAST_SHOWN = -1.0
MOST_SHOWN = 1.25
THRESHOLDS = 150
# Bands of more policies hide each other.
MOST_BANDS = 4
# Tables by case fold away where there are more.
MOST_OPEN = 12


def scores_section(folder: Path, records: Records) -> str:
    """Return tables and performance profiles; empty where the references were not run.

    Args:
        folder: Folder of the suite.
        records: Records of its runs.
    """
    boards = find_scores(folder, records)
    if not boards:
        return ""
    first = boards[0]
    note = (
        f"In each case the mean of {first.low} is 0 and that of {first.high} is 1. "
        "IQM: mean of the middle half of all runs. Lower tenth: the score that nine of ten runs "
        "reach. Intervals: 95 %, bootstrap stratified by case, which draws trainings first and "
        "evaluation seeds within them; of the gain, Student's t over trainings or seeds. The "
        "leader has the best IQM beside the references; others are compared with it in the same "
        "case with the same seed. p: corrected for all pairs of policies (Holm)."
    )
    parts = [f"<h2>Normalised scores</h2><p class='note'>{html.escape(note)}</p>"]
    parts += [_board(board) for board in boards]
    profiles = "".join(_profile(board, records) for board in boards)
    text = "Part of the runs that score more than a value, each case counting the same."
    if len(first.standings) <= MOST_BANDS:
        text += " Bands: pointwise 95 % intervals."
    parts.append(
        f"<h3>Performance profiles</h3><p class='note'>{text}</p>{legend(records)}"
        f'<div class="figures">{profiles}</div>'
    )
    return "\n".join(parts)


def score_cells(board: Scoreboard) -> list[list[Cell]]:
    """Return the cells of a row for each policy, under `SCORE_TITLES`.

    Args:
        board: The scores.
    """
    return [_cells(one, one.policy == board.leader) for one in board.standings]


def _cells(one: Standing, is_leader: bool) -> list[Cell]:
    gap, p = one.gain.gap, one.gain.p
    gain = Estimate(gap.mean, gap.mean - gap.half_width, gap.mean + gap.half_width)
    beside = [_cell(one.improvement), _cell(gain), Number(write_p(p), "", {"": p})]
    leads = [Number(text, "", {}) for text in ("leader", "", "")]
    counts = [
        Number(str(number) if number else "", "", {"": number})
        for number in (one.cases, one.seeds, one.trainings)
    ]
    return [
        *(one.policy, _cell(one.iqm), _cell(one.mean), _cell(one.lower_tenth)),
        *(leads if is_leader else beside),
        *counts,
        one.remark,
    ]


def _cell(found: Estimate) -> Number:
    values = {"": found.value, "low": found.low, "high": found.high}
    text = "-" if math.isnan(found.value) else f"{found.value:.3f}"
    if not math.isnan(found.low):
        text += f" ({found.low:.3f} to {found.high:.3f})"
    return Number(text, "", values)


def _board(board: Scoreboard) -> str:
    rows = score_cells(board)
    name = f"Score by {board.metric}"
    parts = [f"<h3>{html.escape(name)}</h3>{table(SCORE_TITLES, rows, name)}"]
    if board.left_out:
        names = ", ".join(case or "the only case" for case in board.left_out)
        text = f"Left out, as {board.high} is no better than {board.low} beyond noise: {names}."
        parts.append(f"<p class='note'>{html.escape(text)}</p>")
    cases = list(dict.fromkeys(case for one in board.standings for case in one.by_case))
    if len(cases) > 1:
        state = "" if len(cases) > MOST_OPEN else " open"
        title = f"Mean score by {board.metric} in each case"
        shown = _by_case(board, cases, title)
        parts.append(f"<details{state}><summary>{html.escape(title)}</summary>{shown}</details>")
    return "".join(parts)


def _by_case(board: Scoreboard, cases: Sequence[str], name: str) -> str:
    """Return a table of cases and policies; the best of each case but its 1 is marked."""
    titles = ["case", *(one.policy for one in board.standings)]
    rows: list[list[Cell]] = []
    for case in cases:
        own = {one.policy: one.by_case.get(case, math.nan) for one in board.standings}
        seen = [own[p] for p in own if p != board.high and not math.isnan(own[p])]
        best = max(seen, default=math.nan)
        row: list[Cell] = [case]
        for policy, value in own.items():
            text = "-" if math.isnan(value) else f"{value:.2f}"
            kind = "best" if value == best and policy != board.high else ""
            row.append(Number(text, kind, {"": value}))
        rows.append(row)
    return table(titles, rows, name)


def _profile(board: Scoreboard, records: Records) -> str:
    figure, axes = make_axes(5.0, 3.0)
    seen = np.concatenate([s.values for cases in board.samples.values() for s in cases.values()])
    ends = max(float(seen.min()), LEAST_SHOWN), min(max(float(seen.max()), 1.0), MOST_SHOWN)
    thresholds = np.linspace(*ends, THRESHOLDS)
    for policy, samples in board.samples.items():
        style = look(records, policy)
        value, low, high = performance_profile(samples, thresholds)
        axes.plot(
            thresholds,
            value,
            color=style.colour,
            linestyle=style.dash,
            linewidth=1.3,
            label=policy,
        )
        if len(board.samples) <= MOST_BANDS:
            axes.fill_between(thresholds, low, high, color=style.colour, alpha=0.15, linewidth=0)
    axes.set(xlabel=f"score by {board.metric}", ylabel="part of the runs above")
    return embed(figure, f"Performance profile, {board.metric}")
