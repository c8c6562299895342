"""The memory between the generator's HTTP clients and their owner (include/http.h)."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.native.tables import names_of
from dcgym.traffic.http.plan import RequestPlan
from dcgym.writing import write_table

if TYPE_CHECKING:
    import polars as pl

__all__ = ["HEADER_DTYPE", "REQUEST_OUTCOMES", "RESULT_DTYPE", "RequestResults"]

MAGIC = 0x4447485454503031
VERSION = 2

REQUEST_OUTCOMES = names_of("http_outcomes")
"""Outcomes by their number; ``tables/http_outcomes.h`` of `dcgym/native/include` says of each what
it means."""

_COUNTERS = (
    *("heartbeat_ns", "start_ns", "started", "late_starts", "active", "ended"),
    *("message_answers", "idle_messages", "messages_lost", "unknown_messages"),
)
HEADER_DTYPE = np.dtype(
    [(name, "<u8") for name in ("magic", "version", "n_requests", "n_stages", *_COUNTERS)]
)
STAGE_DTYPE = np.dtype([("duration_ns", "<i8"), ("resource", "<u4"), ("reserved", "<u4")])
WIRE_DTYPE = np.dtype(
    [
        ("start_ns", "<i8"),
        ("client", "<u4"),
        ("target", "<u4"),
        ("application", "<u4"),
        ("n_stages", "<u4"),
        ("first_stage", "<u8"),
        ("bytes", "<i8"),
    ]
)
RESULT_DTYPE = np.dtype(
    [
        ("start_ns", "<i8"),
        ("established_ns", "<i8"),
        ("first_byte_ns", "<i8"),
        ("end_ns", "<i8"),
        ("bytes", "<u8"),
        ("server", "<i4"),
        ("outcome", "<u4"),
        ("status", "<u4"),
        ("reserved", "<u4"),
    ]
)
"""What became of a request: when it was begun, its connection was established, the first byte of
the response came and it ended (CLOCK_MONOTONIC, 0 where it did not), bytes of the body, number of
the server that accepted the connection (-1 if unknown), number in `REQUEST_OUTCOMES`, status."""


class RequestResults:
    """A loaded plan: its memory file, and what has become of its requests so far.

    Nothing is lost however long a plan runs: every request has its row, and the order of ends is
    kept.
    """

    def __init__(self, plan: RequestPlan, hosts: Sequence[str]) -> None:
        """Write a plan to a new memory file.

        Args:
            plan: The requests.
            hosts: Names of the generator's hosts, in its order.

        Raises:
            ConfigError: The plan names none of the hosts.
        """
        self.plan = plan
        stages, requests = _stages(plan), _wire(plan, hosts)
        sizes = [stages.nbytes, requests.nbytes, len(plan) * RESULT_DTYPE.itemsize, 8 * len(plan)]
        self.fd = os.memfd_create("dcgym-requests", os.MFD_CLOEXEC)
        try:
            os.ftruncate(self.fd, HEADER_DTYPE.itemsize + sum(sizes))
            self._map = mmap.mmap(self.fd, 0)
        except BaseException:
            os.close(self.fd)
            raise
        self._header = np.frombuffer(self._map, HEADER_DTYPE, 1)
        self._header[0] = (MAGIC, VERSION, len(plan), len(stages), *[0] * len(_COUNTERS))
        offset = HEADER_DTYPE.itemsize
        for part in (stages, requests):
            self._map[offset : offset + part.nbytes] = part.tobytes()
            offset += part.nbytes
        self._results = np.frombuffer(self._map, RESULT_DTYPE, len(plan), offset)
        offset += self._results.nbytes
        self._order = np.frombuffer(self._map, "<u8", len(plan), offset)

    def header(self) -> np.void:
        """Return a copy of the counters, of `HEADER_DTYPE`; each is whole by itself."""
        copy: np.void = self._header.copy()[0]
        return copy

    @property
    def request(self) -> str:
        """The message that tells the generator, together with the file, of the plan."""
        plan, n_stages = self.plan, int(self._header["n_stages"][0])
        prefix = "udp:" if plan.transport == "udp" else ""
        targets = " ".join(f"{prefix}{ip} {port}" for ip, port in plan.targets)
        paths = " ".join(kind.path for kind in plan.applications)
        numbers = [len(plan), n_stages, plan.timeout_ns, len(plan.targets), len(plan.resources)]
        lines = (" ".join(map(str, numbers)), targets, " ".join(plan.resources), paths)
        return "requests " + "\n".join(lines)

    @property
    def ended(self) -> int:
        """Number of requests that have ended since the plan was started."""
        return int(self._header["ended"][0])

    @property
    def finished(self) -> bool:
        """Whether every request has ended."""
        return self.ended == len(self.plan)

    def ended_from(self, first: int) -> npt.NDArray[np.int64]:
        """Return the numbers of the requests that ended, in that order, from the first-th on.

        Args:
            first: Number of the first one.
        """
        return self._order[first : self.ended].astype(np.int64)

    def rows(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
        """Return what has become of these requests, of `RESULT_DTYPE`; they must have ended.

        Args:
            ids: Numbers of the requests.
        """
        rows: npt.NDArray[np.void] = self._results[ids]
        return rows

    def records(self) -> npt.NDArray[np.void]:
        """Return what has become of every request, in the order of the plan, of `RESULT_DTYPE`.

        Rows of outcome 0 have not ended.
        """
        ended = self.ended_from(0)
        copy = np.zeros(len(self.plan), RESULT_DTYPE)
        copy["server"] = -1
        copy[ended] = self._results[ended]
        return copy

    def table(self) -> pl.DataFrame:
        """Return plan and results with one row a request, times in ns from the plan's origin."""
        import polars as pl

        plan, records = self.plan, self.records()
        origin = int(self._header["start_ns"][0])
        requests = plan.requests
        columns: dict[str, npt.NDArray[np.generic] | list[str]] = {
            "request": np.arange(len(plan)),
            "client": np.array(plan.clients, object)[requests["client"]].tolist(),
            "application": _names(plan, requests["application"]),
            "planned_start_ns": requests["start_ns"],
            **{f"{resource}_ns": plan.demand_ns(resource) for resource in plan.resources},
        }
        for name in ("start_ns", "established_ns", "first_byte_ns", "end_ns"):
            reached = records[name] > 0
            columns[name] = np.where(reached, records[name] - origin, -1)
        columns["bytes"] = records["bytes"]
        columns["server"] = records["server"]
        columns["outcome"] = [REQUEST_OUTCOMES[i] for i in records["outcome"].tolist()]
        columns["status"] = records["status"]
        text = {"client": pl.String, "application": pl.String, "outcome": pl.String}
        return pl.DataFrame(columns, schema_overrides=text)

    def write(self, path: str | Path) -> None:
        """Write the table to a .csv or .parquet file.

        Args:
            path: Where to; the suffix decides the format.

        Raises:
            ConfigError: Unknown suffix, or the file cannot be written.
        """
        write_table(path, "records file", self.table())

    def close(self) -> None:
        """Release the memory; copies stay valid."""
        if self.fd < 0:
            return
        self._results = np.empty(0, RESULT_DTYPE)
        self._header = np.empty(0, HEADER_DTYPE)
        self._order = np.empty(0, "<u8")
        self._map.close()
        os.close(self.fd)
        self.fd = -1


