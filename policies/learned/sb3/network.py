"""Actors: bounded, and where an observation has rows, alike for all of them."""

from __future__ import annotations

from typing import Any

from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.td3.policies import Actor, TD3Policy
from torch import nn

from dcgym.policies.learned.bounds import InvertedGradients
from dcgym.policies.learned.row_network import RowNetwork
from dcgym.tasks.common.rows import RowLayout

__all__ = ["BoundedActor", "BoundedPolicy"]


class BoundedActor(Actor):
    """DDPG's actor; over rows, the first actions are alike for all."""

    def __init__(self, rows: RowLayout | None, **arguments: Any) -> None:
        """Build the library's actor with bounds in place of its tanh.

        Args:
            rows: Layout of the observation; None if it is read as a whole.
            **arguments: Those of the library's actor.
        """
        super().__init__(**arguments)
        assert isinstance(self.mu[-1], nn.Tanh)
        network = self.mu[:-1] if rows is None else nn.Sequential(RowNetwork(rows))
        self.mu = network.append(InvertedGradients())


class BoundedPolicy(TD3Policy):
    """Bounded actor, critics as the library makes them."""

    def __init__(self, *arguments: Any, rows: RowLayout | None = None, **options: Any) -> None:
        """Build actor and critics.

        Args:
            *arguments: Those of the library's policy.
            rows: Layout of the observation; None if it is read as a whole.
            **options: Those of the library's policy.
        """
        # The library's constructor calls `make_actor`.
        self._rows = rows
        super().__init__(*arguments, **options)

    def make_actor(self, features_extractor: BaseFeaturesExtractor | None = None) -> BoundedActor:
        """Make an actor.

        Args:
            features_extractor: What reads observations; None for one of its own.
        """
        arguments = self._update_features_extractor(self.actor_kwargs, features_extractor)
        return BoundedActor(self._rows, **arguments).to(self.device)
