"""``report.html``: one file with plots, readable without a network."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from dcgym.bench.flow_table import flow_section
from dcgym.bench.statistics import interval_95
from dcgym.errors import MissingDependency

__all__ = ["write_report"]

# The palette of Okabe and Ito, which people with any colour vision can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")

# Column of the steps, title, divisor.
SERIES = (
    ("goodput_bps", "goodput, Mbit/s", 1e6),
    ("queue_bytes", "longest queue, KB", 1e3),
    ("rate_share", "mean rate share of the hosts", 1.0),
)
# Metric, title, divisor.
BARS = (
    ("reward_mean", "reward", 1.0),
    ("goodput_bps", "goodput, Mbit/s", 1e6),
    ("queue_bytes_mean", "mean queue, KB", 1e3),
    ("queue_bytes_p99", "p99 queue, KB", 1e3),
    ("rtt_us_p50", "RTT p50, ms", 1e3),
    ("rtt_us_p99", "RTT p99, ms", 1e3),
    ("drops", "drops", 1.0),
    ("jain", "Jain's index", 1.0),
)
BAR_COLUMNS = 4
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
    figures = [_comparison(records), _time_series(folder, records)]
    # The first figure carries the plotting library, so that the file needs no network.
    parts = [
        figure.to_html(full_html=False, include_plotlyjs=index == 0)
        for index, figure in enumerate(figures)
    ]
    path = folder / "report.html"
    partial = folder / ".report.html"
    partial.write_text(_page(records, *parts))
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


def _comparison(records: Records) -> Any:
    graph = _plotly("graph_objects")
    policies = _policies(records)
    rows = math.ceil(len(BARS) / BAR_COLUMNS)
    figure = _plotly("subplots").make_subplots(
        rows=rows, cols=BAR_COLUMNS, subplot_titles=[title for _, title, _ in BARS]
    )
    for index, (metric, _, divisor) in enumerate(BARS):
        spreads = [_spread(records, policy, metric) for policy in policies]
        bar = graph.Bar(
            x=policies,
            y=[mean / divisor for mean, _ in spreads],
            error_y={"type": "data", "array": [_bar_half(half) / divisor for _, half in spreads]},
            marker_color=[_colour(records, policy) for policy in policies],
        )
        figure.add_trace(bar, row=index // BAR_COLUMNS + 1, col=index % BAR_COLUMNS + 1)
    figure.update_layout(height=330 * rows, showlegend=False, template="plotly_white")
    return figure


def _time_series(folder: Path, records: Records) -> Any:
    graph = _plotly("graph_objects")
    figure = _plotly("subplots").make_subplots(
        rows=len(SERIES),
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.06,
        subplot_titles=[title for _, title, _ in SERIES],
    )
    for policy in _policies(records):
        first = next(record for record in records if record["policy"] == policy)
        steps = _steps(folder, first)
        for row, (name, _, divisor) in enumerate(SERIES, start=1):
            line = graph.Scatter(
                x=steps["time_s"],
                y=[value / divisor for value in steps[name]],
                name=policy,
                legendgroup=policy,
                showlegend=row == 1,
                line={"color": _colour(records, policy), "width": 1.5},
            )
            figure.add_trace(line, row=row, col=1)
    figure.update_xaxes(title_text="time, s", row=len(SERIES), col=1)
    figure.update_layout(height=260 * len(SERIES), template="plotly_white")
    return figure


def _steps(folder: Path, record: Mapping[str, Any]) -> dict[str, list[float]]:
    import polars as pl

    name = f"{record['policy']}-{record['seed']}"
    frame = pl.read_parquet(folder / "runs" / name / "steps.parquet")
    shares = [column for column in frame.columns if column.startswith("rate_share_")]
    frame = frame.with_columns(pl.mean_horizontal(shares).alias("rate_share"))
    wanted = ("time_s", *(column for column, _, _ in SERIES))
    return {column: frame[column].to_list() for column in wanted}


def _spread(records: Records, policy: str, metric: str) -> tuple[float, float]:
    runs = [record for record in records if record["policy"] == policy]
    return interval_95([float(run["metrics"][metric]) for run in runs])


def _bar_half(half: float) -> float:
    return 0.0 if math.isnan(half) else half


def _page(records: Records, comparison: str, series: str) -> str:
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
            "meets the same traffic plan for the same seed.</p>",
            _table(records),
            flow_section(records),
            "<h2>Comparison</h2>",
            comparison,
            "<h2>One run of each policy</h2>",
            series,
            f"<p class='note'>{html.escape(facts)}</p>",
            "</body></html>",
        )
    )


def _table(records: Records) -> str:
    titles = [title for _, title, _ in BARS]
    header = "".join(f"<th>{html.escape(title)}</th>" for title in ["policy", *titles, "training"])
    rows = [_table_row(records, policy) for policy in _policies(records)]
    return f"<table><tr>{header}</tr>{''.join(rows)}</table>"


def _table_row(records: Records, policy: str) -> str:
    cells = [policy]
    for metric, _, divisor in BARS:
        mean, half = _spread(records, policy, metric)
        width = "" if math.isnan(half) else f" ± {half / divisor:.3g}"
        cells.append(f"{mean / divisor:.4g}{width}")
    training = next(record for record in records if record["policy"] == policy).get("training")
    cells.append(f"{training['steps']} steps, {training['seconds']:.0f} s" if training else "")
    return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
