"""A learner of a library that is imported only when it trains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dcgym.config import check_flag, check_int, plain
from dcgym.errors import ConfigError
from dcgym.places import temporary_place
from dcgym.policies.base import Policy
from dcgym.policies.checkpoint import CHECKPOINT_FILE, CheckpointNote, read_note
from dcgym.policies.clusters import check_address
from dcgym.policies.learned.acting import TRAINED
from dcgym.policies.learned.actor import Actor
from dcgym.policies.learned.actor_files import (
    ACTOR_FILE,
    WEIGHTS_FILE,
    load_actor,
    require_safetensors,
)
from dcgym.policies.learned.flat import ACTION_KINDS, action_bounds, action_kind
from dcgym.policies.learned.provenance import versions_of
from dcgym.policies.learned.shaping import make_shaping
from dcgym.policies.learned.states import NEW_FOLDER, STATE_FOLDER, read_state
from dcgym.policies.learned.training import (
    BEST_FOLDER,
    TrainingClock,
    TrainingJob,
    TrainingOpener,
    TrainingRun,
    train,
)
from dcgym.policies.learned.view import View
from dcgym.policies.learners import EnvConfig, ProgressCallback, TrainingOptions
from dcgym.tasks.common.features import label_columns
from dcgym.writing import new_folder

if TYPE_CHECKING:
    from dcgym.policies.learned.environments import TrainingForm

__all__ = ["LibraryLearner"]

_FOLDERS = (f"{BEST_FOLDER}/", f"{STATE_FOLDER}/", f"{NEW_FOLDER}/")
_NAMES = (CHECKPOINT_FILE, ACTOR_FILE, WEIGHTS_FILE, *_FOLDERS)
# Where Ray puts its sessions, and PyTorch what it makes when its compiler is imported.
_LIBRARY_FOLDERS = ("RAY_TMPDIR", "TORCHINDUCTOR_CACHE_DIR")


@dataclass(frozen=True)
class LibraryLearner:
    """An algorithm of a library, as a function that imports the library.

    Attributes:
        algorithm: Name of the algorithm.
        library: Name of the library.
        open_training: Starts a training.
        default_envs: Environments side by side where nobody says how many.
        actions: Kinds of actions that it takes, of `ACTION_KINDS`.
        packages: What it needs, for the versions that a checkpoint names.
        require: Imports the library; raises MissingDependency where it is not installed.
        load_policy: Loads a policy from a checkpoint folder and its note, without the library.
        run: Trains and saves, as `training.train` does.
        can_clone: Whether it can start from what a classic policy does.
        can_spread: Whether its environments may run on the machines of a cluster.
        can_shape: Whether its returns go on beyond an episode that is only cut, as potentials ask.
    """

    algorithm: str
    library: str
    open_training: TrainingOpener
    default_envs: int = 4
    actions: tuple[str, ...] = tuple(ACTION_KINDS)
    packages: tuple[str, ...] = ()
    require: Callable[[], None] = lambda: None
    load_policy: Callable[[Path, CheckpointNote], Policy] = load_actor
    run: TrainingRun = train
    can_clone: bool = False
    can_shape: bool = False
    can_spread: bool = False

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
            seed: Seed of the learner and of the environments; the earlier one where it resumes.
            out_dir: Folder of the checkpoint; made if it is missing.
            progress: Called now and then.
            n_envs: Environments side by side: those in real time in processes of their own, others
                as copies whose agents all share the network. None for `default_envs`.
            budget_s: Wall-clock seconds after which training ends early, or None.
            options: What else the training is told; None for nothing.

        Returns:
            The checkpoint folder, for `load_policy`.

        Raises:
            ConfigError: The algorithm does not take these actions, or there is nothing to resume.
            MissingDependency: The library is not installed.
            DcgymError: Not one step was sampled.
            BackendError: What runs the environments or the library broke, beyond repair. A
                checkpoint holds what was learned.
            TrainingError: The network holds numbers that are not finite. A checkpoint holds what
                was learned before.
        """
        # Long because its arguments and errors are the contract of every training.
        # The import is here because loading a policy builds no environment.
        from dcgym.policies.learned.cloning import demonstrate
        from dcgym.policies.learned.environments import training_form

        with (
            new_folder(out_dir, "out_dir", _NAMES) as folder,
            temporary_place("training", *_LIBRARY_FOLDERS),
        ):
            told, env_config = options or TrainingOptions(), plain(env_config)
            seed = check_int("seed", seed, 0)
            TrainingClock(steps, budget_s, progress)
            if told.resume:
                seed, n_envs = _begun_with(folder, n_envs)
            n_envs = self.default_envs if n_envs is None else check_int("n_envs", n_envs, 1)
            form = training_form(env_config, n_envs)
            self._check_actions(form)
            self._check_start(told)
            # Before hours of training, not after them.
            require_safetensors()
            self.require()
            job = TrainingJob(env_config, seed, n_envs, told.settings, address=told.address)
            note = CheckpointNote(
                self.algorithm,
                self.library,
                seed,
                env=dict(env_config),
                options={
                    "frames": told.frames,
                    "normalise": told.normalise,
                    "clone_from": told.clone_from,
                    "shaping": dict(told.shaping),
                    "n_envs": n_envs,
                    "settings": dict(told.settings),
                },
                versions=versions_of(("numpy", "gymnasium", *self.packages)),
                columns=label_columns(form.labels),
            )
            if told.resume:
                path, before = read_state(folder)
                earlier = self._earlier(folder, form)
                clock = TrainingClock(steps, budget_s, progress, before)
                settings = {**_mapping(earlier[0], "settings"), **told.settings}
                kept = {**earlier[0].options, "settings": settings}
                note = replace(note, options=kept, curve=earlier[0].curve)
                paid = _mapping(earlier[0], "shaping")
                job = replace(job, settings=settings, state=path, view=earlier[1].view)
            else:
                clock, paid = TrainingClock(steps, budget_s, progress), dict(told.shaping)
                job = replace(job, view=_new_view(env_config, form, told, seed))
                if told.clone_from is not None:
                    shown = demonstrate(env_config, form, job.view, told.clone_from, seed)
                    job = replace(job, demonstrations=shown)
            if paid:
                job = replace(job, shaping=make_shaping(paid, form.labels, job.settings))
            self.run(self.open_training, job, note, clock, folder)
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

    def _check_actions(self, form: TrainingForm) -> None:
        kind = action_kind(form.action_space)
        if kind not in self.actions:
            allowed = f"an algorithm for {kind} actions ({form.action_space})"
            taken = f"{self.algorithm} of {self.library} takes {' and '.join(self.actions)} ones"
            raise ConfigError("algo", self.algorithm, f"{allowed}; {taken}")

    def _check_start(self, told: TrainingOptions) -> None:
        if told.address is not None and not self.can_spread:
            allowed = f"none with {self.algorithm} of {self.library}: rllib runs on a cluster"
            raise ConfigError("address", told.address, allowed)
        if told.address is not None:
            check_address(told.address)
        if told.shaping and told.resume:
            raise ConfigError("shaping", dict(told.shaping), "that of the training it goes on with")
        if told.shaping and not self.can_shape:
            allowed = f"none with {self.algorithm} of {self.library}"
            raise ConfigError("shaping", dict(told.shaping), allowed)
        if told.clone_from is None:
            return
        if told.resume:
            raise ConfigError("clone_from", told.clone_from, "none where a training is resumed")
        if not self.can_clone:
            allowed = f"none with {self.algorithm} of {self.library}"
            raise ConfigError("clone_from", told.clone_from, allowed)

    def _earlier(self, folder: Path, form: TrainingForm) -> tuple[CheckpointNote, Actor]:
        """Return note and network of the checkpoint that a training goes on from."""
        note = read_note(folder)
        if (note.algorithm, note.library) != (self.algorithm, self.library):
            allowed = f"a checkpoint of {self.algorithm} of {self.library}"
            raise ConfigError("resume", f"{note.algorithm} of {note.library}", allowed)
        policy = load_actor(folder, note)
        policy.check_columns(form.labels, "resume")
        actor = policy.actor
        low, _, choices = action_bounds(form.action_space)
        same_actions = actor.choices == choices and np.array_equal(actor.low, low)
        if actor.observation_size != form.observation_size or not same_actions:
            here = (
                f"observations of {form.observation_size} numbers and actions {form.action_space}"
            )
            raise ConfigError("resume", str(folder), f"a checkpoint of {here}; {TRAINED}")
        return note, actor


def _new_view(
    env_config: EnvConfig, form: TrainingForm, told: TrainingOptions, seed: int
) -> View | None:
    """Return how observations are shown in a new training; None for one at a time as it is."""
    from dcgym.policies.learned.sampling import measured_view

    view = View(form.observation_size, form.rows, told.frames)
    if check_flag("normalise", told.normalise):
        return measured_view(env_config, form, view, seed)
    return view if told.frames > 1 else None


def _begun_with(folder: Path, n_envs: int | None) -> tuple[int, int | None]:
    """Return seed and environments of the training in a folder; a number that is given wins."""
    note = read_note(folder)
    own = note.options.get("n_envs")
    if n_envs is None and own is not None:
        n_envs = check_int("options.n_envs", own, 1)
    return note.seed, n_envs


def _mapping(note: CheckpointNote, name: str) -> dict[str, object]:
    found = note.options.get(name, {})
    if not isinstance(found, dict):
        raise ConfigError(f"options.{name}", found, "a mapping of names to values")
    return found
