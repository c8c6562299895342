"""What tasks over VIPs of a seed share: rewards, actions that are numbers, and the seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.config import check_int
from dcgym.errors import ConfigError
from dcgym.tasks.common.actions import action_array
from dcgym.tasks.common.rewards import Reward
from dcgym.tasks.common.rows import RowLayout

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["DrawnTask", "check_seed", "numbered_actions"]

FloatArray = npt.NDArray[np.float64]
SEED_LIMIT = 2**31
Inputs = TypeVar("Inputs")


class DrawnTask(Generic[Inputs]):
    """A task whose episodes are VIPs of a seed; it holds no state of an episode.

    Args:
        reward: Terms and weights.
        inputs: Makes what they look at, of one array (E,) for each field.
        places: Layout of the observation.

    Attributes:
        reward: Terms and weights.
        places: Layout of the observation.
        observation_space: Numbers from 0 to 1.
    """

    def __init__(
        self,
        reward: Reward[Inputs, FloatArray],
        inputs: Callable[..., Inputs],
        places: RowLayout,
    ) -> None:
        self.reward, self._inputs, self.places = reward, inputs, places
        self.observation_space = gym.spaces.Box(0.0, 1.0, (places.size,), np.float32)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return the task: it holds no state of an episode."""
        return self

    @property
    def common(self) -> slice:
        """Where in an observation stands what concerns all rows."""
        return self.places.common

    @property
    def term_names(self) -> tuple[str, ...]:
        """Terms of the reward."""
        return tuple(self.reward.weights)

    def terms(self, inputs: FloatArray) -> Mapping[str, FloatArray]:
        """Return each term times its weight, (E,).

        Args:
            inputs: Fields of the reward's inputs of each copy, (E, K).
        """
        return self.reward.terms(self._inputs(*inputs.T))

    def draw_seed(self, generator: np.random.Generator) -> int:
        """Draw the seed of an episode's VIPs.

        Args:
            generator: Source of chance.
        """
        return int(generator.integers(SEED_LIMIT))


def check_seed(seed: int) -> int:
    """Return the seed of an episode.

    Args:
        seed: The seed.

    Raises:
        ConfigError: It is no whole number.
    """
    return check_int("seed", seed, -(2**63))


def numbered_actions(given: object, most: int) -> list[int]:
    """Return actions as numbers, one a copy.

    Args:
        given: The actions.
        most: The last action.

    Raises:
        ConfigError: One is not in the action space.
    """
    actions = action_array(given).reshape(-1)
    allowed = f"a whole number, 0 to {most}"
    if actions.dtype.kind not in "iu":
        raise ConfigError("action", given, allowed)
    numbers: list[int] = actions.tolist()
    for one in numbers:
        if not 0 <= one <= most:
            raise ConfigError("action", one, allowed)
    return numbers
