"""A network that treats all rows alike: one small net reads the row of each server.

A plain network on a balancer's observation learns from one server nothing about the others. This
one has the same weights for all, sees each row beside the mean over all rows, and adds a learned
constant for each row: what no measurement shows. Where draws have several sizes, a row is another
server each time: there are no constants, and the network takes any number of rows.
"""

from __future__ import annotations

import torch
from torch import nn

from dcgym.tasks.common.rows import RowLayout

__all__ = ["RowNetwork"]


class RowNetwork(nn.Module):
    """From observations, (B, layout.size), to some numbers a row, (B, N * outputs), row by row."""

    def __init__(self, layout: RowLayout, outputs: int = 1, hidden: int = 64) -> None:
        """Build the network, whose first outputs are almost 0.

        Args:
            layout: Where the rows are.
            outputs: Numbers of each row.
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
            nn.Linear(hidden, outputs),
        )
        n_constants = 0 if layout.is_padded else layout.n_rows * outputs
        self.constants = nn.Parameter(torch.zeros(n_constants))
        with torch.no_grad():
            last = self.rows[-1]
            assert isinstance(last, nn.Linear)
            last.weight.mul_(0.01)
            last.bias.zero_()

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Return the numbers of all rows.

        Args:
            observations: Observations with the layout.
        """
        layout = self.layout
        # Sizes in full: a row may have no action of its own.
        many, n = len(observations), layout.n_rows
        measured = observations[:, layout.measured].reshape(many, n, layout.row_columns)
        actions = observations[:, layout.actions].reshape(many, n, layout.action_columns)
        rows = torch.cat([measured, actions], dim=-1)
        means = self._mean(rows, measured).expand_as(rows)
        common = observations[:, layout.common].unsqueeze(1).expand(-1, layout.n_rows, -1)
        values: torch.Tensor = self.rows(torch.cat([rows, means, common], dim=-1))
        return values.flatten(1) + self.constants if len(self.constants) else values.flatten(1)

    def _mean(self, rows: torch.Tensor, measured: torch.Tensor) -> torch.Tensor:
        """Return the mean over the rows that stand for something, (B, 1, columns)."""
        if not self.layout.is_padded:
            return rows.mean(dim=1, keepdim=True)
        counted = (measured != 0).any(dim=-1, keepdim=True).to(rows.dtype)
        total = (rows * counted).sum(dim=1, keepdim=True)
        return total / counted.sum(dim=1, keepdim=True).clamp(min=1)
