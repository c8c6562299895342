"""CMA-ES on a small policy that rows share: strong where few weights matter, and cheap.

All candidates of a generation meet the same flows, whose seed is that of the generation: what one
of them earns more than another is then the policy's. Where an episode is a draw among scenarios, a
generation had better meet several: each of them orders the candidates, and counts alike.

A training that goes on from its state does so bit for bit where the environment is deterministic.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from dcgym.config import check_int, check_keys, check_positive, read_numbers
from dcgym.containers import read_tensors
from dcgym.errors import ConfigError, TrainingError
from dcgym.policies.learned.actor_files import write_actor
from dcgym.policies.learned.copies import build_copies
from dcgym.policies.learned.environments import TrainingForm, training_form
from dcgym.policies.learned.flat import FlatSlots
from dcgym.policies.learned.plain.evolution import Evolution, Floats
from dcgym.policies.learned.plain.small import SmallPolicy
from dcgym.policies.learned.training import TrainingClock, TrainingJob
from dcgym.policies.learned.view import View
from dcgym.reading import ARCHIVE

__all__ = ["CmaEs", "CmaSettings", "merits_of", "open_cma_es"]

STATE_FILE = "evolution.safetensors"
# Seeds of generations lie apart by more than any training has copies.
SEED_STRIDE = 1_000_003
LARGEST_SEED = 2**31


@dataclass(frozen=True)
class CmaSettings:
    """Hyper-parameters.

    Attributes:
        sigma: Deviation of the first candidates' weights; observations and actions are about 1.
        population: Candidates of a generation; None for 4 + 3 ln n.
        episode_steps: Most steps of an episode; None for the environment's own end.
        episodes: Episodes of a candidate. With more than one, what counts is by how many standard
            deviations of the generation a candidate is better, on average over the episodes.
        hidden: Units of the policy's hidden layer; 0 for a linear policy.
    """

    sigma: float = 0.5
    population: int | None = None
    episode_steps: int | None = None
    episodes: int = 1
    hidden: int = 0

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigError: One is not allowed.
        """
        read_numbers(self)
        check_positive("sigma", self.sigma)
        for name, least in (("population", 4), ("episode_steps", 1)):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), least)
        check_int("episodes", self.episodes, 1)
        check_int("hidden", self.hidden, 0)


