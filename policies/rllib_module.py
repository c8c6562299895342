"""The networks of PPO: RLlib's own, beginning with a narrow distribution."""

from __future__ import annotations

import torch
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule

__all__ = ["CalmModule", "NarrowModule"]

# Actions are scaled to -1..1. RLlib begins with a standard deviation of 1, which clips most
# actions to an end; this one, exp(-1) = 0.37, tells neighbouring shares apart.
LOG_STD_START = -1.0
# A balancer's action is a logarithm to the base of 8: exp(-2) varies a weight by about a third.
CALM_LOG_STD_START = -2.0


class NarrowModule(DefaultPPOTorchRLModule):
    """PPO's default module with another first standard deviation."""

    def setup(self) -> None:
        """Build the network, then narrow its distribution."""
        super().setup()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            self.pi.log_std.fill_(LOG_STD_START)


class CalmModule(DefaultPPOTorchRLModule):
    """PPO's default module, beginning with the middle of the action space and little noise.

    For balancers that is equal weights: what a learner changes then starts from a sound rule.
    """

    def setup(self) -> None:
        """Build the network, then calm its first actions."""
        super().setup()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            self.pi.log_std.fill_(CALM_LOG_STD_START)
            last = [layer for layer in self.pi.modules() if isinstance(layer, torch.nn.Linear)][-1]
            last.weight.mul_(0.01)
            last.bias.zero_()
