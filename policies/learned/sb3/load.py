"""Policies that Stable-Baselines3 trained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.policies.base import Observation
from dcgym.policies.checkpoint import CheckpointNote
from dcgym.policies.learned.acting import LearnedPolicy
from dcgym.policies.learned.sb3.library import MODEL_FILE, require_sb3

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

__all__ = ["ActorPolicy", "load_ddpg"]


class ActorPolicy(LearnedPolicy):
    """A trained actor, without noise."""

    def __init__(self, name: str, model: BaseAlgorithm) -> None:
        """Wrap a model.

        Args:
            name: Name of the policy.
            model: What the library loaded.
        """
        assert model.action_space.shape is not None
        super().__init__(name, model.action_space.shape)
        self._model = model

    def infer(self, observation: Observation) -> npt.NDArray[np.float32]:
        """Return the actor's action.

        Args:
            observation: What `reset` or `step` returned last.
        """
        action, _ = self._model.predict(observation, deterministic=True)
        return np.asarray(action, np.float32)


def load_ddpg(folder: Path, note: CheckpointNote) -> ActorPolicy:
    """Load the policy of a checkpoint folder.

    Args:
        folder: The folder.
        note: Its note.

    Raises:
        MissingDependency: Stable-Baselines3 is not installed.
    """
    require_sb3()
    from stable_baselines3 import DDPG

    return ActorPolicy(note.algorithm, DDPG.load(folder / MODEL_FILE, device="cpu"))