class CmaEs:
    """A training whose environments run."""

    def __init__(self, envs: FlatSlots, form: TrainingForm, job: TrainingJob) -> None:
        """Begin with weights of 0, or go on from a state.

        Args:
            envs: Copies of the environment.
            form: How they are stepped.
            job: What to train.

        Raises:
            ConfigError: A hyper-parameter is not allowed, or the state is damaged.
        """
        names = [one.name for one in fields(CmaSettings)]
        self._settings = CmaSettings(**check_keys(job.settings, names, "settings"))  # type: ignore[arg-type]
        self._envs, self._n_copies, self._seed = envs, form.n_copies, job.seed
        view = job.view or View(form.observation_size, form.rows)
        self._policy = SmallPolicy(view, form.action_space, self._settings.hidden)
        start, sigma = np.zeros(self._policy.size), self._settings.sigma
        if job.demonstrations is not None:
            start = self._policy.fitted(job.demonstrations, job.seed)
        self._evolution = Evolution(start, sigma, job.seed, self._settings.population)
        if job.state is not None:
            self._restore(job.state)

    def learn(self, clock: TrainingClock) -> None:
        """Learn until the clock is over, and report after every generation.

        Args:
            clock: The limits.

        Raises:
            TrainingError: A reward is not finite.
        """
        clock.begin()
        while not clock.is_over:
            candidates = self._evolution.ask()
            earned = np.zeros((self._settings.episodes, len(candidates)))
            n_steps = 0
            for number in range(self._settings.episodes):
                for begin in range(0, len(candidates), self._n_copies):
                    few = candidates[begin : begin + self._n_copies]
                    end = begin + len(few)
                    earned[number, begin:end], taken = self._try(few, number, clock)
                    n_steps += taken
            if self._is_cut(clock):
                return
            if not np.isfinite(earned).all():
                raise TrainingError("a reward is not finite")
            self._evolution.tell(candidates, -merits_of(earned))
            clock.report(clock.last.steps + n_steps, float(earned.mean()))

    def _is_cut(self, clock: TrainingClock) -> bool:
        """Return whether the time ended within a generation; the first one is always finished."""
        return self._evolution.generation > 0 and clock.is_over

    def _try(self, candidates: Floats, number: int, clock: TrainingClock) -> tuple[Floats, int]:
        """Return the mean reward per step of each in an episode, and the steps taken."""
        envs, n = self._envs, self._n_copies
        per_copy = envs.num_envs // n
        # Copies without a candidate repeat the last one.
        shown_by = np.minimum(np.arange(n), len(candidates) - 1)
        parameters = np.repeat(candidates[shown_by], per_copy, axis=0)
        episode = self._evolution.generation * self._settings.episodes + number
        seed = (self._seed + SEED_STRIDE * (episode + 1)) % LARGEST_SEED
        # One for each copy, as our vector environments take them.
        seeds: Any = [seed] * n
        shown, _ = envs.reset(seed=seeds)
        total, steps = np.zeros(envs.num_envs), np.zeros(envs.num_envs, np.int64)
        running = np.ones(envs.num_envs, np.bool_)
        most = self._settings.episode_steps
        while running.any() and not self._is_cut(clock):
            actions = self._policy.act(parameters, np.asarray(shown, np.float32))
            shown, rewards, terminated, truncated, _ = envs.step(actions)
            total += np.where(running, rewards, 0.0)
            steps += running
            running &= ~np.logical_or(terminated, truncated)
            if most is not None and steps.max() >= most:
                break
        each, counted = total.reshape(n, -1).sum(axis=1), steps.reshape(n, -1).sum(axis=1)
        earned: Floats = (each / np.maximum(counted, 1))[: len(candidates)]
        return earned, int(counted[: len(candidates)].sum())

    def save(self, folder: Path) -> Mapping[str, object]:
        """Save what acts: the mean of the candidates.

        Args:
            folder: The checkpoint folder.

        Returns:
            What the note of the checkpoint says of its files.
        """
        return write_actor(folder, self._policy.actor(self._evolution.mean))

    def save_state(self, folder: Path, is_last: bool) -> None:
        """Save what a training needs to go on later.

        Args:
            folder: A folder for it, which is empty.
            is_last: Not looked at.
        """
        from safetensors.numpy import save_file

        state = self._evolution.state()
        save_file(
            {name: np.ascontiguousarray(array) for name, array in state.items()},
            folder / STATE_FILE,
        )

    def _restore(self, folder: Path) -> None:
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            content = read_tensors(folder / STATE_FILE, "resume", ARCHIVE)
            self._evolution.restore(load(content))
        except ConfigError:
            raise
        except (OSError, SafetensorError, ValueError) as error:
            allowed = f"a state of cma-es with {self._policy.size} parameters ({error})"
            raise ConfigError("resume", str(folder), allowed) from error


def merits_of(earned: Floats) -> Floats:
    """Return by how much each candidate is better than the others, (n,).

    Args:
        earned: Mean reward of each episode and candidate, (E, n).
    """
    if len(earned) == 1:
        only: Floats = earned[0]
        return only
    deviation = earned.std(axis=1, keepdims=True)
    # An episode in which all are alike says nothing.
    scaled = (earned - earned.mean(axis=1, keepdims=True)) / np.where(deviation > 0, deviation, 1)
    mean: Floats = scaled.mean(axis=0)
    return mean


@contextmanager
def open_cma_es(job: TrainingJob) -> Iterator[CmaEs]:
    """Start a training.

    Args:
        job: What to train.

    Raises:
        ConfigError: A hyper-parameter is not allowed, or the state is damaged.
    """
    form = training_form(job.env_config, job.n_envs)
    with contextlib.closing(build_copies(job.env_config, form, job.view)) as envs:
        yield CmaEs(envs, form, job)
