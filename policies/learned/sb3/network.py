"""An actor that treats the rows of an observation alike."""

from __future__ import annotations

from typing import Any

from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.td3.policies import Actor, TD3Policy
from torch import nn

from dcgym.policies.learned.row_network import RowNetwork
from dcgym.tasks.common.rows import RowLayout

__all__ = ["RowActor", "RowPolicy"]


class RowActor(Actor):
    """DDPG's actor over rows; the first actions are alike for all."""

    def __init__(self, rows: RowLayout, **arguments: Any) -> None:
        """Build the library's actor, and put the network over rows in its place.

        Args:
            rows: Layout of the observation.
            **arguments: Those of the library's actor.
        """
        super().__init__(**arguments)
        self.mu = nn.Sequential(RowNetwork(rows), nn.Tanh())


class RowPolicy(TD3Policy):
    """Actor over rows, critics as the library makes them."""

    def __init__(self, *arguments: Any, rows: RowLayout, **options: Any) -> None:
        """Build actor and critics.

        Args:
            *arguments: Those of the library's policy.
            rows: Layout of the observation.
            **options: Those of the library's policy.
        """
        # The library's constructor calls `make_actor`.
        self._rows = rows
        super().__init__(*arguments, **options)

    def make_actor(self, features_extractor: BaseFeaturesExtractor | None = None) -> RowActor:
        """Make an actor.

        Args:
            features_extractor: What reads observations; None for one of its own.
        """
        arguments = self._update_features_extractor(self.actor_kwargs, features_extractor)
        return RowActor(self._rows, **arguments).to(self.device)
