"""The network of PPO: RLlib's own, beginning with a narrow distribution."""

from __future__ import annotations

import torch
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule

__all__ = ["NarrowModule"]

# Actions are scaled to -1..1. RLlib begins with a standard deviation of 1, which clips most
# actions to an end; this one, exp(-1) = 0.37, tells neighbouring shares apart.
LOG_STD_START = -1.0


class NarrowModule(DefaultPPOTorchRLModule):
    """PPO's default module with another first standard deviation."""

    def setup(self) -> None:
        """Build the network, then narrow its distribution."""
        super().setup()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            self.pi.log_std.fill_(LOG_STD_START)
