"""What a process can be asked to do: a run or a training, as plain text between processes."""

from __future__ import annotations

import errno
import json
from typing import TypeAlias

from dcgym.backends.records import Record
from dcgym.suites.rollout import Progress, run_episode
from dcgym.suites.spec import RunSpec, TrainingSpec, spec_from_dict, spec_to_dict
from dcgym.suites.training import train_policy

__all__ = [
    "ENDED",
    "FULL_STATUS",
    "MARK",
    "NO_MARK",
    "Work",
    "from_request",
    "perform",
    "request",
]

Work: TypeAlias = RunSpec | TrainingSpec

FULL_STATUS = errno.ENOSPC
"""Status of a worker that found no room on the disk."""

MARK = "DCGYM_WORK"
"""Variable of the environment by which all processes of a piece of work are known, whatever session
and parent they have."""
NO_MARK = "0" * 16
"""Its value, always of this length, for the process that workers are forked from."""

ENDED = "dcgym-ended"
"""What the last line about a worker begins with; its status follows."""

RUN, TRAINING = "run", "training"


def perform(spec: Work, progress: Progress) -> None:
    """Run an episode or train a learner; what comes of it is in the folder of the specification.

    Args:
        spec: A run or a training.
        progress: Called with the done fraction and a note.

    Raises:
        DcgymError: It failed.
    """
    if isinstance(spec, RunSpec):
        run_episode(spec, progress)
    else:
        train_policy(spec, progress)


def request(spec: Work) -> str:
    """Return what a worker reads.

    Args:
        spec: A run or a training.
    """
    kind = RUN if isinstance(spec, RunSpec) else TRAINING
    return json.dumps({"kind": kind, "spec": spec_to_dict(spec)}, default=str)


def from_request(read: Record) -> Work:
    """Return what a request asks for.

    Args:
        read: What `request` wrote, read as JSON.

    Raises:
        ConfigError: A field is unknown or missing.
    """
    if read["kind"] == TRAINING:
        return spec_from_dict(TrainingSpec, read["spec"])
    return spec_from_dict(RunSpec, read["spec"])
