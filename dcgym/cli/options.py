"""Options that several commands share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = [
    "Config",
    "Env",
    "Jobs",
    "Json",
    "Policies",
    "RequireFidelity",
    "Results",
    "Seeds",
    "Traffic",
    "print_json",
    "split",
]

Env = Annotated[str | None, typer.Option(help="A name of 'dcgym list environments'.")]
Seeds = Annotated[int, typer.Option(help="Seeds for each policy.")]
Policies = Annotated[str, typer.Option(help="Names, separated by commas.")]
Jobs = Annotated[int, typer.Option(help="Runs at the same time.")]
RequireFidelity = Annotated[
    str, typer.Option(help="Refuse runs of worse fidelity: ok, degraded or invalid.")
]
Results = Annotated[Path, typer.Option(help="Folder of the results.")]
Config = Annotated[Path | None, typer.Option(help="YAML file or preset of the environment.")]
Traffic = Annotated[str | None, typer.Option(help="A plan's name, a file, or a mapping in braces.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def print_json(value: Any) -> None:
    """Print a value for programs."""
    print(json.dumps(value, indent=2))


def split(names: str) -> tuple[str, ...]:
    """Return names that are separated by commas."""
    return tuple(name.strip() for name in names.split(",") if name.strip())
