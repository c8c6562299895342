"""Actions within bounds whose gradient does not vanish at them.

A tanh at an actor's end passes no gradient once it is saturated: an actor that the young critic
sends to a bound stays there for good. On congestion control DDPG did so within 10,000 steps, all
hosts at full rate. M. Hausknecht and P. Stone, "Deep Reinforcement Learning in Parameterized Action
Space", ICLR 2016, section 5.2, invert gradients instead: what leads towards a bound shrinks with
the distance from it, and turns around beyond it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction

__all__ = ["InvertedGradients"]


class _Invert(torch.autograd.Function):
    @staticmethod
    def forward(ctx: BackwardCFunction, values: Tensor) -> Tensor:
        ctx.save_for_backward(values)
        return values.clamp(-1.0, 1.0)

    @staticmethod
    def backward(ctx: BackwardCFunction, *gradients: Tensor) -> Tensor:
        (values,) = ctx.saved_tensors
        (loss,) = gradients
        # The loss is descended: where its gradient is negative, the value grows.
        room = torch.where(loss < 0, 1.0 - values, values + 1.0)
        return loss * room / 2.0


class InvertedGradients(nn.Module):
    """Clips to -1 and 1, with inverted gradients."""

    def forward(self, values: Tensor) -> Tensor:
        """Return the values between the bounds.

        Args:
            values: Outputs of an actor's last linear layer, of any shape.
        """
        bounded: Tensor = _Invert.apply(values)
        return bounded
