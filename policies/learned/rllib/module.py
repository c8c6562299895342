"""The networks of PPO: RLlib's own for hosts, one that treats servers alike for balancers."""

from __future__ import annotations

from typing import Any

import torch
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchDiagGaussian
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import nn

from dcgym.policies.learned.server_network import ServerNetwork

__all__ = ["NarrowModule", "ServerModule"]

# Actions are scaled to -1..1. RLlib begins with a standard deviation of 1, which clips most
# actions to an end; this one, exp(-1) = 0.37, tells neighbouring shares apart.
LOG_STD_START = -1.0
# A balancer's action is a logarithm to the base of 8: exp(-2) varies a weight by about a third.
SERVER_LOG_STD_START = -2.0


class NarrowModule(DefaultPPOTorchRLModule):
    """PPO's default module with another first standard deviation."""

    def setup(self) -> None:
        """Build the network, then narrow its distribution."""
        super().setup()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            self.pi.log_std.fill_(LOG_STD_START)


class ServerModule(TorchRLModule, ValueFunctionAPI):
    """Actor and critic over servers; the first actions are equal weights with little noise."""

    def setup(self) -> None:
        """Build the networks."""
        assert self.action_space is not None and self.action_space.shape is not None
        n_servers = self.action_space.shape[0]
        self.actor, self.critic = ServerNetwork(n_servers), ServerNetwork(n_servers)
        self.log_std = nn.Parameter(torch.full((n_servers,), SERVER_LOG_STD_START))
        self.action_dist_cls = TorchDiagGaussian

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        means = self.actor(batch[Columns.OBS])
        inputs = torch.cat([means, self.log_std.expand_as(means)], dim=-1)
        return {Columns.ACTION_DIST_INPUTS: inputs}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> torch.Tensor:
        """Return the value of each observation: a sum over the servers."""
        values: torch.Tensor = self.critic(batch[Columns.OBS]).sum(dim=-1)
        return values
