"""What is seen of the servers and of the job that waits, by name.

| name | of each server | of the job | range |
|---|---|---|---|
| park | waiting work, ms, plus time that the job in service takes, ms | its size, ms | 0 to 5e5 |
| work | time until it is done with all it has | its size | 0 to 1: x / (x + 1 s) |
| counts | jobs that it has | nothing | 0 to 1: x / (x + 8) |

The first is Park's, whose unit is 1 ms here: it adds up work and time, which differ by the server's
speed, and it is clipped where Park warns. The last is what a layer-4 balancer knows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.registry import Registry

__all__ = ["OBSERVATIONS", "JobObservation", "JobView"]

FloatArray = npt.NDArray[np.float64]

PARK_HIGH = 500_000.0
"""Park's ``load_balance_obs_high``."""
WORK_SCALE_MS = 1000.0
JOBS_SCALE = 8.0


@dataclass(frozen=True)
class JobView:
    """The servers and the job that waits; E copies, N servers.

    Attributes:
        jobs: Jobs at each server, (E, N).
        waiting_ms: Work that waits at each server, at speed 1, (E, N).
        in_service_ms: Time that the work in service takes, (E, N).
        remaining_ms: Time until all of it is done, (E, N).
        size_ms: Work of the job that waits for its server, at speed 1; 0 without one, (E,).
    """

    jobs: FloatArray
    waiting_ms: FloatArray
    in_service_ms: FloatArray
    remaining_ms: FloatArray
    size_ms: FloatArray


@dataclass(frozen=True)
class JobObservation:
    """One way to see a `JobView`.

    Attributes:
        high: Largest value; the least is 0.
        label: What a position says of a server, such as "load".
        has_size: Whether the last position is the job's size.
        observe: Values of the servers, (E, N), and of the size, (E,), before they are clipped.
    """

    high: float
    label: str
    has_size: bool
    observe: Callable[[JobView], tuple[FloatArray, FloatArray]]

    def space(self, n_servers: int) -> gym.spaces.Box:
        """Return the space of one copy.

        Args:
            n_servers: Number of servers.
        """
        return gym.spaces.Box(0.0, self.high, (n_servers + self.has_size,), np.float32)

    def labels(self, n_servers: int) -> list[str]:
        """Return the name of each position.

        Args:
            n_servers: Number of servers.
        """
        names = [f"server{number}.{self.label}" for number in range(n_servers)]
        return [*names, "job.size"] if self.has_size else names

    def __call__(self, view: JobView) -> npt.NDArray[np.float32]:
        """Return what is seen, (E, n).

        Args:
            view: The servers and the job.
        """
        servers, size = self.observe(view)
        seen = np.column_stack([servers, size]) if self.has_size else servers
        return np.minimum(seen, self.high).astype(np.float32)


def _park(view: JobView) -> tuple[FloatArray, FloatArray]:
    return view.waiting_ms + view.in_service_ms, view.size_ms


def _work(view: JobView) -> tuple[FloatArray, FloatArray]:
    left, size = view.remaining_ms, view.size_ms
    return left / (left + WORK_SCALE_MS), size / (size + WORK_SCALE_MS)


def _counts(view: JobView) -> tuple[FloatArray, FloatArray]:
    return view.jobs / (view.jobs + JOBS_SCALE), view.size_ms


OBSERVATIONS: Registry[JobObservation] = Registry("job observations", "observation")
"""The observations by name."""

OBSERVATIONS.add(
    "park",
    JobObservation(PARK_HIGH, "load", True, _park),
    "Park's: work that waits, plus time in service, and the job's size",
)
OBSERVATIONS.add(
    "work",
    JobObservation(1.0, "remaining", True, _work),
    "time until each server is done, and the job's size",
)
OBSERVATIONS.add(
    "counts",
    JobObservation(1.0, "jobs", False, _counts),
    "jobs at each server, all that a layer-4 balancer knows",
)
