"""A network that treats servers alike: one small net reads the row of each server.

A plain network on a balancer's observation learns from one server nothing about the others. This
one has the same weights for all, sees each row beside the mean over all rows, and adds a learned
constant for each server: what no measurement shows.
"""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["ServerNetwork"]

# Layout of `dcgym.tasks.balancing.observation`; a test compares.
ROW_COLUMNS = 11
BALANCER_COLUMNS = 5


class ServerNetwork(nn.Module):
    """From observations, shape (B, 12 N + 5), to one number a server, shape (B, N)."""

    def __init__(self, n_servers: int, hidden: int = 64) -> None:
        """Build the network, whose first outputs are almost 0.

        Args:
            n_servers: Number of servers N.
            hidden: Width of the two hidden layers.
        """
        super().__init__()
        self._n_servers = n_servers
        columns = ROW_COLUMNS + 1
        self.rows = nn.Sequential(
            nn.Linear(2 * columns + BALANCER_COLUMNS, hidden),
            nn.Tanh(),
            nn.Linear(hidden, hidden),
            nn.Tanh(),
            nn.Linear(hidden, 1),
        )
        self.constants = nn.Parameter(torch.zeros(n_servers))
        with torch.no_grad():
            last = self.rows[-1]
            assert isinstance(last, nn.Linear)
            last.weight.mul_(0.01)
            last.bias.zero_()

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Return a number for each server."""
        n_rows = self._n_servers * ROW_COLUMNS
        rows = observations[:, :n_rows].reshape(-1, self._n_servers, ROW_COLUMNS)
        common = observations[:, n_rows : n_rows + BALANCER_COLUMNS]
        actions = observations[:, n_rows + BALANCER_COLUMNS :]
        rows = torch.cat([rows, actions.unsqueeze(-1)], dim=-1)
        means = rows.mean(dim=1, keepdim=True).expand_as(rows)
        common = common.unsqueeze(1).expand(-1, self._n_servers, -1)
        values: torch.Tensor = self.rows(torch.cat([rows, means, common], dim=-1)).squeeze(-1)
        return values + self.constants