def _names(plan: RequestPlan, numbers: npt.NDArray[np.uint32]) -> list[str]:
    names = [kind.name for kind in plan.applications]
    return [names[i] for i in numbers.tolist()]


def _stages(plan: RequestPlan) -> npt.NDArray[np.void]:
    counts = plan.stage_counts()
    is_stage = np.arange(plan.demands_ns.shape[1]) < counts[:, None]
    resources = np.zeros((max(len(plan.applications), 1), plan.demands_ns.shape[1]), np.uint32)
    for number, kind in enumerate(plan.applications):
        for stage, name in enumerate(kind.resources):
            resources[number, stage] = plan.resources.index(name)
    stages = np.zeros(int(is_stage.sum()), STAGE_DTYPE)
    stages["duration_ns"] = plan.demands_ns[is_stage]
    stages["resource"] = resources[plan.requests["application"]][is_stage]
    return stages


def _wire(plan: RequestPlan, hosts: Sequence[str]) -> npt.NDArray[np.void]:
    index = {name: i for i, name in enumerate(hosts)}
    for name in plan.clients:
        if name not in index:
            raise ConfigError("plan.clients", name, list(hosts))
    counts = plan.stage_counts()
    rows = np.zeros(len(plan), WIRE_DTYPE)
    for name in ("start_ns", "target", "application", "bytes"):
        rows[name] = plan.requests[name]
    if len(plan):
        rows["client"] = np.array([index[n] for n in plan.clients])[plan.requests["client"]]
    rows["n_stages"] = counts
    rows["first_stage"] = np.cumsum(counts) - counts
    return rows
