"""The recurrent policy of the contributions, which knows what acts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from torch import nn

from dcgym.policies.learned.sb3.network import OverRows

__all__ = ["MemoryPolicy"]


class MemoryPolicy(OverRows, RecurrentActorCriticPolicy):
    """Actor and critic with a memory of each, which has all of an observation: rows or not."""

    output: ClassVar[str] = "none"

    def acting_parts(self) -> Sequence[nn.Module]:
        """Return the networks that lead from an observation to the best action, in order."""
        return [self.lstm_actor, self.mlp_extractor.policy_net, self.action_net]
