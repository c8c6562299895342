"""The traffic contract: a flow, and a plan of flows that is the same for every policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dcgym.config import check_in, check_int, check_keys
from dcgym.errors import ConfigError, suggest

if TYPE_CHECKING:
    from dcgym.topologies import Topology

__all__ = ["FIRST_PORT", "TRANSPORTS", "Flow", "Plan"]

TRANSPORTS = ("tcp", "udp")

FIRST_PORT = 5001
"""Destination port of a host's first flow that names none; the next ones count up."""

_LARGEST = 2**60  # the generator refuses more; 36 years in nanoseconds
_LAST_PORT = 65535


@dataclass(frozen=True)
class Flow:
    """One line of a traffic plan.

    A flow ends when its size is delivered or its duration is over, whichever comes first; with
    neither it lasts until the generator is stopped. The duration counts from the planned start.

    Attributes:
        src: Name of the sending host.
        dst: Name of the receiving host.
        transport: "tcp" or "udp".
        start_ns: Start, from the beginning of the episode.
        size_bytes: Application bytes to send; None for no limit.
        duration_ns: Time to send for; None for no limit.
        rate_bps: Application bit/s. UDP sends at this constant rate and needs it; TCP is paced
            by the kernel (SO_MAX_PACING_RATE) so as not to exceed it.
        repetitions: How often the flow runs; 0 means for ever.
        gap_ns: Pause between the end of one run and the start of the next.
        port: Destination port; None lets the plan choose one.
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

    def __post_init__(self) -> None:
        """Check the fields."""
        check_in("flow.transport", self.transport, TRANSPORTS)
        check_int("flow.start_ns", self.start_ns, 0, _LARGEST)
        check_int("flow.repetitions", self.repetitions, 0, _LARGEST)
        check_int("flow.gap_ns", self.gap_ns, 0, _LARGEST)
        for name in ("size_bytes", "duration_ns", "rate_bps"):
            value = getattr(self, name)
            if value is not None:
                check_int(f"flow.{name}", value, 1, _LARGEST)
        if self.port is not None:
            check_int("flow.port", self.port, 1, _LAST_PORT)
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


_FLOW_FIELDS = tuple(field.name for field in fields(Flow))


@dataclass(frozen=True)
class Plan:
    """A list of flows. The same spec, topology and seed always give the same plan.

    Attributes:
        name: What to call the traffic in results.
        seed: The seed the flows were drawn with.
        flows: The flows, in the order of their identifiers.
    """

    name: str
    seed: int
    flows: tuple[Flow, ...]

    def __post_init__(self) -> None:
        """Freeze the flows and check the fields."""
        if not isinstance(self.name, str) or not self.name:
            raise ConfigError("plan.name", self.name, "a non-empty text")
        check_int("plan.seed", self.seed, 0)
        object.__setattr__(self, "flows", tuple(self.flows))
        for flow in self.flows:
            if not isinstance(flow, Flow):
                raise ConfigError("plan.flows", flow, "Flow objects")

    @property
    def endless(self) -> bool:
        """Whether some flow never ends by itself, or there is no flow at all."""
        return not self.flows or any(flow.endless for flow in self.flows)

    def check(self, topology: Topology) -> Plan:
        """Return the plan if each source and destination is a host of the topology.

        Raises:
            ConfigError: A flow names no host of the topology, or two share a UDP or TCP port
                number in a way that exhausts the port range.
        """
        names = [host.name for host in topology.hosts]
        known = set(names)
        for flow in self.flows:
            for field, name in (("flow.src", flow.src), ("flow.dst", flow.dst)):
                if name not in known:
                    hosts = f"a host of {topology.name} ({names[0]} .. {names[-1]})"
                    raise ConfigError(field, name, hosts, suggest(name, names))
        self.ports()
        return self

    def ports(self) -> tuple[int, ...]:
        """Return the destination port of each flow, choosing those left open."""
        taken: dict[str, set[int]] = {}
        for flow in self.flows:
            if flow.port is not None:
                taken.setdefault(flow.dst, set()).add(flow.port)
        following: dict[str, int] = {}
        return tuple(self._port(flow, taken.get(flow.dst, set()), following) for flow in self.flows)

    @staticmethod
    def _port(flow: Flow, taken: set[int], following: dict[str, int]) -> int:
        if flow.port is not None:
            return flow.port
        port = following.get(flow.dst, FIRST_PORT)
        while port in taken:
            port += 1
        if port > _LAST_PORT:
            raise ConfigError("plan.flows", flow.dst, "fewer flows towards one host")
        following[flow.dst] = port + 1
        return port

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data; `from_dict` reads it back."""
        return {
            "name": self.name,
            "seed": self.seed,
            "flows": [asdict(flow) for flow in self.flows],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """Build a plan from what `to_dict` returned."""
        check_keys(data, ("name", "seed", "flows"), "plan")
        rows = data.get("flows")
        if not isinstance(rows, list | tuple):
            raise ConfigError("plan.flows", rows, "a list of flows")
        flows = tuple(cls._flow(row) for row in rows)
        return cls(data.get("name", "custom"), data.get("seed", 0), flows)

    @staticmethod
    def _flow(row: Mapping[str, Any]) -> Flow:
        check_keys(row, _FLOW_FIELDS, "flow")
        for name in ("src", "dst"):
            if not isinstance(row.get(name), str):
                raise ConfigError(f"flow.{name}", row.get(name), "the name of a host")
        return Flow(**row)

    def save(self, path: str | Path) -> None:
        """Write the plan to a .json or .csv file."""
        from dcgym.traffic.files import save_plan

        save_plan(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, seed: int = 0) -> Plan:
        """Read a plan from a .json or .csv file (ours, or Iroko's 11 columns)."""
        from dcgym.traffic.files import load_plan

        return load_plan(Path(path), seed)
