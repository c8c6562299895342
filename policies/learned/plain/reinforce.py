"""REINFORCE (Williams 1992) in plain PyTorch, with a baseline for environments that are driven.

All copies meet the same flows in an episode, so that the mean return of the copies at a step is a
baseline that knows what is to come: H. Mao et al., "Variance Reduction for Reinforcement Learning
in Input-Driven Environments", ICLR 2019. A single copy has the mean over the episode.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from dcgym.config import check_in, check_int, check_keys, check_positive, check_range, read_numbers
from dcgym.containers import open_archive
from dcgym.errors import ConfigError
from dcgym.policies.base import Action
from dcgym.policies.learned.actor_files import write_actor
from dcgym.policies.learned.copies import build_copies
from dcgym.policies.learned.environments import TrainingForm, training_form
from dcgym.policies.learned.export import check_finite, export_actor
from dcgym.policies.learned.fitting import fit_network
from dcgym.policies.learned.flat import FlatSlots, action_bounds, n_outputs_of
from dcgym.policies.learned.row_network import RowNetwork
from dcgym.policies.learned.threads import limit_torch_threads
from dcgym.policies.learned.training import TrainingClock, TrainingJob

__all__ = ["Reinforce", "ReinforceSettings", "open_reinforce"]

STATE_FILE = "reinforce.pt"
SEED_STRIDE = 1_000_003
LARGEST_SEED = 2**31
BASELINES = ("input-driven", "episode")
LOG_STD, ROW_LOG_STD = -1.0, -2.0


@dataclass(frozen=True)
class ReinforceSettings:
    """Hyper-parameters.

    Attributes:
        learning_rate: Of Adam.
        gamma: Discount of a step.
        episode_steps: Most steps of an episode.
        hidden: Width of the two hidden layers.
        baseline: "input-driven": the mean return of all copies at a step; "episode": the mean over
            the copy's own episode.
    """

    learning_rate: float = 1e-3
    gamma: float = 0.98
    episode_steps: int = 240
    hidden: int = 64
    baseline: str = "input-driven"

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigError: One is not allowed.
        """
        read_numbers(self)
        check_positive("learning_rate", self.learning_rate)
        check_range("gamma", self.gamma, 0, 1)
        check_int("episode_steps", self.episode_steps, 1)
        check_int("hidden", self.hidden, 1)
        check_in("baseline", self.baseline, BASELINES)


class _Episodes(NamedTuple):
    """An episode of each slot, its steps first."""

    shown: npt.NDArray[np.float32]
    actions: Action
    rewards: npt.NDArray[np.float64]
    running: npt.NDArray[np.bool_]


