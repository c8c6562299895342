"""One episode or one training, from the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console

from dcgym.backends.base import Record
from dcgym.config import check_positive
from dcgym.envs.factory import default_of, env_id_of, policy_family
from dcgym.policies import policy_names
from dcgym.suites import RunSpec, rollout, training
from dcgym.suites.checks import capabilities_of, interval_s
from dcgym.suites.congestion import QUICK_ENV
from dcgym.suites.progress import progress_bars
from dcgym.suites.results import prepare_folder, run_name
from dcgym.suites.spec import TrainingSpec
from dcgym.tasks.common.presets import read_config

__all__ = ["run_episode", "train_policy"]


def run_episode(
    env: str | None,
    arguments: Mapping[str, object],
    config: Path | None,
    chosen: Mapping[str, str | None],
    policy: str | None,
    seed: int,
    episode_s: float,
    checkpoint: Path | None,
    out: Path | None,
) -> Record:
    """Run one episode with a progress bar and return its record.

    Args:
        env: Name of the environment; None for the configuration's, or the first one.
        arguments: Arguments of the environment where there is no configuration.
        config: File or preset.
        chosen: Arguments that win over the configuration's, by name; None leaves one to it.
        policy: Name of the policy; None for the plainest one of the environment.
        seed: Seed of plan and policy.
        episode_s: Length of the episode.
        checkpoint: Folder of a learned policy.
        out: Folder of the results.

    Raises:
        ConfigError: An argument is not allowed.
    """
    check_positive("seconds", episode_s)
    configured = _timed(_configure(env, config, arguments, chosen))
    steps = max(1, round(episode_s / interval_s(configured)))
    if out is not None:
        prepare_folder(out)
    spec = RunSpec(
        env=configured,
        policy=policy or policy_names(policy_family(env_id_of(configured)))[0],
        seed=seed,
        steps=steps,
        checkpoint=None if checkpoint is None else str(checkpoint),
        folder=None if out is None else str(out),
    )
    name = run_name(spec.scenario, spec.policy, spec.seed)
    if capabilities_of(configured).real_time:
        watch = f"run {name}: 'dcgym top {name}' watches it, 'dcgym shell {name}' enters it"
        Console(stderr=True, soft_wrap=True).print(watch, highlight=False)
    return _with_bar(name, lambda follow: rollout.run_episode(spec, follow))


def train_policy(
    policy: str,
    env: str | None,
    config: Path | None,
    chosen: Mapping[str, str | None],
    out: Path,
    train_s: float,
    seed: int,
) -> Record:
    """Train one policy with a progress bar and return its summary.

    Args:
        policy: Name of the learner.
        env: Name of the environment; None for the configuration's, or the first one.
        config: File or preset.
        chosen: Arguments that win over the configuration's, by name; None leaves one to it.
        out: Folder of the checkpoint.
        train_s: Wall-clock seconds.
        seed: Seed of the learner.

    Raises:
        ConfigError: An argument is not allowed.
    """
    check_positive("seconds", train_s)
    prepare_folder(out)
    spec = TrainingSpec(
        env=_configure(env, config, {} if env else QUICK_ENV, chosen),
        policy=policy,
        seed=seed,
        train_s=train_s,
        folder=str(out),
    )
    return _with_bar(f"train {policy}", lambda follow: training.train_policy(spec, follow))


def _configure(
    env: str | None,
    config: Path | None,
    arguments: Mapping[str, object],
    chosen: Mapping[str, str | None],
) -> dict[str, object]:
    """Return the configuration, or where there is none the arguments, of an environment."""
    configured = read_config(config) if config else dict(arguments)
    given = {"env": env, **chosen}
    return configured | {name: value for name, value in given.items() if value is not None}


def _timed(arguments: Mapping[str, object]) -> dict[str, object]:
    """Return arguments that name their interval."""
    default = default_of(env_id_of(arguments), "interval")
    return {**arguments, "interval": arguments.get("interval", default)}


def _with_bar(title: str, work: Callable[[rollout.Progress], Record]) -> Record:
    """Do some work under a progress bar; standard output belongs to its result and to --json."""
    with progress_bars() as progress:
        task = progress.add_task(title, total=1.0, note="")
        result = work(lambda done, note: progress.update(task, completed=done, note=note))
        progress.update(task, completed=1.0, note="")
        return result
