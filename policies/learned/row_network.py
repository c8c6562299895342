"""A network that treats all rows alike: one small net reads the row of each server.

A plain network on a balancer's observation learns from one server nothing about the others. This
one has the same weights for all, sees each row beside the mean over all rows, and adds a learned
constant for each row: what no measurement shows.
"""

from __future__ import annotations

import torch
from torch import nn

from dcgym.tasks.common.rows import RowLayout

__all__ = ["RowNetwork"]


class RowNetwork(nn.Module):
    """From observations, shape (B, layout.size), to one number a row, shape (B, N)."""

    def __init__(self, layout: RowLayout, hidden: int = 64) -> None:
        """Build the network, whose first outputs are almost 0.

        Args:
            layout: Where the rows are.
            hidden: Width of the two hidden layers.
        """
        super().__init__()
        self.layout = layout
        columns = layout.row_columns + layout.action_columns
        self.rows = nn.Sequential(
            nn.Linear(2 * columns + layout.common_columns, hidden),
            nn.Tanh(),
            nn.Linear(hidden, hidden),
            nn.Tanh(),
            nn.Linear(hidden, 1),
        )
        self.constants = nn.Parameter(torch.zeros(layout.n_rows))
        with torch.no_grad():
            last = self.rows[-1]
            assert isinstance(last, nn.Linear)
            last.weight.mul_(0.01)
            last.bias.zero_()

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Return a number for each row.

        Args:
            observations: Observations with the layout.
        """
        layout = self.layout
        measured = observations[:, layout.measured].reshape(-1, layout.n_rows, layout.row_columns)
        actions = observations[:, layout.actions].reshape(-1, layout.n_rows, layout.action_columns)
        rows = torch.cat([measured, actions], dim=-1)
        means = rows.mean(dim=1, keepdim=True).expand_as(rows)
        common = observations[:, layout.common].unsqueeze(1).expand(-1, layout.n_rows, -1)
        values: torch.Tensor = self.rows(torch.cat([rows, means, common], dim=-1)).squeeze(-1)
        return values + self.constants
