"""The commands themselves; each imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dcgym._version import __version__
from dcgym.cli.bench import bench_app
from dcgym.cli.completion import kinds_of_names, names_of, runs
from dcgym.cli.options import (
    Backend,
    Config,
    Env,
    GeneratorOption,
    Json,
    TopologyOption,
    Traffic,
    path,
    print_json,
    read_settings,
    whole,
)
from dcgym.cli.record import record
from dcgym.cli.report import report
from dcgym.cli.sweep import sweep
from dcgym.cli.traffic import read_spec, traffic_app
from dcgym.cli.train import train
from dcgym.cli.twin_error import twin_error_app
from dcgym.files import PLAN, TOPOLOGY
from dcgym.json_text import json_text

__all__ = ["app"]

app = typer.Typer(
    help="Gymnasium environments for data-centre traffic control.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.add_typer(bench_app, name="bench")
app.add_typer(traffic_app, name="traffic")
app.add_typer(twin_error_app, name="twin-error")
app.command()(sweep)
app.command()(report)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Gymnasium environments for data-centre traffic control."""


@app.command()
def doctor(
    as_json: Json = False,
    resources: Annotated[
        bool,
        typer.Option("--resources", help="Print what this machine offers a Ray cluster instead."),
    ] = False,
) -> None:
    """Tell what this machine can do, and how to get what is missing.

    Exit code 0 when emulation can run. Example: [bold]dcgym doctor --json[/bold]
    """
    from dcgym.cli import doctor as examination
    from dcgym.cli import tables
    from dcgym.policies.clusters import EMULATION

    checks = examination.examine()
    ready = examination.can_emulate(checks)
    if resources:
        print(json_text({EMULATION: 1} if ready else {}, indent=None))
        raise typer.Exit(0)
    if as_json:
        records = examination.to_records(checks)
        print_json({"emulation": ready, "checks": records})
    else:
        tables.print_doctor(checks, ready)
    raise typer.Exit(0 if ready else 1)


@app.command("list")
def list_names(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="environments, suites, policies, topologies, plans, scenarios, rewards, ...",
            autocompletion=kinds_of_names,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the names that configurations understand.

    Example: [bold]dcgym list policies[/bold]
    """
    from dcgym.cli import names, tables

    found = names.collect(kind)
    if as_json:
        print_json({of_kind: list(described) for of_kind, described in found.items()})
    else:
        tables.print_names(found)


@app.command()
def run(
    env: Env = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="A name of 'dcgym list policies'; the plainest one if not given.",
            autocompletion=names_of("policies"),
        ),
    ] = None,
    topology: TopologyOption = None,
    traffic: Traffic = None,
    generator: GeneratorOption = None,
    backend: Backend = None,
    seconds: Annotated[float, typer.Option(help="Length of the episode.")] = 10.0,
    seed: Annotated[int, whole(help="Seed of plan and policy.")] = 0,
    checkpoint: Annotated[Path | None, path(help="Of a learned policy.")] = None,
    config: Config = None,
    out: Annotated[Path | None, path(help="Folder for steps.parquet.")] = None,
    as_json: Json = False,
) -> None:
    """Run one episode of a policy and print its metrics.

    Example: [bold]dcgym run --env PathBalancing-v2 --policy wcmp --seconds 10[/bold]
    """
    from dcgym.cli import flows, single, tables

    given = (("topology", topology, TOPOLOGY), ("traffic", traffic, PLAN))
    record = single.run_episode(
        env=env,
        arguments={name: read_spec(text, kind) for name, text, kind in given if text is not None},
        config=config,
        chosen={"generator": generator, "backend": backend},
        policy=policy,
        seed=seed,
        episode_s=seconds,
        checkpoint=checkpoint,
        out=out,
    )
    if as_json:
        print_json([record])
    else:
        tables.print_run(record, out)
        tables.print_results([record])
        flows.print_flows([record])
        flows.print_apps(record.get("apps", []))


app.command()(train)
app.command()(record)


@app.command()
def draw(
    topology: Annotated[
        str, typer.Argument(help="A name or a file.", autocompletion=names_of("topologies"))
    ],
    picture: Annotated[
        Path | None,
        typer.Argument(help="Where to write it: .svg, .png or .pdf; NAME.svg if left out."),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter, as name=value; repeatable.")
    ] = None,
) -> None:
    """Draw a topology.

    Example: [bold]dcgym draw fat-tree fat-tree.svg --set k=8[/bold]
    """
    from dcgym.topologies import make_topology

    made = make_topology(topology, **read_settings(settings or []))
    picture = Path(f"{made.name}.svg") if picture is None else picture
    made.draw(picture)
    print(picture)


@app.command()
def top(
    run: Annotated[
        str | None,
        typer.Argument(
            help="Name or identifier of a run; the only one if left out.", autocompletion=runs
        ),
    ] = None,
    period: Annotated[float, typer.Option(help="Seconds between two looks.")] = 0.5,
    once: Annotated[bool, typer.Option("--once", help="Print one picture and end.")] = False,
    as_json: Json = False,
) -> None:
    """Watch a running emulation: ports by queue and load, hosts, timing of the control loop.

    It only reads shared memory, so that the run does not notice. The key q ends it.

    Example: [bold]dcgym top --once[/bold]
    """
    from dcgym.cli import top as view

    if as_json:
        print_json(next(view.samples(run, period)))
    elif once:
        view.print_once(run, period)
    else:
        view.show(run, period)


@app.command()
def clean(as_json: Json = False) -> None:
    """Remove what runs that died have left behind; living runs are not touched.

    Example: [bold]dcgym clean[/bold]
    """
    from dcgym.backends.emulation.session.runs import clean_dead_runs
    from dcgym.places import remove_places

    removed = [run.id for run in clean_dead_runs()] + [str(place) for place in remove_places()]
    if as_json:
        print_json(removed)
    else:
        print(f"removed: {', '.join(removed)}" if removed else "nothing to remove")


@app.command()
def shell(
    run: Annotated[
        str | None,
        typer.Argument(
            help="Name or identifier of a run; the only one if left out.", autocompletion=runs
        ),
    ] = None,
    command: Annotated[
        str | None, typer.Option("--command", "-c", help="Run one command and end.")
    ] = None,
) -> None:
    """Open Mininet's command line in a running emulator, beside the run that uses it.

    Example: [bold]dcgym shell --command "h1 ping -c1 h2"[/bold]
    """
    from dcgym.backends.emulation.shell import open_shell

    raise typer.Exit(open_shell(run, command))
