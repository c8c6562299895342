"""The networks of RLlib's algorithms: its own, and some that treat all rows alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import torch
from ray.rllib.algorithms.appo.default_appo_rl_module import DefaultAPPORLModule
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import (
    TorchCategorical,
    TorchDiagGaussian,
    TorchDistribution,
    TorchMultiCategorical,
)
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.core.rl_module.apis import TARGET_NETWORK_ACTION_DIST_INPUTS, TargetNetworkAPI
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import nn

from dcgym.policies.learned.flat import (
    FlatSpace,
    action_bounds,
    flat_action_space,
    n_outputs_of,
)
from dcgym.policies.learned.row_network import RowNetwork
from dcgym.tasks.common.rows import RowLayout

__all__ = ["ActingModule", "NarrowModule", "NarrowingModule", "RowModule", "module_spec"]

# Actions are scaled to -1..1. RLlib begins with a standard deviation of 1, which clips most
# actions to an end; this one, exp(-1) = 0.37, tells neighbouring shares apart.
LOG_STD_START = -1.0
# It falls to exp(-3) = 0.05, 2.5 % of a rate. A rate that overshoots now and then pays with a
# queue: while there is much noise the best mean is too low, and what is learned late decides.
LOG_STD_END = -3.0
# A balancer's action is a logarithm to the base of 8: exp(-2) varies a weight by about a third.
ROW_LOG_STD_START = -2.0


@runtime_checkable
class ActingModule(Protocol):
    """A module that knows which of its parts a checkpoint needs to act.

    Attributes:
        output: What follows the last part: "none" or "tanh".
    """

    output: str

    def acting_parts(self) -> Sequence[nn.Module]:
        """Return the networks that lead from an observation to the mean action, in order."""
        ...


@runtime_checkable
class NarrowingModule(Protocol):
    """A module that explores less as its training goes on."""

    def narrow(self, share: float) -> None:
        """Bound the noise when this share of the training is over, 0 to 1."""
        ...


class PlainModule(DefaultPPOTorchRLModule):
    """The library's own module, which knows what acts."""

    output = "none"

    def acting_parts(self) -> Sequence[nn.Module]:
        """Return the networks that lead from an observation to the mean action, in order."""
        return [self.encoder.actor_encoder.net, self.pi.net]


class QuietModule(PlainModule):
    """The same with a narrow distribution at first."""

    def setup(self) -> None:
        """Build the network, then narrow its distribution."""
        super().setup()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            self.pi.log_std.fill_(LOG_STD_START)


class NarrowModule(QuietModule):
    """The same with bounds on its standard deviation, which fall as it is trained."""

    def narrow(self, share: float) -> None:
        """Bound the standard deviation.

        Args:
            share: How much of the training is over, 0 to 1.
        """
        with torch.no_grad():
            self.pi.log_std.clamp_(max=LOG_STD_START + share * (LOG_STD_END - LOG_STD_START))


class PlainAppoModule(PlainModule, DefaultAPPORLModule):
    """The same with the target network of APPO."""


class QuietAppoModule(QuietModule, DefaultAPPORLModule):
    """The same with a narrow distribution at first.

    Nobody bounds its noise later: APPO learns in a thread, whose gradients would be of numbers that
    have changed.
    """


class SacModule(DefaultSACTorchRLModule):
    """SAC's module, which knows what acts."""

    output = "tanh"

    def acting_parts(self) -> Sequence[nn.Module]:
        """Return the networks whose first outputs are the mean action, before its tanh."""
        return [self.pi_encoder.net, self.pi.net]


class RowModule(TorchRLModule, ValueFunctionAPI):
    """Actor and critic over rows; the first actions are alike for all, with little noise."""

    output = "none"

    def setup(self) -> None:
        """Build the networks."""
        assert isinstance(self.model_config, dict)
        layout: RowLayout = self.model_config["rows"]
        assert self.action_space is not None
        space = flat_action_space(self.action_space)
        self.critic = RowNetwork(layout)
        self.actor = RowNetwork(layout, n_outputs_of(space) // layout.n_rows)
        # Empty where the outputs are all that there is to say of a choice.
        n_noisy = layout.n_rows if isinstance(space, gym.spaces.Box) else 0
        self.log_std = nn.Parameter(torch.full((n_noisy,), ROW_LOG_STD_START))
        self.action_dist_cls = _distribution(space)

    def acting_parts(self) -> Sequence[nn.Module]:
        """Return the network that leads from an observation to the mean action."""
        return [self.actor]

    def _forward(self, batch: dict[str, torch.Tensor], **kwargs: object) -> dict[str, torch.Tensor]:
        return {Columns.ACTION_DIST_INPUTS: self._inputs(self.actor, batch)}

    def _inputs(self, actor: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return what an actor says of the distribution of actions."""
        outputs: torch.Tensor = actor(batch[Columns.OBS])
        deviations = self.log_std.expand(len(outputs), -1)
        return torch.cat([outputs, deviations], dim=-1)

    def compute_values(
        self, batch: dict[str, torch.Tensor], embeddings: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the value of each observation: a sum over the rows.

        Args:
            batch: The observations.
            embeddings: Not looked at: actor and critic share nothing.
        """
        values: torch.Tensor = self.critic(batch[Columns.OBS]).sum(dim=-1)
        return values


class RowAppoModule(RowModule, TargetNetworkAPI):
    """The same with the target network of APPO."""

    def make_target_networks(self) -> None:
        """Build a copy of the actor, which follows it slowly."""
        self._old_actor = make_target_network(self.actor)

    def get_target_network_pairs(self) -> list[tuple[nn.Module, nn.Module]]:
        """Return the networks, each with its copy."""
        return [(self.actor, self._old_actor)]

    def forward_target(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return what the copy says of the distribution of actions.

        Args:
            batch: The observations.
        """
        return {TARGET_NETWORK_ACTION_DIST_INPUTS: self._inputs(self._old_actor, batch)}


def _distribution(space: FlatSpace) -> type[TorchDistribution]:
    """Return the library's distribution of actions."""
    if isinstance(space, gym.spaces.Box):
        return TorchDiagGaussian
    if isinstance(space, gym.spaces.Discrete):
        return TorchCategorical
    many: Any = TorchMultiCategorical
    found: type[TorchDistribution] = many.get_partial_dist_cls(
        space=space, input_lens=list(action_bounds(space)[2])
    )
    return found


def module_spec(name: str, rows: RowLayout | None, space: FlatSpace) -> RLModuleSpec:
    """Return the networks of an algorithm.

    Args:
        name: Name of the algorithm.
        rows: Layout of the observation; None where it is no table.
        space: The actions.
    """
    is_appo, is_box = name == "appo", isinstance(space, gym.spaces.Box)
    if name == "sac":
        # Critics read observation and action as a whole, and so does the actor.
        model = DefaultModelConfig(
            fcnet_hiddens=[64, 64], fcnet_activation="relu", head_fcnet_hiddens=[]
        )
        return RLModuleSpec(module_class=SacModule, model_config=asdict(model) | {"twin_q": True})
    if rows is not None:
        kind = RowAppoModule if is_appo else RowModule
        return RLModuleSpec(module_class=kind, model_config={"rows": rows})
    model = DefaultModelConfig(
        fcnet_hiddens=[64, 64],
        fcnet_activation="tanh",
        vf_share_layers=False,
        free_log_std=is_box,
    )
    plain = PlainAppoModule if is_appo else PlainModule
    narrow = QuietAppoModule if is_appo else NarrowModule
    return RLModuleSpec(module_class=narrow if is_box else plain, model_config=model)
