"""Spaces that hold those of several environments, position by position of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.envs.system import System
from dcgym.envs.values import Mask, Stacked, Told
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.task import BalancingTask
from dcgym.tasks.common.actions import action_array

__all__ = ["LargestSpaces", "stacked"]

IntArray = npt.NDArray[np.int64]


class LargestSpaces:
    """The spaces of the largest of some systems, followed by what only others have.

    Args:
        systems: The systems; none has to be running.

    Attributes:
        system: The largest one.
        labels: Name of each position of an observation.
        observation_space: What holds the observations of all.
        action_space: What holds the actions of all.

    Raises:
        ConfigError: Their agents differ, or actions that are no `Box` have several sizes.
    """

    def __init__(self, systems: Sequence[System]) -> None:
        self.system = max(systems, key=lambda one: (_n_actions(one), len(one.observation_labels)))
        ordered = [self.system, *(one for one in systems if one is not self.system)]
        for one in ordered:
            self._check_agents(one)
        self.labels = list(
            dict.fromkeys(name for one in ordered for name in one.observation_labels)
        )
        self._place = {label: at for at, label in enumerate(self.labels)}
        actions = list(dict.fromkeys(label for one in ordered for label in _action_labels(one)))
        self._action_place = {label: at for at, label in enumerate(actions)}
        self.observation_space = self._observation_space(ordered)
        self.action_space = self._action_space(len(actions))
        self._known: WeakKeyDictionary[System, tuple[IntArray, IntArray]] = WeakKeyDictionary()

    def observed(self, own: System) -> IntArray:
        """Return where the observation of a system lies in the common one.

        Args:
            own: One of the systems, or one that fits.
        """
        return self._places(own)[0]

    def mask(self, own: System) -> Mask:
        """Return which positions of an action mean something to a system.

        Args:
            own: One of the systems, or one that fits.
        """
        made = np.zeros(len(self._action_place), np.bool_)
        made[self._places(own)[1]] = True
        return made

    def own_action(self, own: System, action: object) -> object:
        """Return what of an action is a system's; an action of the system's own space as it is.

        Args:
            own: The system.
            action: An action of the common space, or of its own.
        """
        at = self._places(own)[1]
        n_all = len(self._action_place)
        if len(at) == n_all or isinstance(action, Mapping):
            return action
        given = action_array(action)
        return given[at] if given.shape == (n_all,) else action

    def refusal(self, made: System) -> ConfigError | None:
        """Return why a system does not fit, None where it does.

        Args:
            made: The system.
        """
        if made.agents != self.system.agents:
            return ConfigError("randomise", list(made.agents), f"agents {list(self.system.agents)}")
        beyond = [label for label in made.observation_labels if label not in self._place]
        beyond += [label for label in _action_labels(made) if label not in self._action_place]
        if beyond:
            return ConfigError("randomise", beyond[0], "draws within the sizes of the largest one")
        return None

    def _places(self, own: System) -> tuple[IntArray, IntArray]:
        found = self._known.get(own)
        if found is None:
            seen = [self._place[label] for label in own.observation_labels]
            acted = [self._action_place[label] for label in _action_labels(own)]
            found = np.array(seen, np.int64), np.array(acted, np.int64)
            self._known[own] = found
        return found

    def _check_agents(self, one: System) -> None:
        if one.agents != self.system.agents:
            agents = sorted({len(one.agents), len(self.system.agents)})
            raise ConfigError("randomise", f"{agents} agents", "draws with the same agents")
        is_box = isinstance(one.action_space, gym.spaces.Box)
        if not is_box and one.action_space != self.system.action_space:
            allowed = "draws of one size: only actions that are a Box may vary in size"
            raise ConfigError("randomise", str(one.action_space), allowed)

    def _observation_space(self, systems: Sequence[System]) -> gym.spaces.Box:
        low, high = np.zeros(len(self.labels), np.float32), np.zeros(len(self.labels), np.float32)
        for one in systems:
            at = [self._place[label] for label in one.observation_labels]
            low[at] = np.minimum(low[at], one.observation_space.low)
            high[at] = np.maximum(high[at], one.observation_space.high)
        return gym.spaces.Box(low, high, dtype=np.float32)

    def _action_space(self, n_actions: int) -> gym.Space[object]:
        space = self.system.action_space
        if not isinstance(space, gym.spaces.Box) or space.shape == (n_actions,):
            return space
        # Positions that only a smaller draw has are bounded as the first one is.
        extra = n_actions - space.shape[0]
        low, high = np.pad(space.low, (0, extra), "edge"), np.pad(space.high, (0, extra), "edge")
        return gym.spaces.Box(low, high, dtype=np.float32)


def _n_actions(system: System) -> int:
    return len(_action_labels(system))


def _action_labels(system: System) -> list[str]:
    """Return a name for each position of a `Box` action; none for other spaces."""
    space = system.action_space
    if not isinstance(space, gym.spaces.Box):
        return []
    task = system.task()
    size = int(np.prod(space.shape))
    if isinstance(task, BalancingTask):
        n_servers = task.n_servers
        return [f"{at // n_servers}.{at % n_servers}" for at in range(size)]
    return [str(at) for at in range(size)]


def stacked(infos: Sequence[Told]) -> Stacked:
    """Return infos of several systems of one copy each as one, (E, ...); zeros fill what lacks.

    Args:
        infos: Arrays of shape (1, ...) by name, or mappings of such.
    """
    names = dict.fromkeys(name for info in infos for name in info)
    made: Stacked = {}
    for name in names:
        own = [info.get(name) for info in infos]
        if any(isinstance(one, Mapping) for one in own):
            made[name] = stacked([one if isinstance(one, Mapping) else {} for one in own])
        else:
            made[name] = _padded([None if one is None else np.asarray(one) for one in own])
    return made


def _padded(arrays: Sequence[npt.NDArray[np.generic] | None]) -> npt.NDArray[np.generic]:
    known = [one for one in arrays if one is not None]
    if len(known) == len(arrays) and len({one.shape for one in known}) == 1:
        return np.concatenate(known)
    shape = np.max([one.shape for one in known], axis=0)
    made = np.zeros((len(arrays), *shape[1:]), known[0].dtype)
    for row, one in zip(made, arrays, strict=True):
        if one is not None:
            row[tuple(slice(size) for size in one.shape[1:])] = one[0]
    return made
