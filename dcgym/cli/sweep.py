"""``dcgym sweep``: arguments of an environment, varied over a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcgym.cli.bench import run_and_show
from dcgym.cli.completion import names_with_commas
from dcgym.cli.faults import MemoryLimit, RetryFailed, RunDeadline
from dcgym.cli.options import (
    Address,
    Config,
    Env,
    Json,
    Ship,
    TopologyOption,
    Traffic,
    as_written,
    path,
    split,
    whole,
)
from dcgym.cli.traffic import read_spec
from dcgym.config import check_flag, check_in, check_keys
from dcgym.defaults import DefaultCount
from dcgym.errors import ConfigError
from dcgym.files import (
    CONFIG,
    PLAN,
    SWEEP,
    TOPOLOGY,
    check_nesting,
    load_mapping,
)
from dcgym.writing import as_path
from dcgym.yaml_text import parse_yaml

if TYPE_CHECKING:
    from dcgym.suites import Faults, Suite

__all__ = ["Asked", "read_sweep", "read_values", "sweep"]

# What a file may say, which is what the options say.
OPTIONS = ("policies", "seeds", "jobs", "seconds", "warmup", "train_seconds", "trainings")
DESIGN = ("set", "sample", "sampler", "until")
ARGUMENTS = ("topology", "traffic")
KEYS = (
    "env",
    "config",
    *ARGUMENTS,
    *DESIGN,
    *OPTIONS,
    "checkpoint",
    "require_fidelity",
    "out",
    "address",
    "ship",
    "run_deadline",
    "memory_limit",
)


# Long because every option of the command is a parameter.
def sweep(
    file: Annotated[
        Path | None, typer.Argument(help="YAML file with these options as keys; they win over it.")
    ] = None,
    env: Env = None,
    policies: Annotated[
        str | None,
        typer.Option(
            "--policies",
            "--policy",
            help="Names, separated by commas.",
            autocompletion=names_with_commas("policies"),
        ),
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option("--set", help="An argument and its values: name=value,value; repeatable."),
    ] = None,
    sample: Annotated[
        int | None, whole(help="Points of a sample of ranges: --set 'x={uniform: [1, 5]}'.")
    ] = None,
    sampler: Annotated[str | None, typer.Option(help="How they are chosen: latin, sobol.")] = None,
    topology: TopologyOption = None,
    traffic: Traffic = None,
    config: Config = None,
    seeds: Annotated[int | None, whole(help="Seeds for each policy (3).")] = None,
    until: Annotated[
        str | None,
        typer.Option(help="Add seeds until differences are this sure: 2%, fct_us_p99=2%."),
    ] = None,
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
    trainings: Annotated[int | None, whole(help="Trainings of each learner (1).")] = None,
    jobs: Annotated[int | None, whole(help="Emulators at the same time (2).")] = None,
    require_fidelity: Annotated[
        str | None, typer.Option(help="Refuse runs of worse fidelity: ok, degraded or invalid.")
    ] = None,
    out: Annotated[Path | None, path(help="Folder of the results (runs/sweep).")] = None,
    address: Address = None,
    ship: Ship = False,
    retry_failed: RetryFailed = False,
    run_deadline: RunDeadline = None,
    memory_limit: MemoryLimit = None,
    as_json: Json = False,
) -> None:
    """Run policies and seeds over every combination of some arguments' values.

    Any argument of the environment may vary, and any option in one: interval, topology.rate,
    traffic.load, scenario.load. Each run is an emulation of its own, several at a time. Finished
    runs in the folder are kept and skipped, so that the same command resumes and adds values.
    Failed ones run again with --retry-failed.

    Example: [bold]dcgym sweep --policies cubic,dctcp --traffic web-search-0.5
    --set traffic.load=0.2,0.4,0.6,0.8 --seeds 3 --jobs 2 --out sweep[/bold]
    """
    # Long because every option of the command is a parameter.
    given = {
        "env": env,
        "config": config,
        "topology": read_spec(topology, TOPOLOGY) if topology else None,
        "traffic": read_spec(traffic, PLAN) if traffic else None,
        "policies": None if policies is None else split(policies),
        "set": None if values is None else read_values(values),
        "sample": sample,
        "sampler": sampler,
        "until": until,
        "checkpoint": None if checkpoint is None else _read_checkpoints(checkpoint),
        "seeds": seeds,
        "seconds": seconds,
        "warmup": warmup,
        "train_seconds": train_seconds,
        "trainings": trainings,
        "jobs": jobs,
        "require_fidelity": require_fidelity,
        "out": out,
        "address": address,
        "ship": ship or None,
        "run_deadline": run_deadline,
        "memory_limit": memory_limit,
    }
    if file is None and not any(value is not None for value in given.values()):
        allowed = "a file, or options that say what to vary; see 'dcgym sweep --help'"
        raise ConfigError("sweep", "nothing", allowed)
    asked = read_sweep(file, given)
    faults = replace(asked.faults, retry_failed=retry_failed)
    run_and_show(
        asked.suite, asked.out, asked.require_fidelity, as_json, asked.address, faults, asked.ship
    )


@dataclass(frozen=True)
class Asked:
    """What a file and the options mean.

    Attributes:
        suite: The runs.
        out: Folder of the results.
        require_fidelity: Worst fidelity that a run may have.
        address: Head of the cluster that runs it; None for this machine.
        faults: Limits of a run.
        ship: Whether the cluster's machines are given the dcgym of this one.
    """

    suite: Suite
    out: Path
    require_fidelity: str
    address: str | None
    faults: Faults
    ship: bool


def read_sweep(file: Path | None, given: Mapping[str, object]) -> Asked:
    """Return what a file and the options mean.

    Args:
        file: YAML file of the `KEYS`, or None.
        given: Values by key, which win over the file's; None where there is none.

    Raises:
        ConfigError: An unknown key, or a value that is not allowed.
    """
    from dcgym.backends.records import FIDELITIES
    from dcgym.policies.clusters import check_address
    from dcgym.suites import Faults
    from dcgym.suites.checks import check_suite

    content = {} if file is None else load_mapping(file, "sweep", (SWEEP, CONFIG))
    check_keys(content, KEYS, "sweep")
    for key, value in check_keys(given, KEYS, "sweep").items():
        if value is not None:
            check_nesting(key, value)
            content[key] = value
    try:
        suite = _suite_of(content)
    except ConfigError as error:
        raise as_written(error) from None
    check_suite(suite)
    out = as_path(content.get("out", "runs/sweep"), "out")
    address = content.get("address")
    if address is not None:
        check_address(address, True)
    required = check_in("require_fidelity", content.get("require_fidelity", "invalid"), FIDELITIES)
    faults = Faults(content.get("run_deadline"), content.get("memory_limit"))
    ship = check_flag("ship", content.get("ship", False))
    return Asked(suite, out, required, address, faults, ship)


def _suite_of(content: Mapping[str, Any]) -> Suite:
    from dcgym.envs.factory import env_id_of, find_environment, policy_family
    from dcgym.policies import policy_names
    from dcgym.suites.designs import SAMPLERS
    from dcgym.suites.samples import LEAST_SEEDS
    from dcgym.suites.sweep import lasting, sweep_suite
    from dcgym.suites.until import Until
    from dcgym.tasks.common.presets import read_config

    arguments = read_config(content["config"]) if "config" in content else {}
    arguments |= {name: content[name] for name in ("env", *ARGUMENTS) if name in content}
    chosen = content.get("policies", policy_names(policy_family(env_id_of(arguments)))[:1])
    policies = split(chosen) if isinstance(chosen, str) else chosen
    sample, sampler = content.get("sample"), content.get("sampler")
    if sampler is not None and sample is None:
        raise ConfigError("sampler", sampler, "nothing without --sample")
    axes = _axes(content.get("set", {}))
    suite = sweep_suite(arguments, axes, policies, sample, sampler or SAMPLERS[0])
    suite = lasting(suite, content.get("seconds", suite.episode_s), content.get("warmup"))
    until = None
    if "until" in content:
        until = Until.of(content["until"], find_environment(env_id_of(arguments)).layout)
        # An interval of fewer is too much chance to end with.
        suite = replace(suite, seeds=DefaultCount(LEAST_SEEDS))
    return replace(
        suite,
        seeds=content.get("seeds", suite.seeds),
        jobs=content.get("jobs", suite.jobs),
        until=until,
        training=replace(
            suite.training,
            seconds=content.get("train_seconds", suite.training.seconds),
            trainings=content.get("trainings", suite.training.trainings),
        ),
        checkpoints=load_mapping(content.get("checkpoint", {}), "checkpoint"),
    )


def read_values(settings: Sequence[str]) -> dict[str, list[object]]:
    """Read ``name=value,value`` pairs, whose values are YAML.

    Args:
        settings: The pairs.

    Raises:
        ConfigError: No such pair, no YAML, or a name twice.
    """
    axes: dict[str, list[object]] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        allowed = "name=value,value with values in YAML, each name once"
        values = parse_yaml(f"[{text}]", "--set", setting)
        if not (name and equals and isinstance(values, list) and values) or name in axes:
            raise ConfigError("--set", setting, allowed)
        check_nesting("--set", values)
        axes[name] = values
    return axes


def _axes(content: Path | Mapping[str, object]) -> dict[str, list[object]]:
    """Return the axes of a file, where an argument that does not vary may stand alone."""
    axes = load_mapping(content, "set")
    return {path: values if isinstance(values, list) else [values] for path, values in axes.items()}


def _read_checkpoints(pairs: Sequence[str]) -> dict[str, str]:
    checkpoints = {}
    for pair in pairs:
        policy, equals, folder = pair.partition("=")
        if not (policy and equals and folder):
            raise ConfigError("--checkpoint", pair, "policy=folder, such as ppo=runs/ppo")
        checkpoints[policy] = folder
    return checkpoints
