"""Policies of the library that know what acts; over rows, one small network serves all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol, runtime_checkable

import torch
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, MlpExtractor
from stable_baselines3.common.type_aliases import Schedule
from stable_baselines3.sac.policies import Actor as SacActor
from stable_baselines3.sac.policies import SACPolicy
from stable_baselines3.td3.policies import Actor, TD3Policy
from torch import nn
from torch.optim import Optimizer

from dcgym.policies.learned.bounds import InvertedGradients
from dcgym.policies.learned.flat import flat_action_space, n_outputs_of
from dcgym.policies.learned.row_network import RowNetwork
from dcgym.tasks.common.rows import RowLayout

__all__ = [
    "ActingPolicy",
    "BoundedActor",
    "BoundedPolicy",
    "RowActorCriticPolicy",
    "RowHeads",
    "SquashedPolicy",
]


@runtime_checkable
class ActingPolicy(Protocol):
    """A policy that knows which of its parts a checkpoint needs to act.

    Attributes:
        output: What follows the last part: "none" or "tanh".
    """

    output: ClassVar[str]

    def acting_parts(self) -> Sequence[nn.Module]:
        """Return the networks that lead from an observation to the best action, in order."""
        ...


class OverRows:
    """Takes a layout of rows beside what the class of the library takes that comes after it."""

    def __init__(self, *given: object, rows: RowLayout | None = None, **options: object) -> None:
        """Build what the library builds.

        Args:
            *given: Those of the library's class.
            rows: Layout of the observation; None if it is read as a whole.
            **options: Those of the library's class.
        """
        # The library's constructors call methods that look at it.
        self._rows = rows
        super().__init__(*given, **options)


class BoundedActor(OverRows, Actor):
    """DDPG's and TD3's actor; over rows, the first actions are alike for all."""

    def __init__(self, rows: RowLayout | None, **arguments: object) -> None:
        """Build the library's actor with bounds in place of its tanh.

        Args:
            rows: Layout of the observation; None if it is read as a whole.
            **arguments: Those of the library's actor.
        """
        super().__init__(rows=rows, **arguments)
        assert isinstance(self.mu[-1], nn.Tanh)
        network = self.mu[:-1] if rows is None else nn.Sequential(RowNetwork(rows))
        self.mu = network.append(InvertedGradients())


class BoundedPolicy(OverRows, TD3Policy):
    """Bounded actor, critics as the library makes them."""

    output: ClassVar[str] = "none"

    def make_actor(self, features_extractor: BaseFeaturesExtractor | None = None) -> BoundedActor:
        """Make an actor.

        Args:
            features_extractor: What reads observations; None for one of its own.
        """
        arguments = self._update_features_extractor(self.actor_kwargs, features_extractor)
        return BoundedActor(self._rows, **arguments).to(self.device)

    def acting_parts(self) -> Sequence[nn.Module]:
        """Return the networks that lead from an observation to the best action, in order."""
        return [self.actor.mu]


class RowSacActor(OverRows, SacActor):
    """SAC's actor over rows: mean and deviation of each by networks that treat all alike."""

    def __init__(self, rows: RowLayout, **arguments: object) -> None:
        """Build the library's actor with networks over rows in place of its own.

        Args:
            rows: Layout of the observation.
            **arguments: Those of the library's actor.
        """
        super().__init__(rows=rows, **arguments)
        self.latent_pi = nn.Sequential()
        self.mu = RowNetwork(rows)
        self.log_std = RowNetwork(rows)  # type: ignore[assignment]


class SquashedPolicy(OverRows, SACPolicy):
    """SAC's actor, over rows where there are any; critics as the library makes them."""

    output: ClassVar[str] = "tanh"

    def make_actor(self, features_extractor: BaseFeaturesExtractor | None = None) -> SacActor:
        """Make an actor.

        Args:
            features_extractor: What reads observations; None for one of its own.
        """
        if self._rows is None:
            return super().make_actor(features_extractor)
        arguments = self._update_features_extractor(self.actor_kwargs, features_extractor)
        return RowSacActor(self._rows, **arguments).to(self.device)

    def acting_parts(self) -> Sequence[nn.Module]:
        """Return the networks that lead from an observation to the best action, in order."""
        return [self.actor.latent_pi, self.actor.mu]


class RowValue(nn.Module):
    """The value of an observation as a sum over its rows, shape (B, 1)."""

    def __init__(self, rows: RowLayout) -> None:
        """Build the network.

        Args:
            rows: Layout of the observation.
        """
        super().__init__()
        self.rows = RowNetwork(rows)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Return the values.

        Args:
            observations: Observations with the layout.
        """
        values: torch.Tensor = self.rows(observations)
        return values.sum(dim=-1, keepdim=True)


class RowHeads(OverRows, BasePolicy):
    """What PPO's policies of the library become over rows: actor and critic that treat all alike.

    It comes before a policy of the library among the bases.
    """

    output: ClassVar[str] = "none"
    action_net: nn.Module
    mlp_extractor: MlpExtractor

    def __init__(self, *given: object, rows: RowLayout | None = None, **options: object) -> None:
        """Build actor and critic.

        Args:
            *given: Those of the library's policy.
            rows: Layout of the observation; None if it is read as a whole.
            **options: Those of the library's policy.
        """
        if rows is not None:
            options["net_arch"] = {"pi": [], "vf": []}
        super().__init__(*given, rows=rows, **options)

    def _build(self, lr_schedule: Schedule) -> None:
        super()._build(lr_schedule)  # type: ignore[misc]  # both policies have one
        if self._rows is None:
            return
        n_outputs = n_outputs_of(flat_action_space(self.action_space)) // self._rows.n_rows
        self.action_net = RowNetwork(self._rows, n_outputs)
        # The library declares a linear layer.
        self.add_module("value_net", RowValue(self._rows))
        rate = lr_schedule(1)
        make: Callable[..., Optimizer] = self.optimizer_class
        self.optimizer = make(self.parameters(), lr=rate, **self.optimizer_kwargs)

    def acting_parts(self) -> Sequence[nn.Module]:
        """Return the networks that lead from an observation to the best action, in order."""
        return [self.mlp_extractor.policy_net, self.action_net]


class RowActorCriticPolicy(RowHeads, ActorCriticPolicy):
    """PPO's actor and critic, over rows where there are any."""
