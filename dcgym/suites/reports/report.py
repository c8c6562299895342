"""``report.html``: one file with plots, readable without a network."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from dcgym.backends.records import Record
from dcgym.config import check_in, check_name
from dcgym.errors import ConfigError
from dcgym.suites.fidelity import describe_reasons, is_as_good_as, run_names, worst_status
from dcgym.suites.reports.cells import Cell
from dcgym.suites.reports.completion import completion_section
from dcgym.suites.reports.curves import (
    curve_columns,
    curve_sections,
    is_sweep,
    points_of,
    varied_paths,
)
from dcgym.suites.reports.differences import differences_section
from dcgym.suites.reports.exports import each_section
from dcgym.suites.reports.facts import facts_section
from dcgym.suites.reports.failures import failures_section
from dcgym.suites.reports.flow_sizes import flow_section
from dcgym.suites.reports.html import (
    defined,
    definitions,
    heading,
    page,
    table,
    write_page,
)
from dcgym.suites.reports.layout import (
    Column,
    Layout,
    describe_training,
    layout_of,
    policies_of,
    runs_of,
    scenarios_of,
)
from dcgym.suites.reports.learning import training_section
from dcgym.suites.reports.maps import map_sections
from dcgym.suites.reports.numbers import COUNTED, best_of, count_cell, spread_of, values_of
from dcgym.suites.reports.plots import (
    cell,
    clip,
    embed,
    error_lengths,
    legend,
    look,
    make_axes,
    one_page,
    scale_of,
)
from dcgym.suites.reports.published import published_section
from dcgym.suites.reports.scores import scores_section
from dcgym.suites.reports.verdicts import verdicts_section
from dcgym.suites.reports.winners import winners_table
from dcgym.suites.results import Records, read_table, run_folder
from dcgym.suites.statistics import FloatArray

__all__ = ["has_many_cases", "write_report"]

# A thin line is the measured one, a thick one its mean over this part of the run.
SMOOTHED_PART = 30
# Points of a line: more than the pixels that show it only make the file large.
MAX_POINTS = 200
MAX_POINTS_OF_ALL = 2000
# Figures of each of more cases make a page that no browser opens at once.
MOST_DRAWN = 8
# Thin lines of more policies hide each other, and the thick ones.
MOST_THIN = 4


@one_page()
def write_report(
    folder: Path, records: Records, refused: Records = (), case: str | None = None
) -> Path:
    """Write the report of finished runs and return its path.

    Args:
        folder: Folder of the benchmark.
        records: Records of the runs.
        refused: Those of runs that were left out for their fidelity.
        case: The only case to report on, in ``report-CASE.html``; all if None.

    Raises:
        ConfigError: There is no such case.
        MissingDependency: Matplotlib is not installed.
    """
    if case is not None:
        check_name("case", check_in("case", case, list(scenarios_of(records))))
        records = scenarios_of(records)[case]
        sections = [failures_section(folder), *_sections(folder, records)]
        page = _page(folder, records, refused, sections)
        return write_page(folder, page, f"report-{case}")
    # An export numbers files in the order in which they are made, which is that of the page.
    sections = [failures_section(folder), scores_section(folder, records)]
    if is_sweep(records):
        sections += [*map_sections(records), *curve_sections(records), _cells(folder, records)]
    else:
        sections += [_winners(records), *_sections(folder, records)]
    sections += [verdicts_section(folder, records), published_section(folder, records)]
    return write_page(folder, _page(folder, records, refused, sections))


def has_many_cases(records: Records) -> bool:
    """Tell whether there are so many cases that not all of them are drawn or printed.

    Args:
        records: Records of runs.
    """
    return len(scenarios_of(records)) > MOST_DRAWN


def _sections(folder: Path, records: Records) -> list[str]:
    """Return the section of each scenario."""
    parts: list[str] = []
    scenarios = scenarios_of(records)
    if has_many_cases(records):
        return [_tables(scenarios)]
    for scenario, runs in each_section(scenarios.items()):
        layout = layout_of(runs)
        found = [
            heading(scenario),
            _table(runs, layout),
            differences_section("", [("", runs)], layout.columns),
            flow_section(runs),
            completion_section(folder, runs, [("", runs)]),
            "<h3>Comparison</h3><p class='note'>A stroke a seed, the dot their mean with "
            "its 95 % interval.</p>",
            f'<div class="figures">{"".join(_dots(runs, one) for one in layout.columns)}</div>',
            training_section(folder, runs, [("", runs)]),
            f"<h3>One run of each policy, seed {runs[0]['seed']}</h3>{_how_smooth(runs)}",
            legend(runs),
            f'<div class="wide">{"".join(_series(folder, runs, layout))}</div>',
        ]
        parts.append("\n".join(found))
    return parts


def _cells(folder: Path, records: Records) -> str:
    """Return what is drawn of a few cells of a sweep: flow by flow, and training by training."""
    points = points_of(records)
    paths = varied_paths(points)
    chosen = [points[number] for number in sorted({0, len(points) // 2, len(points) - 1})]
    cells = [(point.title(paths), point.records) for point in chosen]
    drawn = completion_section(folder, records, cells) + training_section(folder, records, cells)
    if not drawn:
        return ""
    others = (
        "The first, the middle and the last cell; <code>dcgym report FOLDER --case NAME</code> "
        f"draws any other, such as {html.escape(str(points[0].records[0].get('scenario', '')))}."
    )
    note = f"<p class='note'>{others}</p>" if len(points) > len(cells) else ""
    return f"<h2>Single cells</h2>{note}{drawn}"


def _winners(records: Records) -> str:
    """Return who is best in each of several cases."""
    scenarios = scenarios_of(records)
    shown = winners_table(scenarios) if len(scenarios) > 1 else ""
    return (
        f"<details open><summary>Best policies by case</summary>{shown}</details>" if shown else ""
    )


def _tables(scenarios: Mapping[str, Records]) -> str:
    """Return the table of each of many scenarios, folded away."""
    found = [
        f"<details><summary>{html.escape(name)}</summary>{_table(runs, layout_of(runs))}</details>"
        for name, runs in each_section(scenarios.items())
    ]
    note = (
        f"Figures are drawn where there are at most {MOST_DRAWN} cases; "
        "<code>dcgym report FOLDER --case NAME</code> draws those of one."
    )
    return f"<h2>Cases</h2><p class='note'>{note}</p>{''.join(found)}"


def _dots(records: Records, column: Column) -> str:
    """Return a metric of every run, policies downwards in the order of the records."""
    policies = policies_of(records)
    figure, axes = make_axes(4.0, 0.9 + 0.24 * len(policies))
    drawn: list[float] = []
    for row, policy in enumerate(policies):
        runs, style = runs_of(records, policy), look(records, policy)
        spread = spread_of(runs, column)
        values = [value for value in values_of(runs, column) if math.isfinite(value)]
        if not values:
            continue
        drawn += values
        axes.plot(values, [row] * len(values), "|", color=style.colour, alpha=0.6, markersize=5)
        errors = error_lengths([spread], column)
        axes.errorbar(
            [spread.mean],
            [row],
            xerr=errors,
            color=style.colour,
            fmt=style.marker,
            markersize=6,
        )
    axes.set_yticks(range(len(policies)), policies)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(policies) - 0.5, -0.5)
    axes.set_xscale(scale_of(drawn, column))
    note = clip(axes, {p: values_of(runs_of(records, p), column) for p in policies}, False)
    low, high = axes.get_xlim()
    for row, policy in enumerate(policies):
        # Of what lies beyond the axis, the mean stands at its end.
        mean = spread_of(runs_of(records, policy), column).mean
        if mean > high:
            axes.text(high, row, f"{mean:.3g} →", ha="right", va="bottom", fontsize=8)
        elif mean < low:
            axes.text(low, row, f"← {mean:.3g}", ha="left", va="bottom", fontsize=8)
    note = " (log scale)" if axes.get_xscale() == "log" else note
    return embed(figure, defined(column), note)


def _series(folder: Path, records: Records, layout: Layout) -> list[str]:
    firsts = {policy: runs_of(records, policy)[0] for policy in policies_of(records)}
    points = min(MAX_POINTS, MAX_POINTS_OF_ALL // len(firsts))
    steps = {policy: _steps(folder, first, layout, points) for policy, first in firsts.items()}
    # Pools name their groups as they like: what no run has recorded is not drawn.
    series = [one for one in layout.series if all(one.metric in run for run in steps.values())]
    figures = []
    for column in series:
        figure, axes = make_axes(6.0, 2.6)
        highest: dict[str, list[float]] = {}
        for policy, run in steps.items():
            style = look(records, policy)
            values = np.array(run[column.metric], np.float64) / column.divisor
            if len(steps) <= MOST_THIN:
                axes.plot(run["time_s"], values, color=style.colour, linewidth=0.6, alpha=0.3)
            smooth = _smoothed(values)
            axes.plot(run["time_s"], smooth, color=style.colour, linestyle=style.dash, label=policy)
            seen = smooth[np.isfinite(smooth)]
            highest[policy] = [float(seen.min()), float(seen.max())] if seen.size else []
        axes.set_xlabel("time, s")
        note = clip(axes, highest, True)
        figures.append(embed(figure, defined(column), note))
    return figures


def _how_smooth(records: Records) -> str:
    thin = "Thin: as measured; thick: the" if len(policies_of(records)) <= MOST_THIN else "The"
    return f"<p class='note'>{thin} moving mean over 1/{SMOOTHED_PART} of the run.</p>"


def _smoothed(values: FloatArray) -> FloatArray:
    """Return the moving mean over a part of the run, of what was measured."""
    width = max(1, len(values) // SMOOTHED_PART)
    kernel = np.ones(width)
    seen = np.isfinite(values)
    total = np.convolve(np.where(seen, values, 0.0), kernel, "same")
    count = np.convolve(seen.astype(np.float64), kernel, "same")
    smooth: FloatArray = np.divide(total, count, out=np.full(len(values), np.nan), where=count > 0)
    return smooth


def _steps(
    folder: Path, record: Record, layout: Layout, most_points: int
) -> dict[str, list[float]]:
    import polars as pl

    run = run_folder(folder, record.get("scenario", ""), record["policy"], record["seed"])
    frame = read_table(run / "steps.parquet")
    if frame is None:
        raise ConfigError("results", str(run), "the folder of a run, with steps.parquet")
    for name, prefix in layout.means.items():
        parts = [column for column in frame.columns if column.startswith(prefix)]
        if parts:
            frame = frame.with_columns(pl.mean_horizontal(parts).alias(name))
    wanted = [column.metric for column in layout.series if column.metric in frame.columns]
    frame = frame.select("time_s", *wanted)
    size = math.ceil(frame.height / most_points)
    if size > 1:
        block = (pl.int_range(frame.height) // size).alias("block")
        frame = frame.group_by(block, maintain_order=True).mean().drop("block")
    return {name: frame[name].to_list() for name in frame.columns}


def _page(folder: Path, records: Records, refused: Records, sections: Sequence[str]) -> str:
    first = records[0]
    warmup_s = first["config"]["warmup_s"]
    return page(
        "dcgym benchmark",
        f"<h1>{html.escape(str(first['env']))}</h1>",
        f"<p>{len(records)} runs. The metrics leave out the first {warmup_s:g} s of each run. "
        "Mean over seeds with its 95 % interval (studentised bootstrap; Student's t below five "
        "runs). Where a policy has several trainings, it is over their means, and covers the "
        "chance of training. "
        "Every policy meets the same traffic for the same seed.</p>",
        _warning(records, refused),
        *sections,
        definitions(_shown_columns(records)),
        facts_section(folder, records),
    )


def _warning(records: Records, refused: Records) -> str:
    lines = []
    if refused:
        lines.append(f"Refused and left out: {run_names(refused)}: {describe_reasons(refused)}.")
    if poor := [record for record in records if not is_as_good_as(record, "ok")]:
        text = f"The machine did not keep up in {len(poor)} of {len(records)} runs: "
        lines.append(f"{text}{describe_reasons(poor)}.")
    return "".join(f"<p><strong>{html.escape(line)}</strong></p>" for line in lines)


def _table(records: Records, layout: Layout) -> str:
    titles: list[Cell] = ["policy", COUNTED, *map(defined, layout.columns)]
    titles += ["fidelity", "training"]
    best = {column.metric: best_of(records, column) for column in layout.columns}
    rows: list[list[Cell]] = []
    for policy in policies_of(records):
        runs = runs_of(records, policy)
        means: list[Cell] = []
        for column in layout.columns:
            mean = cell(spread_of(runs, column), column)
            means.append(best[column.metric].mark(policy, mean))
        trained = ", ".join(describe_training(runs))
        rows.append([policy, count_cell(runs), *means, worst_status(runs), trained])
    is_one = len({record["seed"] for record in records}) == 1
    others = "" if is_one else "; underlined: chance alone may have made their difference from it"
    note = f"Marked: the best mean of a column{others}. A title leads to its definition."
    return f"{table(titles, rows, 'results')}<p class='note'>{note}</p>"


def _shown_columns(records: Records) -> list[Column]:
    """Return what tables and figures show, each once."""
    if is_sweep(records):
        return curve_columns(records)
    layouts = [layout_of(runs) for runs in scenarios_of(records).values()]
    # What is drawn over time may be in no table.
    return [column for one in layouts for column in (*one.columns, *one.series)]
