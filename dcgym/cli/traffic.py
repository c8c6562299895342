"""``dcgym traffic``: what a plan asks of a network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from dcgym.cli.completion import names_of
from dcgym.cli.console import table_console
from dcgym.cli.options import path, print_json, whole
from dcgym.errors import ConfigError
from dcgym.files import PLAN, TOPOLOGY, load_mapping
from dcgym.writing import PICTURES, check_output
from dcgym.yaml_text import parse_yaml

if TYPE_CHECKING:
    from dcgym.topologies import Topology
    from dcgym.traffic import Plan
    from dcgym.traffic.analysis.summary import LoadSummary

__all__ = ["read_spec", "traffic_app"]

traffic_app = typer.Typer(help="Look at traffic plans.", no_args_is_help=True)

# A wider matrix does not fit a terminal; the picture shows it.
_MOST_HOSTS = 16

# Titles of the statistics that a plain number says.
_ROWS = (
    ("flows", "flows"),
    ("sized_flows", "with a size"),
    ("endless_flows", "endless"),
    ("waiting_flows", "waiting for another"),
    ("groups", "groups"),
    ("pairs", "pairs of hosts"),
    ("span_s", "span, s"),
    ("flows_per_s", "flows per second"),
    ("gap_cv", "variation of the gaps (Poisson: 1)"),
)


@traffic_app.callback()
def root() -> None:
    """Look at traffic plans."""


@traffic_app.command()
def show(
    plan: Annotated[
        str,
        typer.Argument(
            help="A name, a file, or a mapping such as '{name: poisson, ...}'.",
            autocompletion=names_of("plans"),
        ),
    ],
    topology: Annotated[
        str, typer.Option(help="A name or a file.", autocompletion=names_of("topologies"))
    ] = "fat-tree",
    seed: Annotated[int, whole(help="Seed of the plan.")] = 0,
    plot: Annotated[Path | None, path(help="Draw it: .svg, .png or .pdf.")] = None,
    save: Annotated[Path | None, path(help="Write it: .parquet, .csv or .json.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the statistics of a plan: flows, bytes, sizes, rates, and the load of the links.

    Example: [bold]dcgym traffic show web-search-0.6 --plot plan.svg[/bold]
    """
    from dcgym.cli.flows import print_apps
    from dcgym.topologies import make_topology
    from dcgym.traffic import make_plan
    from dcgym.traffic.analysis.drawing import draw_plan
    from dcgym.traffic.analysis.summary import summarise_plan
    from dcgym.traffic.plans.applications import AppPlan

    _check_outputs(save, plot)
    network = make_topology(read_spec(topology, TOPOLOGY))
    made = make_plan(read_spec(plan, PLAN), network, seed)
    summary = summarise_plan(made, network)
    apps = {"apps": made.rows()} if isinstance(made, AppPlan) else {}
    if save is not None:
        made.save(save)
    if plot is not None:
        draw_plan(made, network, plot)
    if as_json:
        print_json({**summary, **apps})
    else:
        _print_summary(summary, network)
        _print_pairs(made, summary["load"], network)
        print_apps(apps.get("apps", []))


def _check_outputs(save: Path | None, plot: Path | None) -> None:
    from dcgym.traffic.plans.files import SAVED

    if save is not None:
        check_output(save, "save", SAVED)
    if plot is not None:
        check_output(plot, "plot", PICTURES)


def read_spec(text: str, kind: str) -> str | Mapping[str, object]:
    """Return a mapping if the text is one in YAML's braces, or the path of a .yaml file.

    Args:
        text: What the user wrote.
        kind: What a file should hold, in a word of `dcgym.files`.

    Raises:
        ConfigError: The braces hold no YAML mapping, or the file something else.
    """
    if text.endswith((".yaml", ".yml")):
        found = load_mapping(text, "spec", (kind,))
        return text if "nodes" in found else found
    if not text.lstrip().startswith("{"):
        return text
    content = parse_yaml(text, "spec")
    if not isinstance(content, Mapping):
        raise ConfigError("spec", text, "a YAML mapping in braces")
    return load_mapping(content, "spec")


def _print_summary(summary: Mapping[str, Any], topology: Topology) -> None:
    console = table_console()
    title = f"{summary['name']}, seed {summary['seed']}, on {topology.name}"
    table = Table(title=title, show_header=False)
    for key, heading in _ROWS:
        if summary[key]:
            table.add_row(heading, _number(summary[key]))
    if summary["sizes"] is not None:
        table.add_row("bytes", _size(summary["bytes"]))
        sizes = summary["sizes"]
        shown = ("least", "p1", "p10", "p50", "p90", "p99", "largest")
        table.add_row("sizes", ", ".join(f"{key} {_size(sizes[key])}" for key in shown))
        table.add_row("mean size", _size(sizes["mean"]))
        table.add_row("half of the bytes in flows up to", _size(sizes["half_of_bytes"]))
    for heading, text in _load_rows(summary["load"]):
        table.add_row(heading, text)
    table.add_row("digest", summary["digest"][:16])
    console.print(table)


def _print_pairs(plan: Plan, load: LoadSummary | None, topology: Topology) -> None:
    """Print who sends how much to whom, with the load of the hosts' links at the edges."""
    from dcgym.traffic.analysis.summary import pair_bytes

    names = [host.name for host in topology.hosts]
    if len(names) > _MOST_HOSTS or not len(plan):
        return
    matrix, unit = pair_bytes(plan.to_records(names), len(names))
    divisor, unit = (1e6, "MB") if unit == "bytes" else (1.0, unit)
    table = Table(box=None, padding=(0, 1))
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right")
    if load is not None:
        table.add_column("load", justify="right")
    for name, row in zip(names, matrix, strict=True):
        cells = [f"{value / divisor:.4g}" if value else "." for value in row]
        loads = [] if load is None else [f"{load['hosts'][name]['sending']:.3f}"]
        table.add_row(name, *cells, *loads)
    if load is not None:
        table.add_row("load", *(f"{load['hosts'][name]['receiving']:.2f}" for name in names))
    console = table_console()
    console.print(f"{unit} from (row) to (column):")
    console.print(table)


def _load_rows(load: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    if load is None:
        return [("offered load", "depends on the network")]
    with_headers = load["bottleneck_load_with_headers"]
    rows = [
        (
            f"load of the bottleneck {load['bottleneck']}",
            f"{load['bottleneck_load']:.3f} (with headers {with_headers:.3f})",
        )
    ]
    for end in ("sending", "receiving"):
        mean, most = load[f"{end}_hosts_mean"], load[f"{end}_hosts_max"]
        rows.append((f"load of {end} hosts' links", f"mean {mean:.3f}, highest {most:.3f}"))
    return rows


def _size(size_bytes: float) -> str:
    """Write a size with three digits: 1.71 MB."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.3g} {unit}"
    return f"{size_bytes:.0f} B"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
