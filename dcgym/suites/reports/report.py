"""``report.html``: one file with plots, readable without a network."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from pathlib import Path

from dcgym.backends.base import Record
from dcgym.suites.fidelity import describe_reasons, is_as_good_as, run_names, worst_status
from dcgym.suites.reports.curves import curve_sections, is_sweep
from dcgym.suites.reports.flow_sizes import flow_section
from dcgym.suites.reports.html import heading, table
from dcgym.suites.reports.layout import Layout, layout_of, policies_of, runs_of, scenarios_of
from dcgym.suites.reports.plots import Figure, bar_half, cell, colour, embed, plotly, spread
from dcgym.suites.reports.published import published_section
from dcgym.suites.results import Records, run_folder

__all__ = ["write_report"]

BAR_COLUMNS = 4
# Points of a line: more than the pixels that show it only make the file large.
MAX_POINTS = 600
STYLE = (
    "body{font-family:sans-serif;max-width:1200px;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse}td,th{padding:.3em .8em;border-bottom:1px solid #ddd;"
    "text-align:right}td:first-child,th:first-child{text-align:left}.note{color:#666}"
)


def write_report(folder: Path, records: Records, refused: Records = ()) -> Path:
    """Write the report of finished runs and return its path.

    Args:
        folder: Folder of the benchmark.
        records: Records of the runs.
        refused: Those of runs that were left out for their fidelity.

    Raises:
        MissingDependency: plotly is not installed.
    """
    sections = curve_sections(records) if is_sweep(records) else _sections(folder, records)
    sections.append(published_section(folder, records))
    path = folder / "report.html"
    partial = folder / ".report.html"
    partial.write_text(_page(records, refused, sections))
    partial.replace(path)
    return path


def _sections(folder: Path, records: Records) -> list[str]:
    """Return the section of each scenario."""
    parts: list[str] = []
    for scenario, runs in scenarios_of(records).items():
        layout = layout_of(runs)
        drawn = (_comparison(runs, layout), _series(folder, runs, layout))
        figures = [embed(figure, not parts and index == 0) for index, figure in enumerate(drawn)]
        parts.append(_section(scenario, runs, layout, figures))
    return parts


def _comparison(records: Records, layout: Layout) -> Figure:
    graph = plotly("graph_objects")
    policies = policies_of(records)
    rows = math.ceil(len(layout.columns) / BAR_COLUMNS)
    figure: Figure = plotly("subplots").make_subplots(
        rows=rows, cols=BAR_COLUMNS, subplot_titles=[column.title for column in layout.columns]
    )
    for index, column in enumerate(layout.columns):
        spreads = [spread(records, policy, column) for policy in policies]
        bar = graph.Bar(
            x=policies,
            y=[mean for mean, _ in spreads],
            error_y={"type": "data", "array": [bar_half(half) for _, half in spreads]},
            marker_color=[colour(records, policy) for policy in policies],
        )
        figure.add_trace(bar, row=index // BAR_COLUMNS + 1, col=index % BAR_COLUMNS + 1)
    figure.update_layout(height=330 * rows, showlegend=False, template="plotly_white")
    return figure


def _series(folder: Path, records: Records, layout: Layout) -> Figure:
    graph = plotly("graph_objects")
    firsts = {policy: runs_of(records, policy)[0] for policy in policies_of(records)}
    steps = {policy: _steps(folder, first, layout) for policy, first in firsts.items()}
    # Pools name their groups as they like: what no run has recorded is not drawn.
    series = [one for one in layout.series if all(one.metric in run for run in steps.values())]
    figure: Figure = plotly("subplots").make_subplots(
        rows=len(series),
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.06,
        subplot_titles=[column.title for column in series],
    )
    for policy, run in steps.items():
        for row, column in enumerate(series, start=1):
            line = graph.Scatter(
                x=run["time_s"],
                y=[value / column.divisor for value in run[column.metric]],
                name=policy,
                legendgroup=policy,
                showlegend=row == 1,
                line={"color": colour(records, policy), "width": 1.5},
            )
            figure.add_trace(line, row=row, col=1)
    figure.update_xaxes(title_text="time, s", row=len(series), col=1)
    figure.update_layout(height=260 * len(series), template="plotly_white")
    return figure


def _steps(folder: Path, record: Record, layout: Layout) -> dict[str, list[float]]:
    import polars as pl

    run = run_folder(folder, record.get("scenario", ""), record["policy"], record["seed"])
    frame = pl.read_parquet(run / "steps.parquet")
    for name, prefix in layout.means.items():
        parts = [column for column in frame.columns if column.startswith(prefix)]
        if parts:
            frame = frame.with_columns(pl.mean_horizontal(parts).alias(name))
    wanted = [column.metric for column in layout.series if column.metric in frame.columns]
    frame = frame.select("time_s", *wanted)
    size = math.ceil(frame.height / MAX_POINTS)
    if size > 1:
        block = (pl.int_range(frame.height) // size).alias("block")
        frame = frame.group_by(block, maintain_order=True).mean().drop("block")
    return {name: frame[name].to_list() for name in frame.columns}


def _section(scenario: str, records: Records, layout: Layout, figures: Sequence[str]) -> str:
    comparison, series = figures
    return "\n".join(
        (
            heading(scenario),
            _table(records, layout),
            flow_section(records),
            "<h3>Comparison</h3>",
            comparison,
            "<h3>One run of each policy</h3>",
            series,
        )
    )


def _page(records: Records, refused: Records, sections: Sequence[str]) -> str:
    first = records[0]
    config, machine = first["config"], first.get("machine", {})
    facts = ", ".join(f"{name} {value}" for name, value in machine.items())
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f"<title>dcgym benchmark</title><style>{STYLE}</style></head><body>",
            f"<h1>{html.escape(str(first['env']))}</h1>",
            f"<p>{len(records)} runs. The metrics leave out the first {config['warmup_s']} s of "
            "each run. Mean over seeds with its 95 % interval (Student's t). Every policy "
            "meets the same traffic for the same seed.</p>",
            _warning(records, refused),
            *sections,
            f"<p class='note'>{html.escape(facts)}</p>",
            "</body></html>",
        )
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
    titles = ["policy", *(column.title for column in layout.columns), "fidelity", "training"]
    return table(titles, [_cells(records, policy, layout) for policy in policies_of(records)])


def _cells(records: Records, policy: str, layout: Layout) -> list[str]:
    runs = runs_of(records, policy)
    means = [cell(*spread(records, policy, column)) for column in layout.columns]
    training = runs[0].get("training")
    trained = f"{training['steps']} steps, {training['seconds']:.0f} s" if training else ""
    return [policy, *means, worst_status(runs), trained]
