"""One episode or one training, from the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from dcgym.backends.records import Record
from dcgym.config import check_seconds
from dcgym.envs.factory import default_of, env_id_of, policy_family
from dcgym.errors import ConfigError
from dcgym.policies import LEARNERS, RECIPES, policy_names
from dcgym.policies.checkpoint import read_note
from dcgym.policies.learners import learner_name
from dcgym.suites import RunSpec, recordings, rollout, training
from dcgym.suites.checks import capabilities_of, steps_in
from dcgym.suites.congestion import QUICK_ENV
from dcgym.suites.progress import progress_bars
from dcgym.suites.results import TRAINING_FILE, run_name
from dcgym.suites.spec import TrainingSpec
from dcgym.suites.watch import LOGS_FOLDER, watching
from dcgym.tasks.common.presets import read_config
from dcgym.writing import new_folder

__all__ = ["TrainingOrder", "environment_of", "record_dataset", "run_episode", "train_policy"]


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
    episode_s = check_seconds("seconds", episode_s)
    configured = _timed(_configure(env, config, arguments, chosen))
    steps = steps_in(episode_s, configured)
    spec = RunSpec(
        env=configured,
        policy=policy or policy_names(policy_family(env_id_of(configured)))[0],
        seed=seed,
        steps=steps,
        checkpoint=None if checkpoint is None else str(checkpoint),
        folder=None if out is None else str(out),
    )
    name = run_name(spec.scenario, spec.policy, spec.seed)
    hint = ""
    if capabilities_of(configured).real_time:
        hint = f"run {name}: 'dcgym top {name}' watches it, 'dcgym shell {name}' enters it"
    return _with_bar(name, lambda follow: rollout.run_episode(spec, follow), hint)


@dataclass(frozen=True, kw_only=True)
class TrainingOrder:
    """What the command line asks for.

    Attributes:
        algorithm: Name of the algorithm; None for the checkpoint's.
        library: Name of its library; None for its default, or the checkpoint's.
        preset: Name of a published training; None for an algorithm.
        env: Name of the environment; None for the configuration's, or the first one.
        config: File or preset.
        chosen: Arguments that win over the configuration's, by name; None leaves one to it.
        out: Folder of the checkpoint.
        envs: Environments side by side; None for what suits the algorithm.
        steps: Environment steps; None for any number.
        train_s: Wall-clock seconds; None for any number.
        seed: Seed of the learner.
        resume: Whether to go on from the checkpoint in the folder.
        normalise: Whether observations are scaled.
        frames: Observations that are shown in a row.
        settings: Hyper-parameters by the names of the library.
        clone_from: Classic policy whose actions the network learns first; None for none.
        shaping: Weight of each measurement in the potential of a state, by its label.
        address: Head of a cluster on whose machines the environments run; None for this machine.
        score: Classic policies that the training is scored beside.
        tensorboard: Whether there are logs for TensorBoard.
    """

    algorithm: str | None
    library: str | None
    preset: str | None
    env: str | None
    config: Path | None
    chosen: Mapping[str, object]
    out: Path
    envs: int | None
    steps: int | None
    train_s: float | None
    seed: int
    resume: bool
    normalise: bool
    frames: int
    settings: Mapping[str, object]
    clone_from: str | None = None
    shaping: Mapping[str, object] = field(default_factory=dict)
    address: str | None = None
    score: tuple[str, ...] = ()
    tensorboard: bool = False


def train_policy(order: TrainingOrder) -> Record:
    """Train one policy with a progress bar and return its summary.

    Args:
        order: What is asked for.

    Raises:
        ConfigError: An argument is not allowed.
    """
    if order.train_s is not None:
        check_seconds("seconds", order.train_s)
    if order.preset is not None:
        order = _published(order, order.preset)
    name, env = _resumed(order) if order.resume else _ordered(order)
    spec = TrainingSpec(
        env=env,
        policy=name,
        seed=order.seed,
        train_s=order.train_s,
        steps=order.steps,
        envs=order.envs,
        folder=str(order.out),
        frames=order.frames,
        normalise=order.normalise,
        settings=dict(order.settings),
        resume=order.resume,
        clone_from=order.clone_from,
        shaping=dict(order.shaping),
        address=order.address,
    )
    with (
        new_folder(order.out, "out", (TRAINING_FILE, f"{LOGS_FOLDER}/")),
        watching(env, name, order.out, order.score, order.tensorboard) as watch,
    ):
        return _with_bar(f"train {name}", lambda follow: training.train_policy(spec, follow, watch))


def environment_of(
    env: str | None, config: Path | None, chosen: Mapping[str, object], episode_s: float | None
) -> dict[str, object]:
    """Return the arguments of the environment whose episodes are recorded.

    Args:
        env: Name of the environment; None for the configuration's, or the first one.
        config: File or preset.
        chosen: Arguments that win over the configuration's, by name; None leaves one to it.
        episode_s: Length of an episode; None for the environment's own.

    Raises:
        ConfigError: An argument is not allowed.
    """
    configured = _configure(env, config, {}, chosen)
    if episode_s is not None:
        episode_s = check_seconds("seconds", episode_s)
        configured["max_steps"] = steps_in(episode_s, _timed(configured))
    return configured


def record_dataset(spec: recordings.RecordingSpec) -> Record:
    """Record a data set with a progress bar and return what it holds.

    Args:
        spec: What is recorded.

    Raises:
        ConfigError: Something in the specification is not allowed.
    """
    title = f"record {spec.policy}"
    return _with_bar(title, lambda follow: recordings.record_dataset(spec, follow))


def _published(order: TrainingOrder, preset: str) -> TrainingOrder:
    """Return an order with what a published training says."""
    recipe = RECIPES.find(preset)
    given = {"algo": order.algorithm, "library": order.library, "resume": order.resume or None}
    for name, value in given.items():
        if value is not None:
            raise ConfigError(name, value, "none with --preset")
    settings = {**recipe.settings, **order.settings}
    return replace(order, algorithm=recipe.algorithm, library=recipe.library, settings=settings)


def _ordered(order: TrainingOrder) -> tuple[str, dict[str, object]]:
    """Return learner and environment of a new training."""
    if order.algorithm is None:
        known = dict.fromkeys(LEARNERS[name].algorithm for name in LEARNERS.names())
        raise ConfigError("algo", None, known)
    name = learner_name(order.algorithm, order.library)
    plain = {} if order.env else QUICK_ENV
    return name, _configure(order.env, order.config, plain, order.chosen)


def _resumed(order: TrainingOrder) -> tuple[str, dict[str, object]]:
    """Return learner and environment of the checkpoint, which nobody may contradict."""
    note = read_note(order.out)
    told = {"algo": order.algorithm, "library": order.library}
    for name, own in (("algo", note.algorithm), ("library", note.library)):
        if told[name] not in (None, own):
            raise ConfigError(name, told[name], f"{own}, as the checkpoint has it")
    given = {"env": order.env, "config": order.config, **order.chosen}
    for name, value in given.items():
        if value is not None:
            raise ConfigError(name, value, "none with --resume: the checkpoint has it")
    if order.normalise or order.frames != 1:
        raise ConfigError("normalise or frames", True, "none with --resume: the checkpoint has it")
    return learner_name(note.algorithm, note.library), dict(note.env)


def _configure(
    env: str | None,
    config: Path | None,
    arguments: Mapping[str, object],
    chosen: Mapping[str, object],
) -> dict[str, object]:
    """Return the configuration, or where there is none the arguments, of an environment."""
    configured = read_config(config) if config else dict(arguments)
    given = {"env": env, **chosen}
    return configured | {name: value for name, value in given.items() if value is not None}


def _timed(arguments: Mapping[str, object]) -> dict[str, object]:
    """Return arguments that name their interval."""
    default = default_of(env_id_of(arguments), "interval")
    return {**arguments, "interval": arguments.get("interval", default)}


def _with_bar(title: str, work: Callable[[rollout.Progress], Record], hint: str = "") -> Record:
    """Do some work under a progress bar; standard output belongs to its result and to --json."""
    progress = progress_bars()
    task = progress.add_task(title, total=1.0, note="")
    is_begun = False
    with ExitStack() as shown:

        def follow(done: float, note: str) -> None:
            nonlocal is_begun
            # Not before: what is refused at once is one line.
            if not is_begun:
                is_begun = True
                shown.enter_context(progress)
                if hint:
                    progress.console.print(hint, soft_wrap=True, highlight=False)
            progress.update(task, completed=done, note=note)
            progress.say(f"{title}: {done:.0%} {note}".rstrip())

        result = work(follow)
        progress.update(task, completed=1.0, note="")
        return result
