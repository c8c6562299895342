"""``report.html``: one file with plots, readable without a network."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from dcgym.bench.fidelity import describe_reasons, is_as_good_as, worst_status
from dcgym.bench.flow_table import flow_section
from dcgym.bench.layout import Column, Layout, layout_of, scenarios_of
from dcgym.bench.results import run_folder
from dcgym.bench.statistics import interval_95
from dcgym.errors import MissingDependency

__all__ = ["write_report"]

# The palette of Okabe and Ito, which people with any colour vision can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")

BAR_COLUMNS = 4
# Points of a line: more than the pixels that show it only make the file large.
MAX_POINTS = 600
STYLE = (
    "body{font-family:sans-serif;max-width:1200px;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse}td,th{padding:.3em .8em;border-bottom:1px solid #ddd;"
    "text-align:right}td:first-child,th:first-child{text-align:left}.note{color:#666}"
)

Records = Sequence[Mapping[str, Any]]


def write_report(folder: Path, records: Records) -> Path:
    """Write the report of finished runs and return its path.

    Raises:
        MissingDependency: plotly is not installed.
    """
    parts: list[str] = []
    for scenario, runs in scenarios_of(records).items():
        layout = layout_of(runs)
        # The first figure carries the plotting library, so that the file needs no network.
        figures = [
            figure.to_html(full_html=False, include_plotlyjs=not parts and index == 0)
            for index, figure in enumerate(
                [_comparison(runs, layout), _series(folder, runs, layout)]
            )
        ]
        parts.append(_section(scenario, runs, layout, figures))
    path = folder / "report.html"
    partial = folder / ".report.html"
    partial.write_text(_page(records, parts))
    partial.replace(path)
    return path


def _plotly(module: str) -> Any:
    try:
        return import_module(f"plotly.{module}")
    except ImportError as error:
        raise MissingDependency("plotly", "report") from error


def _policies(records: Records) -> list[str]:
    return list(dict.fromkeys(str(record["policy"]) for record in records))


def _colour(records: Records, policy: str) -> str:
    return COLOURS[_policies(records).index(policy) % len(COLOURS)]


def _comparison(records: Records, layout: Layout) -> Any:
    graph = _plotly("graph_objects")
    policies = _policies(records)
    rows = math.ceil(len(layout.columns) / BAR_COLUMNS)
    figure = _plotly("subplots").make_subplots(
        rows=rows, cols=BAR_COLUMNS, subplot_titles=[column.title for column in layout.columns]
    )
    for index, column in enumerate(layout.columns):
        spreads = [_spread(records, policy, column) for policy in policies]
        bar = graph.Bar(
            x=policies,
            y=[mean for mean, _ in spreads],
            error_y={"type": "data", "array": [_bar_half(half) for _, half in spreads]},
            marker_color=[_colour(records, policy) for policy in policies],
        )
        figure.add_trace(bar, row=index // BAR_COLUMNS + 1, col=index % BAR_COLUMNS + 1)
    figure.update_layout(height=330 * rows, showlegend=False, template="plotly_white")
    return figure


def _series(folder: Path, records: Records, layout: Layout) -> Any:
    graph = _plotly("graph_objects")
    figure = _plotly("subplots").make_subplots(
        rows=len(layout.series),
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.06,
        subplot_titles=[column.title for column in layout.series],
    )
    for policy in _policies(records):
        first = next(record for record in records if record["policy"] == policy)
        steps = _steps(folder, first, layout)
        for row, column in enumerate(layout.series, start=1):
            line = graph.Scatter(
                x=steps["time_s"],
                y=[value / column.divisor for value in steps[column.metric]],
                name=policy,
                legendgroup=policy,
                showlegend=row == 1,
                line={"color": _colour(records, policy), "width": 1.5},
            )
            figure.add_trace(line, row=row, col=1)
    figure.update_xaxes(title_text="time, s", row=len(layout.series), col=1)
    figure.update_layout(height=260 * len(layout.series), template="plotly_white")
    return figure


def _steps(folder: Path, record: Mapping[str, Any], layout: Layout) -> dict[str, list[float]]:
    import polars as pl

    run = run_folder(folder, record.get("scenario", ""), record["policy"], record["seed"])
    frame = pl.read_parquet(run / "steps.parquet")
    for name, prefix in layout.means.items():
        parts = [column for column in frame.columns if column.startswith(prefix)]
        frame = frame.with_columns(pl.mean_horizontal(parts).alias(name))
    frame = frame.select("time_s", *(column.metric for column in layout.series))
    size = math.ceil(frame.height / MAX_POINTS)
    if size > 1:
        block = (pl.int_range(frame.height) // size).alias("block")
        frame = frame.group_by(block, maintain_order=True).mean().drop("block")
    return {name: frame[name].to_list() for name in frame.columns}


def _spread(records: Records, policy: str, column: Column) -> tuple[float, float]:
    runs = [record for record in records if record["policy"] == policy]
    values = [float(run["metrics"][column.metric]) / column.divisor for run in runs]
    return interval_95(values)


def _bar_half(half: float) -> float:
    return 0.0 if math.isnan(half) else half


def _section(scenario: str, records: Records, layout: Layout, figures: Sequence[str]) -> str:
    comparison, series = figures
    heading = f"<h2>{html.escape(scenario)}</h2>" if scenario else ""
    return "\n".join(
        (
            heading,
            _table(records, layout),
            flow_section(records),
            "<h3>Comparison</h3>",
            comparison,
            "<h3>One run of each policy</h3>",
            series,
        )
    )


def _page(records: Records, sections: Sequence[str]) -> str:
    first = records[0]
    config, machine = first["config"], first.get("machine", {})
    facts = ", ".join(f"{name} {value}" for name, value in machine.items())
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f"<title>dcgym benchmark</title><style>{STYLE}</style></head><body>",
            f"<h1>{html.escape(str(first['env']))}</h1>",
            f"<p>{len(records)} runs. The metrics leave out the first {config['warmup_s']} s of "
            "each run. Bars: mean over seeds with its 95 % interval (Student's t). Every policy "
            "meets the same traffic for the same seed.</p>",
            _warning(records),
            *sections,
            f"<p class='note'>{html.escape(facts)}</p>",
            "</body></html>",
        )
    )


def _warning(records: Records) -> str:
    poor = [record for record in records if not is_as_good_as(record, "ok")]
    if not poor:
        return ""
    text = f"The machine did not keep up in {len(poor)} of {len(records)} runs: "
    return f"<p><strong>{html.escape(text + describe_reasons(poor))}.</strong></p>"


def _table(records: Records, layout: Layout) -> str:
    titles = [column.title for column in layout.columns]
    header = "".join(
        f"<th>{html.escape(title)}</th>" for title in ["policy", *titles, "fidelity", "training"]
    )
    rows = [_table_row(records, policy, layout) for policy in _policies(records)]
    return f"<table><tr>{header}</tr>{''.join(rows)}</table>"


def _table_row(records: Records, policy: str, layout: Layout) -> str:
    cells = [policy]
    for column in layout.columns:
        mean, half = _spread(records, policy, column)
        width = "" if math.isnan(half) else f" ± {half:.3g}"
        cells.append(f"{mean:.4g}{width}")
    cells.append(worst_status([record for record in records if record["policy"] == policy]))
    training = next(record for record in records if record["policy"] == policy).get("training")
    cells.append(f"{training['steps']} steps, {training['seconds']:.0f} s" if training else "")
    return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
