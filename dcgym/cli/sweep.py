"""``dcgym sweep``: arguments of an environment, varied over a grid."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from dcgym.cli.bench import run_and_show
from dcgym.cli.options import Config, Env, Json, split
from dcgym.cli.traffic import read_spec
from dcgym.config import check_keys, load_mapping
from dcgym.errors import ConfigError

__all__ = ["read_axes", "read_sweep", "sweep"]

# What a file may say, which is what the options say: the keys, and the settings they become.
SETTINGS = {
    "policies": "policies",
    "seeds": "seeds",
    "jobs": "jobs",
    "seconds": "episode_s",
    "warmup": "warmup_s",
    "train_seconds": "train_s",
    "checkpoint": "checkpoints",
    "require_fidelity": "require_fidelity",
    "out": "out",
}
ARGUMENTS = ("topology", "traffic")
KEYS = ("env", "config", *ARGUMENTS, "set", *SETTINGS)

# YAML reads 1e6 as a text.
_EXPONENT = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")


def sweep(
    file: Annotated[
        Path | None, typer.Argument(help="YAML file with these options as keys; they win over it.")
    ] = None,
    env: Env = None,
    policies: Annotated[
        str | None, typer.Option("--policies", "--policy", help="Names, separated by commas.")
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option("--set", help="An argument and its values: name=value,value; repeatable."),
    ] = None,
    topology: Annotated[str | None, typer.Option(help="A name or a file.")] = None,
    traffic: Annotated[
        str | None, typer.Option(help="A plan's name, a file, or a mapping in braces.")
    ] = None,
    config: Config = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds for each policy (3).")] = None,
    seconds: Annotated[float | None, typer.Option(help="Length of one run (12).")] = None,
    warmup: Annotated[
        float | None, typer.Option(help="Seconds that the metrics leave out (a sixth).")
    ] = None,
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(help="A trained policy, as ppo=folder; others are trained for each value."),
    ] = None,
    train_seconds: Annotated[
        float | None, typer.Option(help="Time of each training (120).")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Emulators at the same time (2).")] = None,
    require_fidelity: Annotated[
        str | None, typer.Option(help="Refuse runs of worse fidelity: ok, degraded or invalid.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the results (runs/sweep).")] = None,
    as_json: Json = False,
) -> None:
    """Run policies and seeds over every combination of some arguments' values.

    Any argument of the environment may vary, and any option in one: interval, topology.rate,
    traffic.load, scenario.load. Each run is an emulation of its own, several at a time. Finished
    runs in the folder are kept and skipped, so that the same command resumes and adds values.

    Example: [bold]dcgym sweep --policies cubic,dctcp --traffic web-search-0.5
    --set traffic.load=0.2,0.4,0.6,0.8 --seeds 3 --jobs 2 --out sweep[/bold]
    """
    given = {
        "env": env,
        "config": config,
        "topology": read_spec(topology) if topology else None,
        "traffic": read_spec(traffic) if traffic else None,
        "policies": None if policies is None else split(policies),
        "set": None if values is None else read_axes(values),
        "checkpoint": None if checkpoint is None else _read_checkpoints(checkpoint),
        "seeds": seeds,
        "seconds": seconds,
        "warmup": warmup,
        "train_seconds": train_seconds,
        "jobs": jobs,
        "require_fidelity": require_fidelity,
        "out": out,
    }
    run_and_show(read_sweep(file, given), as_json)


def read_sweep(file: Path | None, given: Mapping[str, Any]) -> Any:
    """Return the settings that a file and the options mean.

    Args:
        file: YAML file of the `KEYS`, or None.
        given: Values by key, which win over the file's; None where there is none.

    Raises:
        ConfigError: An unknown key, or a value that is not allowed.
    """
    from dcgym.envs.factory import env_id_of, policy_family
    from dcgym.policies import policy_names
    from dcgym.suites import SweepConfig
    from dcgym.tasks.congestion.presets import read_config

    content = {} if file is None else load_mapping(file, "sweep")
    check_keys(content, KEYS, "sweep")
    content |= {key: value for key, value in given.items() if value is not None}
    arguments = read_config(content["config"]) if "config" in content else {}
    arguments |= {name: content[name] for name in ("env", *ARGUMENTS) if name in content}
    settings = {SETTINGS[key]: value for key, value in content.items() if key in SETTINGS}
    settings["out"] = Path(str(settings.get("out", "runs/sweep")))
    chosen = settings.get("policies", policy_names(policy_family(env_id_of(arguments)))[:1])
    if not isinstance(chosen, str | list | tuple):
        raise ConfigError("policies", chosen, "a list of names")
    settings["policies"] = split(chosen) if isinstance(chosen, str) else tuple(chosen)
    axes = _axes(content.get("set", {}))
    try:
        return SweepConfig(env=arguments, axes=axes, **settings)
    except ConfigError as error:
        written = {setting: key for key, setting in SETTINGS.items()}.get(error.field)
        if written is None:
            raise
        raise ConfigError(written, error.value, error.allowed, error.hint) from None


def read_axes(settings: Sequence[str]) -> dict[str, list[Any]]:
    """Read ``name=value,value`` pairs, whose values are YAML.

    Raises:
        ConfigError: No such pair, no YAML, or a name twice.
    """
    axes: dict[str, list[Any]] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        allowed = "name=value,value with values in YAML, each name once"
        try:
            values = yaml.safe_load(f"[{text}]")
        except yaml.YAMLError:
            raise ConfigError("--set", setting, allowed) from None
        if not (name and equals and values) or name in axes:
            raise ConfigError("--set", setting, allowed)
        axes[name] = [_number(value) for value in values]
    return axes


def _axes(content: Any) -> dict[str, list[Any]]:
    """Return the axes of a file, where an argument that does not vary may stand alone."""
    axes = load_mapping(content, "set")
    return {
        path: [_number(value) for value in (values if isinstance(values, list) else [values])]
        for path, values in axes.items()
    }


def _read_checkpoints(pairs: Sequence[str]) -> dict[str, str]:
    checkpoints = {}
    for pair in pairs:
        policy, equals, folder = pair.partition("=")
        if not (policy and equals and folder):
            raise ConfigError("--checkpoint", pair, "policy=folder, such as ppo=runs/ppo")
        checkpoints[policy] = folder
    return checkpoints


def _number(value: Any) -> Any:
    is_number = isinstance(value, str) and _EXPONENT.fullmatch(value)
    return float(value) if is_number else value