class Reinforce:
    """A training whose environments run."""

    def __init__(self, envs: FlatSlots, form: TrainingForm, job: TrainingJob) -> None:
        """Begin with a network whose actions are almost 0, or go on from a state.

        Args:
            envs: Copies of the environment.
            form: How they are stepped.
            job: What to train.

        Raises:
            ConfigError: A hyper-parameter is not allowed, or the state is damaged.
        """
        names = [one.name for one in fields(ReinforceSettings)]
        given = check_keys(job.settings, names, "settings")
        self._settings = ReinforceSettings(**given)  # type: ignore[arg-type]
        self._envs, self._form, self._job = envs, form, job
        self._choices = action_bounds(form.action_space)[2]
        rows = form.rows if job.view is None else job.view.shown_rows
        torch.manual_seed(job.seed)
        n_outputs, hidden = n_outputs_of(form.action_space), self._settings.hidden
        size = form.observation_size if job.view is None else job.view.shown_size
        self._network: nn.Module = _network(size, n_outputs, hidden)
        if rows is not None:
            self._network = RowNetwork(rows, n_outputs // rows.n_rows, hidden)
        start = LOG_STD if rows is None else ROW_LOG_STD
        n_noisy = 0 if self._choices else n_outputs
        self._log_std = nn.Parameter(torch.full((n_noisy,), start))
        parameters = [*self._network.parameters(), self._log_std]
        self._optimizer = torch.optim.Adam(parameters, self._settings.learning_rate)
        self._updates = 0
        if job.demonstrations is not None:
            fit_network([self._network], job.demonstrations, job.seed)
        if job.state is not None:
            self._restore(job.state)

    def learn(self, clock: TrainingClock) -> None:
        """Learn until the clock is over, and report after every episode.

        Args:
            clock: The limits.

        Raises:
            TrainingError: The network holds numbers that are not finite.
        """
        clock.begin()
        while not clock.is_over:
            episodes = self._sample(clock)
            if self._is_cut(clock):
                return
            self._update(episodes)
            check_finite([self._network])
            n_steps = int(episodes.running.sum())
            mean = float(episodes.rewards[episodes.running].mean())
            clock.report(clock.last.steps + n_steps, mean)

    def _is_cut(self, clock: TrainingClock) -> bool:
        """Return whether the time ended within an episode; the first one is always finished."""
        return self._updates > 0 and clock.is_over

    def _sample(self, clock: TrainingClock) -> _Episodes:
        """Run an episode in every slot; one that the clock ends is not learned from."""
        seed = (self._job.seed + SEED_STRIDE * (self._updates + 1)) % LARGEST_SEED
        generator = torch.Generator().manual_seed(seed)
        # One for each copy, as our vector environments take them.
        seeds: Any = [seed] * self._form.n_copies
        shown, _ = self._envs.reset(seed=seeds)
        running = np.ones(self._envs.num_envs, np.bool_)
        steps: list[_Episodes] = []
        while running.any() and len(steps) < self._settings.episode_steps:
            if self._is_cut(clock):
                break
            seen = np.asarray(shown, np.float32)
            actions = self._draw(seen, generator)
            shown, rewards, terminated, truncated, _ = self._envs.step(self._bounded(actions))
            steps.append(_Episodes(seen, actions, np.asarray(rewards, float), running.copy()))
            running &= ~np.logical_or(terminated, truncated)
        return _Episodes(*(np.stack(part) for part in zip(*steps, strict=True))) if steps else _NONE

    def _draw(self, seen: npt.NDArray[np.float32], generator: torch.Generator) -> Action:
        with torch.no_grad():
            outputs: torch.Tensor = self._network(torch.as_tensor(seen))
            if not self._choices:
                noise = torch.randn(outputs.shape, generator=generator)
                return (outputs + noise * self._log_std.exp()).numpy()
            parts = outputs.split(list(self._choices), dim=-1)
            drawn = [torch.multinomial(p.softmax(-1), 1, generator=generator) for p in parts]
            return torch.cat(drawn, dim=-1).numpy()

    def _bounded(self, actions: Action) -> Action:
        shape = (len(actions), *(self._form.action_space.shape or ()))
        return actions.reshape(shape) if self._choices else np.clip(actions, -1, 1).reshape(shape)

    def _log_probability(self, shown: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self._network(shown)
        if not self._choices:
            deviations = (actions - outputs) / self._log_std.exp()
            # Of a normal distribution, less its constant.
            each = -0.5 * deviations**2 - self._log_std
            return each.sum(-1)
        parts = [part.log_softmax(-1) for part in outputs.split(list(self._choices), dim=-1)]
        chosen = [part.gather(-1, actions[:, i : i + 1]) for i, part in enumerate(parts)]
        return torch.cat(chosen, dim=-1).sum(-1)

    def _update(self, episodes: _Episodes) -> None:
        settings = self._settings
        driven = settings.baseline == "input-driven"
        advantages = advantages_of(
            episodes.rewards, episodes.running, settings.gamma, is_input_driven=driven
        )
        taken = episodes.running
        log_probability = self._log_probability(
            torch.as_tensor(episodes.shown[taken]), torch.as_tensor(episodes.actions[taken])
        )
        loss = -(log_probability * torch.as_tensor(advantages[taken], dtype=torch.float32)).mean()
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        self._updates += 1

    def save(self, folder: Path) -> Mapping[str, object]:
        """Save what acts.

        Args:
            folder: The checkpoint folder.

        Returns:
            What the note of the checkpoint says of its files.
        """
        actor = export_actor([self._network], self._form.action_space, self._job.view)
        return write_actor(folder, actor)

    def save_state(self, folder: Path, is_last: bool) -> None:
        """Save what a training needs to go on later.

        Args:
            folder: A folder for it, which is empty.
            is_last: Not looked at.
        """
        content = {
            "network": self._network.state_dict(),
            "log_std": self._log_std.detach(),
            "optimizer": self._optimizer.state_dict(),
            "updates": self._updates,
        }
        torch.save(content, folder / STATE_FILE)

    def _restore(self, folder: Path) -> None:
        try:
            with open_archive(folder / STATE_FILE, "resume") as file:
                content = torch.load(file, weights_only=True)
            self._network.load_state_dict(content["network"])
            self._log_std.data.copy_(content["log_std"])
            self._optimizer.load_state_dict(content["optimizer"])
            self._updates = int(content["updates"])
        except ConfigError:
            raise
        except Exception as error:
            # Whatever torch's reader raises for what is no state of ours.
            reason = " ".join(str(error).split())[:80]
            allowed = f"a state of reinforce with the same network ({reason})"
            raise ConfigError("resume", str(folder), allowed) from error


def advantages_of(
    rewards: npt.NDArray[np.float64],
    running: npt.NDArray[np.bool_],
    gamma: float,
    *,
    is_input_driven: bool = True,
) -> npt.NDArray[np.float64]:
    """Return discounted returns less their baseline, in standard deviations.

    Args:
        rewards: Rewards of each step and slot, (T, S).
        running: Steps that belong to an episode, (T, S).
        gamma: Discount of a step.
        is_input_driven: Whether the baseline is the mean over the slots at each step; that over
            each slot's episode else, and where there is one slot.
    """
    returns = np.zeros_like(rewards)
    later = np.zeros(rewards.shape[1])
    for step in reversed(range(len(rewards))):
        later = np.where(running[step], rewards[step] + gamma * later, 0.0)
        returns[step] = later
    alone = rewards.shape[1] == 1 or not is_input_driven
    counted = np.maximum(running.sum(axis=0 if alone else 1, keepdims=True), 1)
    advantages = returns - returns.sum(axis=0 if alone else 1, keepdims=True) / counted
    deviation = float(advantages[running].std())
    scaled: npt.NDArray[np.float64] = np.where(running, advantages, 0.0) / max(deviation, 1e-8)
    return scaled


_NONE = _Episodes(
    np.zeros((0, 0, 0), np.float32), np.zeros((0, 0)), np.zeros((0, 0)), np.zeros((0, 0), np.bool_)
)


def _network(inputs: int, outputs: int, hidden: int) -> nn.Module:
    network = nn.Sequential(
        nn.Linear(inputs, hidden),
        nn.Tanh(),
        nn.Linear(hidden, hidden),
        nn.Tanh(),
        nn.Linear(hidden, outputs),
    )
    with torch.no_grad():
        # The first actions are almost 0, whatever is seen.
        for parameter in network[-1].parameters():
            parameter.mul_(0.01)
    return network


@contextmanager
def open_reinforce(job: TrainingJob) -> Iterator[Reinforce]:
    """Start a training.

    Args:
        job: What to train.

    Raises:
        ConfigError: A hyper-parameter is not allowed, or the state is damaged.
    """
    limit_torch_threads()
    form = training_form(job.env_config, job.n_envs)
    with contextlib.closing(build_copies(job.env_config, form, job.view)) as envs:
        yield Reinforce(envs, form, job)
