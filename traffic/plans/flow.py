"""A flow, and its form in the columns of a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TypeAlias

import numpy as np

from dcgym.config import check_in, check_int, check_keys, read_numbers
from dcgym.errors import ConfigError
from dcgym.traffic.plans.records import FLOW_DTYPE, LARGEST, LAST_PORT, NONE, TRANSPORTS, Records
from dcgym.units import is_empty

__all__ = ["FLOW_FIELDS", "Cell", "Flow", "column", "read_flow", "row_name", "to_records"]


Cell: TypeAlias = "str | int | None"
"""The plain value of one field of a flow."""


@dataclass(frozen=True)
class Flow:
    """One line of a traffic plan.

    A flow ends when its size is delivered or its duration is over, whichever comes first; with
    neither it lasts until the generator is stopped. The duration counts from the planned start.

    Attributes:
        src: Name of the sending host.
        dst: Name of the receiving host.
        transport: "tcp" or "udp".
        start_ns: Start, from the beginning of the episode; with ``after``, from that flow's end.
        size_bytes: Application bytes to send; None for no limit.
        duration_ns: Time to send for; None for no limit.
        rate_bps: Application bit/s. UDP sends at this constant rate and needs it; TCP is paced
            by the kernel (SO_MAX_PACING_RATE) so as not to exceed it.
        repetitions: How often the flow runs; 0 means for ever.
        gap_ns: Pause between the end of one run and the start of the next.
        port: Destination port; None lets the plan choose one.
        after: Identifier (row in the plan) of an earlier flow whose last run must end first: the
            closed loop, where ``start_ns`` is the think time. None does not wait.
        group: Label of flows that belong together, such as one incast; 0 means none.
    """

    src: str
    dst: str
    transport: str = "tcp"
    start_ns: int = 0
    size_bytes: int | None = None
    duration_ns: int | None = None
    rate_bps: int | None = None
    repetitions: int = 1
    gap_ns: int = 0
    port: int | None = None
    after: int | None = None
    group: int = 0

    def __post_init__(self) -> None:
        """Check the fields."""
        read_numbers(self)
        check_in("flow.transport", self.transport, TRANSPORTS)
        for name in ("start_ns", "repetitions", "gap_ns", "group"):
            check_int(f"flow.{name}", getattr(self, name), 0, LARGEST)
        for name in ("size_bytes", "duration_ns", "rate_bps"):
            value = getattr(self, name)
            if value is not None:
                check_int(f"flow.{name}", value, 1, LARGEST)
        if self.port is not None:
            check_int("flow.port", self.port, 1, LAST_PORT)
        if self.after is not None:
            check_int("flow.after", self.after, 0, LARGEST)
        for name in ("src", "dst"):
            if not isinstance(getattr(self, name), str):
                raise ConfigError(f"flow.{name}", getattr(self, name), "the name of a host")
        if self.src == self.dst:
            raise ConfigError("flow.dst", self.dst, "a host other than the source")
        if self.transport == "udp" and self.rate_bps is None:
            raise ConfigError("flow.rate_bps", None, "a positive rate, which UDP needs")
        if self.repetitions != 1 and self.size_bytes is None and self.duration_ns is None:
            raise ConfigError(
                "flow.repetitions", self.repetitions, "1 for a flow without size and duration"
            )

    @property
    def endless(self) -> bool:
        """Whether the flow never ends by itself."""
        return self.repetitions == 0 or (self.size_bytes is None and self.duration_ns is None)


FLOW_FIELDS = tuple(field.name for field in fields(Flow))
_DEFAULTS = {field.name: field.default for field in fields(Flow)}


def row_name(row: int) -> str:
    """Name a flow of a plan in an error message.

    Args:
        row: Number of the row, from 0.
    """
    return f"plan.flows[{row}]"


def to_records(flows: Sequence[Flow], hosts: Sequence[str]) -> Records:
    """Return flows as records that index the hosts.

    Args:
        flows: The flows.
        hosts: Names of the hosts; all that the flows name are among them.
    """
    index = {name: i for i, name in enumerate(hosts)}
    numbers: dict[str, Callable[[str], int]] = {
        "src": index.__getitem__,
        "dst": index.__getitem__,
        "transport": TRANSPORTS.index,
    }
    absent = {"port": 0}
    records = np.empty(len(flows), FLOW_DTYPE)
    # Not dataclasses.astuple: it copies deeply, at 40 us a flow.
    rows = map(attrgetter(*FLOW_FIELDS), flows)
    columns = zip(*rows, strict=True) if flows else [()] * len(FLOW_FIELDS)
    for name, values in zip(FLOW_FIELDS, columns, strict=True):
        if name in numbers:
            records[name] = [numbers[name](value) for value in values]
        else:
            nothing = absent.get(name, NONE)
            records[name] = [nothing if value is None else value for value in values]
    return records


def column(records: Records, hosts: Sequence[str], name: str) -> list[Cell]:
    """Return one field of every flow as plain values, as `Flow` holds them.

    Args:
        records: The flows.
        hosts: Names that ``src`` and ``dst`` index.
        name: The field.
    """
    values: list[int] = records[name].tolist()
    if name in ("src", "dst"):
        return [hosts[value] for value in values]
    if name == "transport":
        return [TRANSPORTS[value] for value in values]
    if _DEFAULTS[name] is not None:
        return list(values)
    absent = 0 if name == "port" else NONE
    return [None if value == absent else value for value in values]


def read_flow(row: object, number: int) -> Flow:
    """Build a flow from a mapping; errors name its number in the plan.

    Args:
        row: The fields of the flow.
        number: Its number.

    Raises:
        ConfigError: A field is unknown or wrong.
    """
    try:
        if not isinstance(row, Mapping):
            raise ConfigError("flow", row, "a mapping of field names to values")
        check_keys(row, FLOW_FIELDS, "flow")
        given = {name: value for name, value in row.items() if not is_empty(value)}
        return Flow(**{"src": None, "dst": None, **given})
    except ConfigError as error:
        field = f"{row_name(number)}, {error.field}"
        raise ConfigError(field, error.value, error.allowed, error.hint) from None
