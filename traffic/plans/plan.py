"""The traffic contract: a flow, and a plan of flows that is the same for every policy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.config import check_int, check_keys, check_list, check_name
from dcgym.errors import ConfigError, suggest
from dcgym.json_text import json_text
from dcgym.traffic.plans.files import SAVED, read_flows, read_json, write_flows
from dcgym.traffic.plans.flow import (
    FLOW_FIELDS,
    Flow,
    column,
    read_flow,
    row_name,
    to_records,
)
from dcgym.traffic.plans.ports import choose_ports
from dcgym.traffic.plans.records import FLOW_DTYPE, TRANSPORTS, Records, check_records, is_endless
from dcgym.writing import check_output, write_file

if TYPE_CHECKING:
    from dcgym.topologies import Topology

__all__ = ["TRANSPORTS", "Flow", "Plan"]

_LARGEST_SEED = 2**63 - 1  # what a column of a file holds


class Plan:
    """A list of flows. The same spec, topology and seed always give the same plan.

    Attributes:
        name: What to call the traffic in results.
        seed: The seed the flows were drawn with.
        hosts: Names of the hosts, which the records index.
        records: The flows in the order of their identifiers, of `records.FLOW_DTYPE`; read-only.
    """

    def __init__(self, name: str, seed: int, flows: Iterable[Flow] = ()) -> None:
        """Gather flows into a plan.

        Args:
            name: What to call it.
            seed: The seed it was drawn with.
            flows: The flows.

        Raises:
            ConfigError: A flow waits for a later one, or two use one port at the same time.
        """
        flows = tuple(flows)
        for flow in flows:
            if not isinstance(flow, Flow):
                raise ConfigError("plan.flows", flow, "Flow objects")
        hosts = tuple(dict.fromkeys(end for flow in flows for end in (flow.src, flow.dst)))
        self._set(name, seed, hosts, to_records(flows, hosts), row_name)

    @classmethod
    def from_records(
        cls,
        name: str,
        seed: int,
        hosts: Sequence[str],
        records: Records,
        where: Callable[[int], str] | None = None,
    ) -> Plan:
        """Make a plan of columns.

        Args:
            name: What to call it.
            seed: The seed it was drawn with.
            hosts: Names that ``src`` and ``dst`` index.
            records: The flows, of `records.FLOW_DTYPE`; copied.
            where: Names a row in error messages.

        Raises:
            ConfigError: A row holds a value that is not allowed.
        """
        plan = cls.__new__(cls)
        plan._set(name, seed, tuple(hosts), np.array(records, FLOW_DTYPE), where or row_name)
        return plan

    def _set(
        self,
        name: str,
        seed: int,
        hosts: tuple[str, ...],
        records: Records,
        where: Callable[[int], str],
    ) -> None:
        check_records(records, hosts, where)
        records.flags.writeable = False
        self.name = check_name("plan.name", name)
        self.seed = int(check_int("plan.seed", seed, 0, _LARGEST_SEED))
        self.hosts = hosts
        self.records = records

    def __len__(self) -> int:
        """Return the number of flows."""
        return len(self.records)

    def __eq__(self, other: object) -> bool:
        """Compare name, seed and flows; the order of the host names does not matter."""
        if not isinstance(other, Plan):
            return NotImplemented
        return (self.name, self.seed) == (other.name, other.seed) and np.array_equal(
            self._canonical()[1], other._canonical()[1]
        )

    def __hash__(self) -> int:
        """Hash what is cheap to hash."""
        return hash((self.name, self.seed, len(self)))

    def __repr__(self) -> str:
        """Return name, seed and number of flows."""
        return f"Plan({self.name!r}, seed={self.seed}, flows={len(self)})"

    def __getstate__(self) -> dict[str, object]:
        """Pickle the columns only."""
        return {name: self.__dict__[name] for name in ("name", "seed", "hosts", "records")}

    @cached_property
    def flows(self) -> tuple[Flow, ...]:
        """The flows as objects; large plans are better read through `records`."""
        # The columns were checked, and hold what a flow does.
        return tuple(Flow(**row) for row in self.rows())  # type: ignore[arg-type]

    @property
    def endless(self) -> bool:
        """Whether some flow never ends by itself, or there is no flow at all."""
        return not len(self) or bool(is_endless(self.records).any())

    @property
    def receivers(self) -> frozenset[str]:
        """Names of the hosts that some flow is sent to."""
        return frozenset(self.hosts[i] for i in np.unique(self.records["dst"]).tolist())

    def pair_counts(self) -> dict[tuple[str, str], int]:
        """Return how many flows go from one host to another, by (source, destination)."""
        ends = np.stack([self.records["src"], self.records["dst"]], axis=1)
        pairs, counts = np.unique(ends, axis=0, return_counts=True)
        return {
            (self.hosts[src], self.hosts[dst]): count
            for (src, dst), count in zip(pairs.tolist(), counts.tolist(), strict=True)
        }

    def digest(self) -> str:
        """Return the SHA-256 of the flows, in hexadecimal: equal digests mean equal traffic."""
        hosts, records = self._canonical()
        return hashlib.sha256(json.dumps(hosts).encode() + records.tobytes()).hexdigest()

    def check(self, topology: Topology, where: Callable[[int], str] | None = None) -> Plan:
        """Return the plan if each source and destination is a host of the topology.

        Args:
            topology: The network.
            where: Names a row in error messages.

        Raises:
            ConfigError: A flow names no host of the topology, or more UDP flows go to one host
                than there are ports.
        """
        names = [host.name for host in topology.hosts]
        known = set(names)
        unknown = np.array([host not in known for host in self.hosts], bool)
        if unknown.any():
            ends = np.stack([self.records["src"], self.records["dst"]], axis=1)
            for row, end in np.argwhere(unknown[ends]).tolist():
                field, name = ("src", "dst")[end], self.hosts[int(ends[row, end])]
                allowed = f"a host of {topology.name} ({names[0]} .. {names[-1]})"
                field = f"{(where or row_name)(row)}, {field}"
                raise ConfigError(field, name, allowed, suggest(name, names))
        self.ports()
        return self

    def ports(self) -> tuple[int, ...]:
        """Return the destination port of each flow, choosing those left open."""
        return tuple(self._ports.tolist())

    @cached_property
    def _ports(self) -> npt.NDArray[np.uint32]:
        return choose_ports(self.records, self.hosts)

    def to_records(self, hosts: Sequence[str]) -> Records:
        """Return the flows for a generator: host numbers in the order given, every port chosen.

        Args:
            hosts: Names of the generator's hosts, in its order.

        Returns:
            A new array of `records.FLOW_DTYPE`, contiguous, one row a flow in the plan's order.

        Raises:
            ConfigError: A flow names none of the hosts.
        """
        index = {name: i for i, name in enumerate(hosts)}
        for name in self.hosts:
            if name not in index:
                raise ConfigError("plan.hosts", name, "one of the generator's hosts")
        table = np.array([index[name] for name in self.hosts], np.uint32)
        records = self.records.copy()
        for field in ("src", "dst"):
            records[field] = table[records[field]]
        records["port"] = self._ports
        return records

    def to_generator(self, hosts: Sequence[str]) -> bytes:
        """Return the content of the memory file that a generator reads; see `to_records`.

        Args:
            hosts: Names of the generator's hosts, in its order.

        Raises:
            ConfigError: A flow names none of the hosts.
        """
        return self.to_records(hosts).tobytes()

    def to_bytes(self) -> bytes:
        """Return the plan in a form for another process; `from_bytes` reads it back."""
        head = {"name": self.name, "seed": self.seed, "hosts": self.hosts}
        return json.dumps(head).encode() + b"\n" + self.records.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Plan:
        """Build a plan from what `to_bytes` returned.

        Args:
            data: The bytes.
        """
        head, _, body = data.partition(b"\n")
        return cls.from_records(**json.loads(head), records=np.frombuffer(body, FLOW_DTYPE))

    def rows(self) -> list[dict[str, object]]:
        """Return each flow as a mapping of field names to plain values."""
        columns = [column(self.records, self.hosts, name) for name in FLOW_FIELDS]
        return [dict(zip(FLOW_FIELDS, row, strict=True)) for row in zip(*columns, strict=True)]

    def to_dict(self) -> dict[str, object]:
        """Return the plan as plain data; `from_dict` reads it back."""
        return {"name": self.name, "seed": self.seed, "flows": self.rows()}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Plan:
        """Build a plan from what `to_dict` returned.

        Args:
            data: ``flows``, and any of ``name`` and ``seed``.

        Raises:
            ConfigError: A field is unknown, missing or wrong.
        """
        check_keys(data, ("name", "seed", "flows"), "plan")
        rows = check_list("plan.flows", data.get("flows"), "a list of flows")
        flows = [read_flow(row, number) for number, row in enumerate(rows)]
        # The constructor checks what the types promise.
        return cls(data.get("name", "custom"), data.get("seed", 0), flows)  # type: ignore[arg-type]

    def save(self, path: str | Path) -> None:
        """Write the plan to a .json, .csv or .parquet file.

        Args:
            path: Where to; the suffix decides the format.

        Raises:
            ConfigError: Unknown suffix, or the file cannot be written.
        """
        path = check_output(path, "plan file", SAVED)
        if path.suffix.lower() == ".json":
            write_file(path, "plan file", (json_text(self.to_dict()) + "\n").encode())
        else:
            write_flows(path, self.name, self.seed, self.hosts, self.records)

    @classmethod
    def load(cls, path: str | Path, seed: int = 0) -> Plan:
        """Read a plan from a .json, .csv, .parquet, .cm or .txt file.

        Args:
            path: The file.
            seed: Seed of what the file leaves random, and of the plan where the file names none.

        Raises:
            ConfigError: The file cannot be read, or a row holds what is not allowed.
        """
        return cls.read(Path(path), seed)[0]

    @classmethod
    def read(
        cls, path: Path, seed: int = 0, fastest_bps: int | None = None
    ) -> tuple[Plan, Callable[[int], str]]:
        """Read a plan, and return also what names the row of the file that a flow came from.

        Args:
            path: The file.
            seed: As of `load`.
            fastest_bps: As of `files.read_flows`.

        Raises:
            ConfigError: The file cannot be read, or a row holds what is not allowed.
        """
        if path.suffix.lower() == ".json":
            return cls.from_dict(read_json(path)), lambda row: f"{path.name}, flows[{row}]"
        found = read_flows(path, seed, fastest_bps)
        return cls.from_records(*found), found.where

    def _canonical(self) -> tuple[list[str], Records]:
        """Return the hosts in use, sorted, and the flows that index them."""
        used = np.union1d(self.records["src"], self.records["dst"]).tolist()
        names = sorted(self.hosts[i] for i in used)
        number = {name: i for i, name in enumerate(names)}
        table = np.array([number.get(name, 0) for name in self.hosts], np.uint32)
        records = self.records.copy()
        for field in ("src", "dst"):
            records[field] = table[records[field]]
        return names, records
