"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from dcgym.cli.completion import environments, names_of, names_with_commas
from dcgym.errors import ConfigError
from dcgym.files import check_nesting
from dcgym.json_text import json_text
from dcgym.units import read_number
from dcgym.yaml_text import parse_yaml

__all__ = [
    "Address",
    "Backend",
    "Config",
    "Env",
    "GeneratorOption",
    "Jobs",
    "Json",
    "Load",
    "OwnLength",
    "OwnPolicies",
    "OwnSeeds",
    "PoolScenario",
    "RequireFidelity",
    "Results",
    "Seeds",
    "Ship",
    "TopologyOption",
    "Traffic",
    "TrainBackend",
    "TrainSeconds",
    "Trainings",
    "as_written",
    "path",
    "print_json",
    "read_settings",
    "split",
    "whole",
]


def _whole(text: str | int) -> int:
    number = read_number(text)
    if number is None or number != int(number):
        raise typer.BadParameter(f"{text!r} is not a valid integer.")
    return int(number)


def _path(text: str | Path) -> Path:
    if not str(text):
        raise typer.BadParameter("'' is no path.")
    return Path(text)


whole = partial(typer.Option, parser=_whole, metavar="<int>")
"""An option that is a whole number, however it is written: 1000000, 1_000_000, 1e6."""

path = partial(typer.Option, parser=_path, metavar="<path>")
"""An option that is a path; "", which Python takes for the present folder, is none."""

Address = Annotated[
    str | None,
    typer.Option(
        help="Ray cluster that runs it: auto, host:port of its head, or ray://host:port from "
        "outside of it (not for dcgym train)."
    ),
]
Ship = Annotated[
    bool,
    typer.Option("--ship", help="Give the cluster's machines the dcgym of this one, as it is."),
]
Env = Annotated[
    str | None,
    typer.Option(help="A name of 'dcgym list environments'.", autocompletion=environments),
]
TopologyOption = Annotated[
    str | None, typer.Option(help="A name or a file.", autocompletion=names_of("topologies"))
]
Seeds = Annotated[int, whole(help="Seeds for each policy.")]
Backend = Annotated[
    str | None, typer.Option(help="Name of the backend; the configured one if not given.")
]
Load = Annotated[
    float | None,
    typer.Option(
        help="Utilisation of the servers, without a capacity step; the suite's own if not given."
    ),
]
OwnLength = Annotated[
    float | None, typer.Option(help="Length of one run; the suite's own if not given.")
]
OwnSeeds = Annotated[
    int | None,
    whole(help="Seeds for each policy; if not given the suite's own, or as many trainings."),
]
OwnPolicies = Annotated[
    str | None,
    typer.Option(
        help="Names, separated by commas; all of the suite's if not given.",
        autocompletion=names_with_commas("policies"),
    ),
]
Jobs = Annotated[int, whole(help="Runs at the same time.")]
PoolScenario = Annotated[
    str | None,
    typer.Option(
        help="Of server pools: a name, a file, or a mapping in braces.",
        autocompletion=names_of("scenarios"),
    ),
]
RequireFidelity = Annotated[
    str, typer.Option(help="Refuse runs of worse fidelity: ok, degraded or invalid.")
]
Results = Annotated[Path, path(help="Folder of the results.")]
Config = Annotated[
    Path | None,
    path(help="YAML file or preset of the environment.", autocompletion=names_of("presets")),
]
TrainBackend = Annotated[
    str | None,
    typer.Option(help="Backend that learners train on; the suite's own if not given."),
]
TrainSeconds = Annotated[float, typer.Option(help="Time of each training.")]
Trainings = Annotated[
    int, whole(help="Trainings of each learner, at most one a seed; intervals cover them.")
]
Traffic = Annotated[
    str | None,
    typer.Option(
        help="A plan's name, a file, or a mapping in braces.", autocompletion=names_of("plans")
    ),
]
GeneratorOption = Annotated[
    str | None,
    typer.Option(
        help="What sends the flows: a name of 'dcgym list generators'.",
        autocompletion=names_of("generators"),
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


# What a suite calls differently.
_WRITTEN = {"episode_s": "seconds", "warmup_s": "warmup", "train_s": "train_seconds"}


def as_written(error: ConfigError) -> ConfigError:
    """Return an error that names the option as a user of the command line has written it.

    Args:
        error: The error.
    """
    written = _WRITTEN.get(error.field, error.field)
    return ConfigError(written, error.value, error.allowed, error.hint)


def print_json(value: object) -> None:
    """Print a value for programs.

    Args:
        value: Plain data; numbers that are NaN or infinite are null.
    """
    print(json_text(value))


def split(names: str) -> tuple[str, ...]:
    """Return names that are separated by commas.

    Args:
        names: The text.
    """
    return tuple(name.strip() for name in names.split(",") if name.strip())


def read_settings(settings: Sequence[str], option: str = "--set") -> dict[str, object]:
    """Read ``name=value`` pairs, whose values are YAML.

    Args:
        settings: The pairs.
        option: What they were given to.

    Raises:
        ConfigError: No such pair, or no YAML.
    """
    read = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        read[name] = parse_yaml(text, option, setting)
        check_nesting(option, read[name])
        if not name or not equals:
            raise ConfigError(option, setting, "name=value, such as k=8")
    return read
