"""Policies that RLlib trained: they act without Ray."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.policies.base import Observation
from dcgym.policies.checkpoint import CheckpointNote
from dcgym.policies.learned.acting import LearnedPolicy
from dcgym.policies.learned.rllib.library import MODULE_FOLDER, require_rllib

if TYPE_CHECKING:
    from ray.rllib.core.rl_module.rl_module import RLModule

__all__ = ["MeanActionPolicy", "load"]


class MeanActionPolicy(LearnedPolicy):
    """A trained network without Ray: the mean action of the learned distribution."""

    def __init__(
        self,
        name: str,
        module: RLModule,
        low: npt.NDArray[np.float32],
        high: npt.NDArray[np.float32],
    ) -> None:
        """Wrap a module whose outputs are actions scaled to -1..1.

        Args:
            name: Name of the policy.
            module: The RLModule.
            low: Lower end of the action space.
            high: Upper end of the action space.
        """
        super().__init__(name, low.shape)
        self._module = module
        self._low, self._high = low, high

    def infer(self, observation: Observation) -> npt.NDArray[np.float32]:
        """Return the mean action.

        Args:
            observation: What `reset` or `step` returned last.
        """
        import torch

        with torch.no_grad():
            batch = {"obs": torch.as_tensor(observation, dtype=torch.float32)[None]}
            outputs = self._module.forward_inference(batch)["action_dist_inputs"][0]
        unit = np.clip(outputs[: self._low.size].numpy(), -1, 1).reshape(self._low.shape)
        action = (self._low + (unit + 1) / 2 * (self._high - self._low)).astype(np.float32)
        clipped: npt.NDArray[np.float32] = np.clip(action, self._low, self._high)
        return clipped


def load(folder: Path, note: CheckpointNote) -> MeanActionPolicy:
    """Load the policy of a checkpoint folder; starts no Ray.

    Args:
        folder: The folder.
        note: Its note.

    Raises:
        MissingDependency: RLlib is not installed.
    """
    require_rllib()
    from ray.rllib.core.rl_module.rl_module import RLModule

    module = RLModule.from_checkpoint(str(folder / MODULE_FOLDER))
    module.eval()  # type: ignore[attr-defined]
    low, high = (np.array(note.details[name], np.float32) for name in ("low", "high"))
    return MeanActionPolicy(note.algorithm, module, low, high)
