"""The commands themselves; each imports what it needs when it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dcgym._version import __version__
from dcgym.cli import tables
from dcgym.cli.flows import print_flows
from dcgym.cli.traffic import read_spec, traffic_app

__all__ = ["app"]

app = typer.Typer(
    help="Gymnasium environments for data-centre traffic control.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
bench_app = typer.Typer(help="Compare policies on a fixed task.", no_args_is_help=True)
app.add_typer(bench_app, name="bench")
app.add_typer(traffic_app, name="traffic")

Env = Annotated[str | None, typer.Option(help="A name of 'dcgym list environments'.")]
Seeds = Annotated[int, typer.Option(help="Seeds for each policy.")]
Policies = Annotated[str, typer.Option(help="Names, separated by commas.")]
Jobs = Annotated[int, typer.Option(help="Runs at the same time.")]
Results = Annotated[Path, typer.Option(help="Folder of the results.")]
Config = Annotated[Path | None, typer.Option(help="YAML file or preset of the environment.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


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
def doctor(as_json: Json = False) -> None:
    """Tell what this machine can do, and how to get what is missing.

    Exit code 0 when emulation can run. Example: [bold]dcgym doctor --json[/bold]
    """
    from dcgym import doctor as examination

    checks = examination.examine()
    ready = examination.can_emulate(checks)
    if as_json:
        records = examination.to_records(checks)
        _print_json({"emulation": ready, "checks": records})
    else:
        tables.print_doctor(checks, ready)
    raise typer.Exit(0 if ready else 1)


@app.command("list")
def list_names(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="environments, topologies, plans, sizes, scenarios, policies, rewards, features."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the names that configurations understand.

    Example: [bold]dcgym list policies[/bold]
    """
    from dcgym.cli import names

    found = names.collect(kind)
    if as_json:
        _print_json(found)
    else:
        tables.print_names(found)


@app.command()
def run(
    env: Env = None,
    policy: Annotated[
        str | None,
        typer.Option(help="A name of 'dcgym list policies'; the plainest one if not given."),
    ] = None,
    topology: Annotated[str | None, typer.Option(help="A name or a file.")] = None,
    traffic: Annotated[
        str | None, typer.Option(help="A plan's name, a file, or a mapping in braces.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Length of the episode.")] = 10.0,
    seed: Annotated[int, typer.Option(help="Seed of plan and policy.")] = 0,
    checkpoint: Annotated[Path | None, typer.Option(help="Of a learned policy.")] = None,
    config: Config = None,
    out: Annotated[Path | None, typer.Option(help="Folder for steps.parquet.")] = None,
    as_json: Json = False,
) -> None:
    """Run one episode of a policy and print its metrics.

    Example: [bold]dcgym run --env PathBalancing-v0 --policy wcmp --seconds 10[/bold]
    """
    from dcgym.cli import single

    given = {"topology": topology, "traffic": traffic}
    record = single.run_episode(
        env=env,
        arguments={name: read_spec(text) for name, text in given.items() if text is not None},
        config=config,
        policy=policy,
        seed=seed,
        episode_s=seconds,
        checkpoint=checkpoint,
        out=out,
    )
    if as_json:
        _print_json([record])
    else:
        tables.print_results([record])
        print_flows([record])


@bench_app.command("quick")
def bench_quick(
    out: Results = Path("bench-quick"),
    seeds: Seeds = 3,
    policies: Policies = "cubic,dctcp,fair-share,random,ppo,ddpg",
    seconds: Annotated[float, typer.Option(help="Emulated seconds of one run.")] = 12.0,
    train_seconds: Annotated[float, typer.Option(help="Training time per learner.")] = 120.0,
    jobs: Jobs = 2,
    require_fidelity: Annotated[
        str, typer.Option(help="Refuse runs of worse fidelity: ok, degraded or invalid.")
    ] = "invalid",
    as_json: Json = False,
) -> None:
    """Compare the policies on a dumbbell of 4 hosts with a 10 Mbit/s bottleneck.

    Finished runs in the folder are kept and skipped, so that the same command resumes.

    Example: [bold]dcgym bench quick --seeds 3 --policies cubic,dctcp --out results[/bold]
    """
    from dcgym.bench import QuickConfig, run_suite

    settings = QuickConfig(
        out=out,
        seeds=seeds,
        policies=_split(policies),
        episode_s=seconds,
        train_s=train_seconds,
        jobs=jobs,
        require_fidelity=require_fidelity,
    )
    _show(run_suite(settings), out, as_json)


@bench_app.command("balancing-classic")
def bench_balancing_classic(
    out: Results = Path("bench-balancing"),
    seeds: Seeds = 3,
    policies: Policies = "oracle,gsq,sed,sed2,hlb,lsq,lsq2,wcmp,awcmp,ecmp,random",
    load: Annotated[float, typer.Option(help="Utilisation of the servers.")] = 0.85,
    seconds: Annotated[float, typer.Option(help="Simulated seconds of one run.")] = 2000.0,
    jobs: Jobs = 2,
    as_json: Json = False,
) -> None:
    """Compare balancing rules on 2 balancers, 4 servers of 1 and 4 of 2 processors, in the twin.

    Finished runs in the folder are kept and skipped, so that the same command resumes.

    Example: [bold]dcgym bench balancing-classic --load 0.9 --policies sed,lsq[/bold]
    """
    from dcgym.bench import BalancingConfig, run_suite

    settings = BalancingConfig(
        out=out,
        seeds=seeds,
        policies=_split(policies),
        load=load,
        episode_s=seconds,
        jobs=jobs,
    )
    _show(run_suite(settings), out, as_json)


