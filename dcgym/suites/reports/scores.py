"""Normalised scores in a report: who is best over all cases, how sure that is, and where."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dcgym.suites.aggregates import Estimate, performance_profile
from dcgym.suites.comparisons import Gap
from dcgym.suites.reports.html import Cell, Marked, table
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


def score_cells(board: Scoreboard) -> list[list[str]]:
    """Return the cells of a row for each policy, under `SCORE_TITLES`.

    Args:
        board: The scores.
    """
    return [_cells(one, one.policy == board.leader) for one in board.standings]


def _cells(one: Standing, is_leader: bool) -> list[str]:
    gain = [_written(one.improvement), _written_gap(one.gain.gap), write_p(one.gain.p)]
    trainings = str(one.trainings) if one.trainings else ""
    return [
        *(one.policy, _written(one.iqm), _written(one.mean), _written(one.lower_tenth)),
        *(["leader", "", ""] if is_leader else gain),
        *(str(one.cases), str(one.seeds), trainings, one.remark),
    ]


def _written(found: Estimate) -> str:
    if math.isnan(found.value):
        return "-"
    if math.isnan(found.low):
        return f"{found.value:.3f}"
    return f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"


def _written_gap(gap: Gap) -> str:
    return _written(Estimate(gap.mean, gap.mean - gap.half_width, gap.mean + gap.half_width))


def _board(board: Scoreboard) -> str:
    rows = score_cells(board)
    parts = [f"<h3>Score by {html.escape(board.metric)}</h3>{table(SCORE_TITLES, rows)}"]
    if board.left_out:
        names = ", ".join(case or "the only case" for case in board.left_out)
        text = f"Left out, as {board.high} is no better than {board.low} beyond noise: {names}."
        parts.append(f"<p class='note'>{html.escape(text)}</p>")
    cases = list(dict.fromkeys(case for one in board.standings for case in one.by_case))
    if len(cases) > 1:
        state = "" if len(cases) > MOST_OPEN else " open"
        title = html.escape(f"Mean score by {board.metric} in each case")
        parts.append(
            f"<details{state}><summary>{title}</summary>{_by_case(board, cases)}</details>"
        )
    return "".join(parts)


def _by_case(board: Scoreboard, cases: Sequence[str]) -> str:
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
            is_best = value == best and policy != board.high
            row.append(Marked(text, "best") if is_best else text)
        rows.append(row)
    return table(titles, rows)


def _profile(board: Scoreboard, records: Records) -> str:
    figure, axes = make_axes(5.0, 3.0)
    seen = np.concatenate([s.values for cases in board.samples.values() for s in cases.values()])
    ends = max(float(seen.min()), LEAST_SHOWN), min(max(float(seen.max()), 1.0), MOST_SHOWN)
    thresholds = np.linspace(*ends, THRESHOLDS)
    for policy, samples in board.samples.items():
        style = look(records, policy)
        value, low, high = performance_profile(samples, thresholds)
        axes.plot(thresholds, value, color=style.colour, linestyle=style.dash, linewidth=1.3)
        if len(board.samples) <= MOST_BANDS:
            axes.fill_between(thresholds, low, high, color=style.colour, alpha=0.15, linewidth=0)
    axes.set(xlabel=f"score by {board.metric}", ylabel="part of the runs above")
    return embed(figure, f"Performance profile, {board.metric}")
