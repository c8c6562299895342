"""A learner of a library that is imported only when it trains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dcgym.config import check_int
from dcgym.policies.base import Policy
from dcgym.policies.checkpoint import CheckpointNote, read_note
from dcgym.policies.learned.actor_files import load_actor, require_safetensors
from dcgym.policies.learned.training import (
    TrainingClock,
    TrainingJob,
    TrainingOpener,
    TrainingRun,
    train,
)
from dcgym.policies.learners import EnvConfig, ProgressCallback

__all__ = ["LibraryLearner"]


@dataclass(frozen=True)
class LibraryLearner:
    """An algorithm of a library, as a function that imports the library.

    Attributes:
        algorithm: Name of the algorithm.
        library: Name of the library.
        open_training: Starts a training.
        default_envs: Environments side by side where nobody says how many.
        load_policy: Loads a policy from a checkpoint folder and its note, without the library.
        run: Trains and saves, as `training.train` does.
    """

    algorithm: str
    library: str
    open_training: TrainingOpener
    default_envs: int = 4
    load_policy: Callable[[Path, CheckpointNote], Policy] = load_actor
    run: TrainingRun = train

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
            n_envs: Environments side by side: those in real time in processes of their own, others
                as copies whose agents all share the network. None for `default_envs`.
            budget_s: Wall-clock seconds after which training ends early, or None.

        Returns:
            The checkpoint folder, for `load_policy`.

        Raises:
            MissingDependency: The library is not installed.
            DcgymError: Not one step was sampled.
            BackendError: What runs the environments or the library broke, beyond repair. A
                checkpoint holds what was learned.
        """
        n_envs = self.default_envs if n_envs is None else check_int("n_envs", n_envs, 1)
        clock = TrainingClock(steps, budget_s, progress)
        # Before hours of training, not after them.
        require_safetensors()
        folder = Path(out_dir).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        note = CheckpointNote(self.algorithm, self.library, seed)
        self.run(self.open_training, TrainingJob(env_config, seed, n_envs), note, clock, folder)
        return folder

    def load(self, folder: Path) -> Policy:
        """Load a policy that `train` saved.

        Args:
            folder: The checkpoint folder.

        Raises:
            ConfigError: It is no checkpoint of ours.
            MissingDependency: What reads the weights is not installed.
        """
        return self.load_policy(folder, read_note(folder))
