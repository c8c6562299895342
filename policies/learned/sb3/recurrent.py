"""The recurrent policy of the contributions, which knows what acts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from torch import nn

from dcgym.tasks.common.rows import RowLayout

__all__ = ["MemoryPolicy"]


class MemoryPolicy(RecurrentActorCriticPolicy):
    """Actor and critic with a memory of each; observations are read as a whole."""

    output: ClassVar[str] = "none"

    def __init__(self, *arguments: Any, rows: RowLayout | None = None, **options: Any) -> None:
        """Build actor and critic.

        Args:
            *arguments: Those of the library's policy.
            rows: Not looked at: one memory has all of an observation.
            **options: Those of the library's policy.
        """
        super().__init__(*arguments, **options)

    def acting_parts(self) -> Sequence[nn.Module]:
        """Return the networks that lead from an observation to the best action, in order."""
        return [self.lstm_actor, self.mlp_extractor.policy_net, self.action_net]
