"""P4Wise: tabular Q-learning of the accelerators' weights (Tajbakhsh, 2023, chapter 6).

A row of the table is the bin of the processors' mean utilisation, one of N, and whether any
accelerator is in use: 2 N rows of three actions, all 0 at first. Actions are epsilon-greedy.
"""

from __future__ import annotations

from typing import Protocol, SupportsFloat

import numpy as np
import numpy.typing as npt

from dcgym.config import check_in, check_int, check_range
from dcgym.policies.accelerators.static import AcceleratorView
from dcgym.policies.base import AnyAction, BoundPolicy, Info, Observation, Overrides

__all__ = ["ROWS", "P4WisePolicy", "QTable", "train_p4wise"]

ROWS = ("in-use", "weights")
N_ACTIONS = 3


class QTable:
    """Values of actions by row.

    Args:
        n_rows: Number of rows.
        alpha: Learning rate.
        gamma: Discount.

    Attributes:
        values: (n_rows, 3), all 0 at first.
    """

    def __init__(self, n_rows: int, alpha: float = 0.5, gamma: float = 0.5) -> None:
        self.values = np.zeros((n_rows, N_ACTIONS))
        self.alpha = check_range("alpha", alpha, 0, 1)
        self.gamma = check_range("gamma", gamma, 0, 1)

    def best(self, row: int, generator: np.random.Generator) -> int:
        """Return the action of the highest value, one of several at random.

        Args:
            row: Number of the row.
            generator: Source of chance.
        """
        values = self.values[row]
        return int(generator.choice(np.flatnonzero(values == values.max())))

    def update(self, row: int, action: int, reward: float, after: int | None) -> None:
        """Add alpha (r + gamma max Q' - Q) to the value of an action.

        Args:
            row: Row that the action was chosen in.
            action: The action.
            reward: What it led to.
            after: Row that it led to; None where nothing follows.
        """
        follows = 0.0 if after is None else float(self.values[after].max())
        target = reward + self.gamma * follows
        self.values[row, action] += self.alpha * (target - self.values[row, action])


class P4WisePolicy(BoundPolicy[AcceleratorView]):
    """Chooses by a table, and learns while it acts.

    Attributes:
        table: The values.
        is_learning: Whether it explores and learns; else it takes the best action.
    """

    name = "p4wise"

    def __init__(
        self,
        alpha: float = 0.5,
        gamma: float = 0.5,
        epsilon: float = 0.1,
        bins: int = 10,
        rows: str = "in-use",
        is_episodic: bool = False,
        seed: int = 0,
    ) -> None:
        """Begin with an empty table.

        Args:
            alpha: Learning rate.
            gamma: Discount.
            epsilon: Chance of a random action while it learns.
            bins: Bins N of the processors' mean utilisation; the source does not say how many.
            rows: "in-use", as published: accelerators have a weight or not. "weights": a row for
                each weight, which the other way cannot tell apart.
            is_episodic: Whether nothing is expected after a success or a failure. The source
                expects the value of the row that an episode ended in.
            seed: Seed of the exploration.
        """
        super().__init__()
        self._epsilon = check_range("epsilon", epsilon, 0, 1)
        self._bins = check_int("bins", bins, 1, 1000)
        self._rows = check_in("rows", rows, ROWS)
        self._settings = alpha, gamma
        self._is_episodic = is_episodic
        self._generator = np.random.default_rng(seed)
        self.table = QTable(2 * bins, alpha, gamma)
        self.is_learning = True
        self._last: tuple[int, int] | None = None

    def env_overrides(self) -> Overrides:
        """Ask for a ring, and steps of the accelerators' weights from 6:0 on."""
        return {"device_rule": "wrr", "action": "step", "weights": (6, 0)}

    def row_of(self, info: Info) -> int:
        """Return the row of a state.

        Args:
            info: What `reset` or `step` returned, in full.
        """
        utilisation, weights = float(info["utilisation"][0]), info["weights"]
        found = min(int(utilisation * self._bins), self._bins - 1)
        level = int(np.max(weights[1:], initial=0))
        row = self._bins * (level if self._rows == "weights" else int(level > 0)) + found
        if row >= len(self.table.values):
            missing = row + 1 - len(self.table.values)
            self.table.values = np.pad(self.table.values, ((0, missing), (0, 0)))
        return row

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return the action, and learn from what the last one led to.

        Args:
            observation: Not looked at.
            info: What `reset` or `step` returned last, in full.
        """
        row = self.row_of(info)
        if self._last is not None and info["time_s"] > 0:
            self._learn(info, row)
        if self.is_learning and self._generator.uniform() < self._epsilon:
            action = int(self._generator.integers(N_ACTIONS))
        else:
            action = self.table.best(row, self._generator)
        self._last = row, action
        return np.asarray(action, np.int64)

    def end(self, info: Info) -> None:
        """Learn from the last step of an episode, after which there is no action.

        Args:
            info: What that step returned, in full.
        """
        if self._last is not None:
            self._learn(info, None if self._is_episodic else self.row_of(info))
        self._last = None

    def forget(self) -> None:
        """Empty the table: the environment has changed."""
        self.table = QTable(len(self.table.values), *self._settings)
        self._last = None

    def _learn(self, info: Info, after: int | None) -> None:
        if self._last is not None and self.is_learning:
            self.table.update(*self._last, float(sum(info["reward_terms"].values())), after)


class Steps(Protocol):
    """What training needs of an environment."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[Observation, Info]:
        """Begin an episode."""
        ...

    def step(self, action: AnyAction) -> tuple[Observation, SupportsFloat, bool, bool, Info]:
        """Take an action."""
        ...


def train_p4wise(
    env: Steps, policy: P4WisePolicy, episodes: int, seed: int = 0
) -> npt.NDArray[np.float64]:
    """Let a policy learn for some episodes, each with a rate of its own.

    Args:
        env: Made with the policy's `env_overrides` and infos in full.
        policy: It learns in place.
        episodes: Number of episodes.
        seed: Seed of the first one.

    Returns:
        The reward of each action.
    """
    rewards: list[float] = []
    for episode in range(check_int("episodes", episodes, 1)):
        observation, info = env.reset(seed=seed if episode == 0 else None)
        is_over = False
        while not is_over:
            observation, reward, ends, stops, info = env.step(policy.act(observation, info))
            rewards.append(float(reward))
            is_over = ends or stops
        policy.end(info)
    return np.array(rewards)
