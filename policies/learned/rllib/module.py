"""The networks of PPO: RLlib's own, and one that treats the rows of an observation alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchDiagGaussian
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import nn

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
    """A module that knows which of its parts a checkpoint needs to act."""

    action_space: Any

    def acting_parts(self) -> Sequence[nn.Module]:
        """Return the networks that lead from an observation to the mean action, in order."""
        ...


@runtime_checkable
class NarrowingModule(Protocol):
    """A module that explores less as its training goes on."""

    def narrow(self, share: float) -> None:
        """Bound the noise when this share of the training is over, 0 to 1."""
        ...


class NarrowModule(DefaultPPOTorchRLModule):
    """PPO's default module with bounds on its standard deviation, which fall as it is trained."""

    def setup(self) -> None:
        """Build the network, then narrow its distribution."""
        super().setup()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            self.pi.log_std.fill_(LOG_STD_START)

    def narrow(self, share: float) -> None:
        """Bound the standard deviation.

        Args:
            share: How much of the training is over, 0 to 1.
        """
        with torch.no_grad():
            self.pi.log_std.clamp_(max=LOG_STD_START + share * (LOG_STD_END - LOG_STD_START))

    def acting_parts(self) -> Sequence[nn.Module]:
        """Return the networks that lead from an observation to the mean action, in order."""
        return [self.encoder.actor_encoder.net, self.pi.net]


class RowModule(TorchRLModule, ValueFunctionAPI):
    """Actor and critic over rows; the first actions are alike for all, with little noise."""

    def setup(self) -> None:
        """Build the networks."""
        assert isinstance(self.model_config, dict)
        layout: RowLayout = self.model_config["rows"]
        self.actor, self.critic = RowNetwork(layout), RowNetwork(layout)
        self.log_std = nn.Parameter(torch.full((layout.n_rows,), ROW_LOG_STD_START))
        self.action_dist_cls = TorchDiagGaussian

    def acting_parts(self) -> Sequence[nn.Module]:
        """Return the network that leads from an observation to the mean action."""
        return [self.actor]

    def _forward(self, batch: dict[str, torch.Tensor], **kwargs: Any) -> dict[str, torch.Tensor]:
        means = self.actor(batch[Columns.OBS])
        inputs = torch.cat([means, self.log_std.expand_as(means)], dim=-1)
        return {Columns.ACTION_DIST_INPUTS: inputs}

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


def module_spec(rows: RowLayout | None) -> RLModuleSpec:
    """Return the networks for an observation.

    Args:
        rows: Its layout; None where it is no table.
    """
    if rows is not None:
        return RLModuleSpec(module_class=RowModule, model_config={"rows": rows})
    model = DefaultModelConfig(
        fcnet_hiddens=[64, 64],
        fcnet_activation="tanh",
        vf_share_layers=False,
        free_log_std=True,
    )
    return RLModuleSpec(module_class=NarrowModule, model_config=model)
