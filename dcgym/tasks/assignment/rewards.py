"""Rewards of job assignment, as named terms with weights.

| term | formula | remarks |
|---|---|---|
| sojourn | minus the time integral of the jobs in the system since the last decision, ms | Park's |
| failures | minus 60,000 for each job that failed: refused, or sent to a server that is gone | |

The first adds up to minus the sum of all sojourn times, waiting and service: the last step goes on
until the last job is done. A job that fails leaves the system and its integral; without the second
term an agent would send jobs where they fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.registry import Registry

__all__ = ["JOB_REWARDS", "JobInputs"]

FloatArray = npt.NDArray[np.float64]

FAILURE_MS = 60_000.0
"""What a failed job costs: a minute of a client's time."""


@dataclass(frozen=True)
class JobInputs:
    """What a reward may look at, of the time since the last decision; E copies.

    Attributes:
        job_time_ms: Time integral of the jobs in the system, (E,).
        completed: Jobs that were done, (E,).
        failed: Jobs that were not and never will be, (E,).
    """

    job_time_ms: FloatArray
    completed: FloatArray
    failed: FloatArray


def _sojourn(inputs: JobInputs) -> FloatArray:
    return -inputs.job_time_ms


def _failures(inputs: JobInputs) -> FloatArray:
    return -FAILURE_MS * inputs.failed


JOB_REWARDS: Registry[Callable[[JobInputs], FloatArray]] = Registry("job rewards", "reward")
"""The terms by name."""

JOB_REWARDS.add("sojourn", _sojourn, "minus the time integral of the jobs in the system, ms")
JOB_REWARDS.add("failures", _failures, "minus a minute for each job that failed, ms")
