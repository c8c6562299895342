"""The command that trains."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dcgym.cli.completion import algorithms, libraries, names_of, names_with_commas
from dcgym.cli.options import (
    Address,
    Backend,
    Config,
    Env,
    Json,
    PoolScenario,
    path,
    print_json,
    read_settings,
    split,
    whole,
)
from dcgym.cli.traffic import read_spec
from dcgym.files import SCENARIO

__all__ = ["train"]

DEFAULT_SECONDS = 120.0


def train(
    algo: Annotated[
        str | None,
        typer.Option(
            help="An algorithm of 'dcgym list learners', such as ppo.",
            autocompletion=algorithms,
        ),
    ] = None,
    library: Annotated[
        str | None,
        typer.Option(
            help="A library that has it; the algorithm's default if not given.",
            autocompletion=libraries,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="A published training of 'dcgym list trainings', in place of --algo.",
            autocompletion=names_of("trainings"),
        ),
    ] = None,
    env: Env = None,
    config: Config = None,
    scenario: PoolScenario = None,
    backend: Backend = None,
    num_envs: Annotated[
        int | None, whole(help="Environments side by side; what suits it if not given.")
    ] = None,
    steps: Annotated[
        int | None, whole(help="Environment steps, of all environments together.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Training time; 120 without --steps.")
    ] = None,
    seed: Annotated[int, whole(help="Seed of the learner.")] = 0,
    out: Annotated[Path, path(help="Folder of the checkpoint.")] = Path("runs/train"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint that is there.")
    ] = False,
    normalise: Annotated[
        bool, typer.Option("--normalise", help="Scale observations by what random actions see.")
    ] = False,
    frames: Annotated[int, whole(help="Observations that are shown in a row.")] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A hyper-parameter, as name=value; repeatable."),
    ] = None,
    clone_from: Annotated[
        str | None,
        typer.Option(
            help="A classic policy, such as hlb: the network learns its actions first.",
            autocompletion=names_of("policies"),
        ),
    ] = None,
    shaping: Annotated[
        list[str] | None,
        typer.Option(
            help="Pay for progress by a potential: the weight of a measurement, as ongoing=-1; "
            "repeatable."
        ),
    ] = None,
    address: Address = None,
    score: Annotated[
        str | None,
        typer.Option(
            help="Classic policies, separated by commas: scores beside theirs, once a minute.",
            autocompletion=names_with_commas("policies"),
        ),
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write logs into OUT/tensorboard.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a policy and write its checkpoint; Ctrl-C keeps what has been learned.

    Example: [bold]dcgym train --algo ppo --seconds 300 --out runs/ppo[/bold]
    """
    # Long because each option is a line of its own.
    from dcgym.cli import single, tables

    chosen: dict[str, object] = {"backend": backend}
    if scenario is not None:
        chosen["scenario"] = read_spec(scenario, SCENARIO)
    summary = single.train_policy(
        single.TrainingOrder(
            algorithm=algo,
            library=library,
            preset=preset,
            env=env,
            config=config,
            chosen=chosen,
            out=out,
            envs=num_envs,
            steps=steps,
            train_s=DEFAULT_SECONDS if steps is None and seconds is None else seconds,
            seed=seed,
            resume=resume,
            normalise=normalise,
            frames=frames,
            settings=read_settings(settings or []),
            clone_from=clone_from,
            shaping=read_settings(shaping or [], "--shaping"),
            address=address,
            score=split(score) if score else (),
            tensorboard=tensorboard,
        )
    )
    if as_json:
        print_json(summary)
    else:
        tables.print_training(summary)
