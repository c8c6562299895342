"""Learners: an algorithm of a library each, which trains policies and loads what it trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from dcgym.errors import ConfigError
from dcgym.policies.base import Policy
from dcgym.policies.checkpoint import read_note
from dcgym.registry import Registry

__all__ = [
    "LEARNERS",
    "EnvConfig",
    "Learner",
    "Progress",
    "ProgressCallback",
    "find_learner",
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


EnvConfig: TypeAlias = Mapping[str, Any]
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
    ) -> Path:
        """Train and save; also what was learned before an interrupt.

        Args:
            env_config: Arguments of `make_env`.
            steps: Environment steps, of all environments together.
            seed: Seed of the learner and of the environments.
            out_dir: Folder of the checkpoint; made if it is missing.
            progress: Called now and then.
            n_envs: Environments side by side; None for what suits the algorithm.
            budget_s: Wall-clock seconds after which training ends early, or None.

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


def find_learner(algorithm: str, library: str | None = None) -> Learner:
    """Return the learner of an algorithm.

    Args:
        algorithm: Its name.
        library: Name of the library; None for the algorithm's default.

    Raises:
        ConfigError: There is no such learner.
    """
    if library is None:
        return LEARNERS.find(algorithm, "algorithm")
    # Lists what plug-ins add, too.
    pairs = {(one.algorithm, one.library): one for one in map(LEARNERS.find, LEARNERS.names())}
    if (algorithm, library) not in pairs:
        known = [f"{name} of {one}" for name, one in pairs]
        raise ConfigError("learner", f"{algorithm} of {library}", known)
    return pairs[algorithm, library]


def load_policy(path: str | Path, env: object = None) -> Policy:
    """Load a learned policy from the checkpoint folder that its `train` returned.

    Args:
        path: The folder.
        env: The environment or task to act in, if it exists already.

    Raises:
        ConfigError: It is no checkpoint, or of an unknown learner.
        MissingDependency: What the policy needs to act is not installed.
    """
    note = read_note(path)
    policy = find_learner(note.algorithm, note.library).load(Path(path).resolve())
    return policy if env is None else policy.bind(env)
