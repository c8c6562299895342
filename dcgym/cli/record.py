"""The command that records data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dcgym.cli.completion import names_of
from dcgym.cli.options import Backend, Config, Env, Json, PoolScenario, path, print_json, whole
from dcgym.cli.traffic import read_spec
from dcgym.files import SCENARIO

__all__ = ["record"]


# Long because every option of the command is a parameter.
def record(
    policy: Annotated[
        str,
        typer.Option(help="A name of 'dcgym list policies'.", autocompletion=names_of("policies")),
    ],
    env: Env = None,
    config: Config = None,
    scenario: PoolScenario = None,
    backend: Backend = None,
    episodes: Annotated[int, whole(help="Number of episodes.")] = 10,
    seconds: Annotated[
        float | None, typer.Option(help="Length of an episode; the environment's if not given.")
    ] = None,
    seed: Annotated[int, whole(help="Seed of the first episode; they count up.")] = 0,
    envs: Annotated[int | None, whole(help="Copies side by side (16; 1 in the emulation).")] = None,
    checkpoint: Annotated[Path | None, path(help="Of a learned policy.")] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the data set; dcgym/ENV/POLICY-v0 if not given."),
    ] = None,
    out: Annotated[Path, path(help="Folder of data sets.")] = Path("runs/datasets"),
    record_infos: Annotated[
        bool, typer.Option("--record-infos", help="Keep the infos of every step too.")
    ] = False,
    info: Annotated[
        str, typer.Option(help="Form of the infos: full, or flat such as metrics/queue.")
    ] = "full",
    file_format: Annotated[
        str, typer.Option("--format", help="Format of the data set: minari.")
    ] = "minari",
    as_json: Json = False,
) -> None:
    """Record episodes of a policy as a Minari data set, for offline learning.

    Example: [bold]dcgym record --env LoadBalancing-v1 --policy sed --episodes 100[/bold]
    """
    from dcgym.cli import single
    from dcgym.suites.recordings import RecordingSpec

    chosen: dict[str, object] = {"backend": backend}
    if scenario is not None:
        chosen["scenario"] = read_spec(scenario, SCENARIO)
    spec = RecordingSpec(
        env=single.environment_of(env, config, chosen, seconds),
        policy=policy,
        out=out,
        episodes=episodes,
        seed=seed,
        **({} if envs is None else {"envs": envs}),
        checkpoint=None if checkpoint is None else str(checkpoint),
        name=name,
        record_infos=record_infos,
        info=info,
        format=file_format,
    )
    summary = single.record_dataset(spec)
    if as_json:
        print_json(summary)
        return
    told = f"{summary['episodes']} episodes, {summary['steps']} steps"
    typer.echo(f"{told}, mean return {summary['return_mean']:.3f}: {summary['folder']}")
    typer.echo(f"MINARI_DATASETS_PATH={out} lets Minari find it as {summary['name']}")
