"""What backends record of an episode: kinds of records, and how far it can be believed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.tasks.balancing.protocol import PoolSummary

__all__ = [
    "APPLICATIONS",
    "CONGESTION_CONTROL",
    "ENDED_FLOWS",
    "EVENT_RECORDS",
    "FIDELITIES",
    "FIDELITY",
    "FLOWS",
    "OPEN_FLOWS",
    "PROCESSES",
    "SUMMARY",
    "Fidelity",
    "Record",
    "RecordKind",
    "RecordMakers",
    "find_records",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

FIDELITIES = ("ok", "degraded", "invalid")
"""How far a run can be believed, from best to worst."""

Record: TypeAlias = dict[str, Any]
"""One row of plain data: what happened, as JSON can hold it."""


@dataclass(frozen=True)
class Fidelity:
    """How far an episode can be believed.

    Attributes:
        status: One of `FIDELITIES`.
        reasons: Why it is not "ok", one sentence each.
        figures: What was measured, by name.
    """

    status: str = "ok"
    reasons: tuple[str, ...] = ()
    figures: Mapping[str, object] = field(default_factory=dict)

    def to_dict(self) -> Record:
        """Return it as a record of a run holds it."""
        record: Record = {"status": self.status, "reasons": list(self.reasons)}
        return record | {"figures": dict(self.figures)} if self.figures else record


class RecordKind(Generic[T_co]):
    """What `records` can be asked for, and the type of it; each is one object, defined once.

    Args:
        name: For messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        """Return the name."""
        return self.name


APPLICATIONS: RecordKind[list[Record]] = RecordKind("applications")
"""What became of each application of the plan; none for a plan of flows."""

CONGESTION_CONTROL: RecordKind[Mapping[str, str]] = RecordKind("congestion_control")
"""Implementation of each algorithm that the hosts of the episode run."""

ENDED_FLOWS: RecordKind[npt.NDArray[np.void]] = RecordKind("ended_flows")
"""The flows that have ended since the reset (`dcgym.traffic.generators.view.RECORD_DTYPE`).

New ones follow those that earlier calls returned, while the episode runs."""

PROCESSES: RecordKind[list[Record]] = RecordKind("processes")
"""The external processes that send the plan's flows; none where nobody does."""

FLOWS: RecordKind[npt.NDArray[np.void]] = RecordKind("flows")
"""The flows, or requests, that have ended since the last call, in order of their end."""

OPEN_FLOWS: RecordKind[npt.NDArray[np.void]] = RecordKind("open_flows")
"""Those that have arrived and not ended, in no order, without those of the warm-up."""

EVENT_RECORDS: RecordKind[list[Record]] = RecordKind("events")
"""The events that have happened since the reset."""

SUMMARY: RecordKind[PoolSummary] = RecordKind("summary")
"""Figures since the warm-up."""

FIDELITY: RecordKind[Fidelity] = RecordKind("fidelity")
"""How far the episode can be believed."""


RecordMakers: TypeAlias = Mapping[RecordKind[Any], Callable[..., Any]]
"""What gives each kind of records that a backend has."""


def find_records(kind: RecordKind[T], makers: RecordMakers) -> Callable[..., T]:
    """Return what gives records of a kind.

    Args:
        kind: The kind.
        makers: Those that a backend has.

    Raises:
        ConfigError: It has no such records.
    """
    if kind not in makers:
        raise ConfigError("kind", kind, f"one of {', '.join(one.name for one in makers)}")
    found: Callable[..., T] = makers[kind]
    return found
