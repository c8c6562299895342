"""One episode or one training, from the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from dcgym.config import check_positive
from dcgym.errors import ConfigError
from dcgym.suites.congestion import QUICK_ENV
from dcgym.suites.results import prepare_folder
from dcgym.tasks.congestion.presets import read_config

__all__ = ["read_settings", "run_episode", "train_policy"]


def read_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Read ``name=value`` pairs, whose values are YAML.

    Args:
        settings: The pairs.

    Raises:
        ConfigError: No such pair, or no YAML.
    """
    read = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        try:
            read[name] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ConfigError("--set", setting, "name=value with a value in YAML") from None
        if not name or not equals:
            raise ConfigError("--set", setting, "name=value, such as k=8")
    return read


def run_episode(
    env: str | None,
    arguments: Mapping[str, Any],
    config: Path | None,
    policy: str | None,
    seed: int,
    episode_s: float,
    checkpoint: Path | None,
    out: Path | None,
) -> dict[str, Any]:
    """Run one episode with a progress bar and return its record.

    Args:
        env: Name of the environment; None for the configuration's, or the first one.
        arguments: Arguments of the environment where there is no configuration.
        config: File or preset.
        policy: Name of the policy; None for the plainest one of the environment.
        seed: Seed of plan and policy.
        episode_s: Length of the episode.
        checkpoint: Folder of a learned policy.
        out: Folder of the results.

    Raises:
        ConfigError: An argument is not allowed.
    """
    from dcgym.envs.factory import default_of, env_id_of, policy_family
    from dcgym.policies import policy_names
    from dcgym.suites import RunSpec, rollout
    from dcgym.suites.checks import interval_s

    check_positive("seconds", episode_s)
    arguments = _configure(env, config, arguments)
    env_id = env_id_of(arguments)
    arguments.setdefault("interval", default_of(env_id, "interval"))
    family = policy_family(env_id)
    if policy is None:
        policy = policy_names(family)[0]
    steps = max(1, round(episode_s / interval_s(arguments)))
    if out is not None:
        prepare_folder(out)
    spec = RunSpec(
        env=arguments,
        policy=policy,
        seed=seed,
        steps=steps,
        checkpoint=None if checkpoint is None else str(checkpoint),
        folder=None if out is None else str(out),
    )
    with _progress() as progress:
        task = progress.add_task(policy, total=1.0, note="")
        return rollout.run_episode(
            spec, lambda done, note: progress.update(task, completed=done, note=note)
        )


def train_policy(
    policy: str, env: str | None, config: Path | None, out: Path, train_s: float, seed: int
) -> dict[str, Any]:
    """Train one policy with a progress bar and return its summary.

    Args:
        policy: Name of the learner.
        env: Name of the environment; None for the configuration's, or the first one.
        config: File or preset.
        out: Folder of the checkpoint.
        train_s: Wall-clock seconds.
        seed: Seed of the learner.

    Raises:
        ConfigError: An argument is not allowed.
    """
    from dcgym.suites import training
    from dcgym.suites.spec import TrainingSpec

    check_positive("seconds", train_s)
    prepare_folder(out)
    spec = TrainingSpec(
        env=_configure(env, config, {} if env else QUICK_ENV),
        policy=policy,
        seed=seed,
        train_s=train_s,
        folder=str(out),
    )
    with _progress() as progress:
        task = progress.add_task(f"train {policy}", total=1.0, note="")
        return training.train_policy(
            spec, lambda done, note: progress.update(task, completed=done, note=note)
        )


def _configure(
    env: str | None, config: Path | None, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the configuration, or where there is none the arguments, of an environment."""
    configured = read_config(config) if config else dict(arguments)
    return configured if env is None else {**configured, "env": env}


def _progress() -> Progress:
    # Standard output belongs to the result and to --json.
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
    )
