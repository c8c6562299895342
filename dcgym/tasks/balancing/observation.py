"""The observation of a balancer: what it can see of its servers without asking anybody.

Per server a row of 11 numbers, then 5 for the balancer, then its last action (Yao 2023, 7.4.2):

| position | meaning | unit before scaling | scale |
|---|---|---|---|
| 11 j | flows that the balancer tracks on server j | flows | 8 |
| 11 j + 1 .. 5 | sampled durations of ongoing flows | s | 1 |
| 11 j + 6 .. 10 | sampled completion times | s | 1 |
| 11 N .. 11 N + 4 | sampled times between two new flows | s | 0.1 |
| 11 N + 5 .. 12 N + 4 | the last action, -1 to 1 | | |

The five reductions are the mean, 90th percentile, standard deviation, decayed mean and decayed
90th percentile, the decay being 0.9 per second of a sample's age. Each measured value x is
squashed to ``x / (x + scale)``, 0 to 1, which never saturates; a reservoir without a sample
reads 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.monitors.balancer.reducers import REDUCERS
from dcgym.tasks.common.rows import RowLayout
from dcgym.tasks.common.statistics import FloatArray

__all__ = ["N_REDUCTIONS", "BalancerObservation", "Measurements"]

N_REDUCTIONS = len(REDUCERS)
SERVER_COLUMNS = 1 + 2 * N_REDUCTIONS
ONGOING_SCALE = 8.0
INTERARRIVAL_SCALE_S = 0.1


@dataclass(frozen=True)
class Measurements:
    """What balancers measured; E environments, M balancers, N servers.

    Attributes:
        ongoing: Flows that each balancer tracks on each server, shape (E, M, N).
        durations_s: Reduced durations of ongoing flows, shape (E, M, N, 5).
        completions_s: Reduced completion times, shape (E, M, N, 5).
        interarrivals_s: Reduced times between new flows, shape (E, M, 5).
    """

    ongoing: npt.NDArray[np.generic]
    durations_s: FloatArray
    completions_s: FloatArray
    interarrivals_s: FloatArray


class BalancerObservation:
    """The observation space of one balancer, and how it is filled for many at once."""

    def __init__(self, n_servers: int) -> None:
        """Build the space for a number of servers."""
        self._n_servers = n_servers
        self.n_measured = n_servers * SERVER_COLUMNS + N_REDUCTIONS
        low = np.zeros(self.n_measured + n_servers, np.float32)
        low[self.n_measured :] = -1.0
        self.space = gym.spaces.Box(low, np.ones_like(low), dtype=np.float32)

    @property
    def rows(self) -> RowLayout:
        """Where the row of each server is."""
        return RowLayout(self._n_servers, SERVER_COLUMNS, N_REDUCTIONS)

    @property
    def labels(self) -> list[str]:
        """Name each position of the observation, as `server0.duration_mean`."""
        columns = ["ongoing"]
        columns += [f"{channel}_{name}" for channel in ("duration", "fct") for name in REDUCERS]
        rows = [f"server{j}.{name}" for j in range(self._n_servers) for name in columns]
        rows += [f"interarrival_{name}" for name in REDUCERS]
        return rows + [f"server{j}.action" for j in range(self._n_servers)]

    def observe(self, measured: Measurements, last_actions: FloatArray) -> npt.NDArray[np.float32]:
        """Return fresh observations, shape (E, M, 12 N + 5).

        Args:
            measured: What the balancers measured.
            last_actions: Their last actions scaled to -1..1, shape (E, M, N).
        """
        leading = last_actions.shape[:-1]
        observation = np.empty((*leading, *self.space.shape), np.float32)
        end = self._n_servers * SERVER_COLUMNS
        # Views: the assignments below write into the observation.
        rows = observation[..., :end].reshape(*leading, self._n_servers, SERVER_COLUMNS)
        rows[..., 0] = measured.ongoing
        rows[..., 0] /= ONGOING_SCALE
        rows[..., 1 : 1 + N_REDUCTIONS] = measured.durations_s
        rows[..., 1 + N_REDUCTIONS :] = measured.completions_s
        observation[..., end : self.n_measured] = measured.interarrivals_s
        observation[..., end : self.n_measured] /= INTERARRIVAL_SCALE_S
        values = observation[..., : self.n_measured]
        np.divide(values, values + 1.0, out=values)
        observation[..., self.n_measured :] = last_actions
        return observation