@bench_app.command("balancing-quick")
def bench_balancing_quick(
    out: Results = Path("bench-balancing-quick"),
    seeds: Seeds = 3,
    policies: Policies = "oracle,gsq,sed,sed2,hlb,lsq,lsq2,wcmp,awcmp,ecmp,random,ppo,ddpg",
    load: Annotated[float, typer.Option(help="Utilisation without a capacity step.")] = 0.85,
    seconds: Annotated[float, typer.Option(help="Simulated seconds of one run.")] = 1000.0,
    train_seconds: Annotated[float, typer.Option(help="Time of each training.")] = 80.0,
    jobs: Jobs = 2,
    as_json: Json = False,
) -> None:
    """Compare rules and learners in the twin: right weights, wrong weights, a capacity step.

    Finished runs in the folder are kept and skipped, so that the same command resumes.

    Example: [bold]dcgym bench balancing-quick --policies oracle,sed,ppo[/bold]
    """
    from dcgym.bench import BalancingQuickConfig, run_suite

    settings = BalancingQuickConfig(
        out=out,
        seeds=seeds,
        policies=_split(policies),
        load=load,
        episode_s=seconds,
        train_s=train_seconds,
        jobs=jobs,
    )
    _show(run_suite(settings), out, as_json)


def _split(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())


def _show(records: list[dict[str, Any]], out: Path, as_json: bool) -> None:
    if as_json:
        _print_json(records)
    else:
        tables.print_results(records)
        print_flows(records)
        tables.print_paths(out)


@app.command()
def train(
    policy: Annotated[str, typer.Argument(help="ppo or ddpg.")],
    env: Env = None,
    out: Annotated[Path, typer.Option(help="Folder of the checkpoint.")] = Path("runs/train"),
    seconds: Annotated[float, typer.Option(help="Training time.")] = 120.0,
    seed: Annotated[int, typer.Option(help="Seed of the learner.")] = 0,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Train a policy and write its checkpoint; Ctrl-C keeps what has been learned.

    Example: [bold]dcgym train ppo --seconds 300 --out runs/ppo[/bold]
    """
    from dcgym.cli import single

    summary = single.train_policy(
        policy, env=env, config=config, out=out, train_s=seconds, seed=seed
    )
    if as_json:
        _print_json(summary)
    else:
        tables.print_training(summary)


@app.command()
def draw(
    topology: Annotated[str, typer.Argument(help="A name or a file.")],
    picture: Annotated[Path, typer.Argument(help="Where to write it: .svg, .png or .pdf.")],
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter, as name=value; repeatable.")
    ] = None,
) -> None:
    """Draw a topology.

    Example: [bold]dcgym draw fat-tree fat-tree.svg --set k=8[/bold]
    """
    from dcgym.cli import single
    from dcgym.topologies import make_topology

    make_topology(topology, **single.read_settings(settings or [])).draw(picture)
    print(picture)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished benchmark.")],
) -> None:
    """Print the table of a benchmark again and write its report.html anew.

    Example: [bold]dcgym report bench-quick[/bold]
    """
    from dcgym.bench import load_records, write_report

    records = load_records(folder)
    write_report(folder, records)
    tables.print_results(records)
    print_flows(records)
    tables.print_paths(folder)


@app.command()
def top(
    run: Annotated[str | None, typer.Argument(help="A run, where several are alive.")] = None,
    period: Annotated[float, typer.Option(help="Seconds between two looks.")] = 0.5,
    once: Annotated[bool, typer.Option("--once", help="Print one picture and end.")] = False,
    as_json: Json = False,
) -> None:
    """Watch a running emulation: ports by queue and load, hosts, timing of the control loop.

    It only reads shared memory, so that the run does not notice. Ctrl-C ends it.

    Example: [bold]dcgym top --once[/bold]
    """
    from dcgym.cli import top as view

    if as_json:
        _print_json(next(view.samples(run, period)))
    elif once:
        view.print_once(run, period)
    else:
        view.show(run, period)


@app.command()
def clean(as_json: Json = False) -> None:
    """Remove what runs that died have left behind; living runs are not touched.

    Example: [bold]dcgym clean[/bold]
    """
    from dcgym.emulation.registry import clean_dead_runs

    removed = [run.id for run in clean_dead_runs()]
    if as_json:
        _print_json(removed)
    else:
        print(f"removed: {', '.join(removed)}" if removed else "nothing to remove")


@app.command()
def shell(
    run_id: Annotated[
        str | None, typer.Argument(help="The emulator's id; the only one if left out.")
    ] = None,
    command: Annotated[
        str | None, typer.Option("--command", "-c", help="Run one command and end.")
    ] = None,
) -> None:
    """Open Mininet's command line in a running emulator, beside the run that uses it.

    Example: [bold]dcgym shell --command "h1 ping -c1 h2"[/bold]
    """
    from dcgym.emulation.shell import open_shell

    raise typer.Exit(open_shell(run_id, command))
