"""Learners: an algorithm of a library each, which trains policies and loads what it trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

from dcgym.config import read_numbers
from dcgym.errors import ConfigError, suggest
from dcgym.policies.base import Policy
from dcgym.policies.checkpoint import read_note
from dcgym.policies.trained import folder_of
from dcgym.registry import Registry

__all__ = [
    "LEARNERS",
    "EnvConfig",
    "Learner",
    "Progress",
    "ProgressCallback",
    "TrainingOptions",
    "find_learner",
    "learner_name",
    "load_policy",
]


@dataclass(frozen=True)
class Progress:
    """How far a training is.

    Attributes:
        steps: Environment steps so far, of all environments together.
        total_steps: Steps asked for.
        seconds: Wall-clock seconds so far, without the start of libraries and environments.
        reward_mean: Mean reward per step of recent episodes; None before the first one ended.
    """

    steps: int
    total_steps: int
    seconds: float
    reward_mean: float | None


@dataclass(frozen=True)
class TrainingOptions:
    """What a training may be told beside its environment.

    Attributes:
        frames: Observations that the network is shown in a row.
        normalise: Whether observations are scaled by the mean and the deviation of what random
            actions see; both are measured once, before the training.
        settings: Hyper-parameters by the names of the library.
        resume: Whether to go on from the state that is in the folder.
        clone_from: Classic policy whose actions the network learns first; None for none.
        shaping: Weight of each measurement in the potential of a state, by its label; none where
            there is no shaping.
        address: Head of a Ray cluster on whose machines the environments run, as host:port; None
            for this machine.
    """

    frames: int = 1
    normalise: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)
    resume: bool = False
    clone_from: str | None = None
    shaping: Mapping[str, object] = field(default_factory=dict)
    address: str | None = None

    def __post_init__(self) -> None:
        """Take numbers of NumPy for Python's."""
        read_numbers(self)


EnvConfig: TypeAlias = Mapping[str, object]
"""Arguments of `make_env`."""

ProgressCallback: TypeAlias = Callable[[Progress], None]


class Learner(Protocol):
    """An algorithm of a library."""

    @property
    def algorithm(self) -> str:
        """Name of the algorithm, such as "ppo"."""
        ...

    @property
    def library(self) -> str:
        """Name of the library, such as "rllib"."""
        ...

    def train(
        self,
        env_config: EnvConfig,
        steps: int,
        seed: int,
        out_dir: str | Path,
        progress: ProgressCallback | None = None,
        *,
        n_envs: int | None = None,
        budget_s: float | None = None,
        options: TrainingOptions | None = None,
    ) -> Path:
        """Train and save; also what was learned before an interrupt.

        Args:
            env_config: Arguments of `make_env`.
            steps: Environment steps, of all environments together; further ones where it resumes.
            seed: Seed of the learner and of the environments.
            out_dir: Folder of the checkpoint; made if it is missing.
            progress: Called now and then.
            n_envs: Environments side by side; None for what suits the algorithm.
            budget_s: Wall-clock seconds after which training ends early, or None.
            options: What else it is told; None for nothing. A learner that does not know an
                option refuses it.

        Returns:
            The checkpoint folder, for `load_policy`.

        Raises:
            MissingDependency: The library is not installed.
            DcgymError: Not one step was sampled.
        """
        ...

    def load(self, folder: Path) -> Policy:
        """Load a policy that `train` saved; starts nothing and builds no environment.

        Args:
            folder: The checkpoint folder.

        Raises:
            MissingDependency: What the policy needs to act is not installed.
        """
        ...


LEARNERS: Registry[Learner] = Registry("learners", "policy")
"""Learners by the name of their policies: the algorithm's alone for its default library, and
"algorithm-library" for every other one."""


def learner_name(algorithm: str, library: str | None = None) -> str:
    """Return the name of an algorithm's learner, which is that of its policies.

    Args:
        algorithm: Name of the algorithm.
        library: Name of the library; None for the algorithm's default.

    Raises:
        ConfigError: There is no such learner.
    """
    found = find_learner(algorithm, library)
    return next(name for name, one in LEARNERS.items() if one is found)


def find_learner(algorithm: str, library: str | None = None) -> Learner:
    """Return the learner of an algorithm.

    Args:
        algorithm: Its name.
        library: Name of the library; None for the algorithm's default.

    Raises:
        ConfigError: There is no such learner.
    """
    # Lists what plug-ins add, too.
    learners = [LEARNERS[name] for name in LEARNERS.names()]
    libraries = [one.library for one in learners if one.algorithm == algorithm]
    if not libraries or not isinstance(library, str | None):
        known = list(dict.fromkeys(one.algorithm for one in learners))
        raise ConfigError("algo", algorithm, known, suggest(algorithm, known))
    if library is None:
        # Each algorithm has its default library under its own name.
        return LEARNERS.get(algorithm) or next(o for o in learners if o.algorithm == algorithm)
    if library not in libraries:
        allowed = f"{', '.join(libraries)} for {algorithm}"
        raise ConfigError("library", library, allowed, suggest(library, libraries))
    return next(o for o in learners if (o.algorithm, o.library) == (algorithm, library))


def load_policy(path: str | Path, env: object = None) -> Policy:
    """Load a learned policy from the checkpoint folder that its `train` returned.

    Args:
        path: The folder, or the name of a trained policy that comes with the package.
        env: The environment or task to act in, if it exists already.

    Raises:
        ConfigError: It is no checkpoint, or of an unknown learner.
        MissingDependency: What the policy needs to act is not installed.
    """
    if isinstance(path, str | Path):
        path = folder_of(path)
    note = read_note(path)
    try:
        learner = find_learner(note.algorithm, note.library)
    except ConfigError as error:
        raise ConfigError("checkpoint", str(path), f"one of a known learner ({error})") from error
    policy = learner.load(Path(path).resolve())
    return policy if env is None else policy.bind(env)
