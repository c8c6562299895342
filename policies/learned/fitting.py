"""Networks of torch that learn what a classic policy did, before they learn from rewards."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from dcgym.policies.learned.cloning import Demonstrations

__all__ = ["fit_network"]

EPOCHS = 100
BATCH = 128
LEARNING_RATE = 1e-3


def fit_network(
    parts: Sequence[nn.Module], shown_to: Demonstrations, seed: int, output: str = "none"
) -> float:
    """Fit networks to a policy's actions by Adam; returns the mean squared error at the end.

    Args:
        parts: Networks that lead from what is shown to an action, one after the other.
        shown_to: What the policy did.
        seed: Seed of the order in which it is shown.
        output: What follows the last part: "none" or "tanh".
    """
    inputs, targets = torch.as_tensor(shown_to.shown), torch.as_tensor(shown_to.actions)
    counts = ~targets.isnan()
    targets = targets.nan_to_num()
    parameters = [one for part in parts for one in part.parameters()]
    optimizer = torch.optim.Adam(parameters, LEARNING_RATE)
    generator = torch.Generator().manual_seed(seed)

    def error_of(rows: torch.Tensor) -> torch.Tensor:
        values = inputs[rows]
        for part in parts:
            values = part(values)
        values = torch.tanh(values) if output == "tanh" else values
        squared = (values.flatten(1) - targets[rows]) ** 2 * counts[rows]
        return squared.sum() / counts[rows].sum().clamp(min=1)

    for _ in range(EPOCHS):
        for rows in torch.split(torch.randperm(len(inputs), generator=generator), BATCH):
            optimizer.zero_grad()
            error_of(rows).backward()
            optimizer.step()
    with torch.no_grad():
        return float(error_of(torch.arange(len(inputs))))
