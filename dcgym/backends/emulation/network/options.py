"""What can be chosen about an emulated network, besides its topology."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dcgym.config import check_in, check_int
from dcgym.errors import ConfigError
from dcgym.tasks.network.settings import SWITCHES
from dcgym.traffic.generators.host_access import HOST_ACCESS
from dcgym.traffic.generators.tools import GENERATORS
from dcgym.traffic.plans.applications import APPS
from dcgym.units import parse_duration

__all__ = ["NetworkOptions"]

# About a gigabyte of kernel memory.
MOST_FLOWS = 1 << 23


@dataclass(frozen=True)
class NetworkOptions:
    """Options of an emulated network.

    Attributes:
        switch: ``ebpf`` or ``ovs``.
        flow_matrix: Count the bytes of every host at every switch port.
        probes: Ordered pairs of hosts whose round trips every snapshot holds.
        flow_table: Flows that the switches remember, all together, the oldest forgotten first: a
            flow keeps its path when weights change. 0: every packet follows the weights.
        flowlet_gap: Idle time after which a remembered flow may move; 0: never.
        preflight: Measure a few links before the first episode, which takes about a second.
        generator: What sends the flows: ``native``, ``iperf3`` or ``goben``. A plan of
            applications has a generator of its own, ``apps``, and the network is built anew where
            plans of both kinds follow each other.
        host_access: What processes of the hosts may do with the machine: ``limited``,
            ``read-only`` or ``full`` (see `dcgym.traffic.generators.host_access`).

    Raises:
        ConfigError: A value is not allowed.
    """

    switch: str = "ebpf"
    flow_matrix: bool = False
    probes: Sequence[tuple[str, str]] = ()
    flow_table: int = 0
    flowlet_gap: str | int | float = 0
    preflight: bool = True
    generator: str = "native"
    host_access: str = HOST_ACCESS[0]

    def __post_init__(self) -> None:
        """Check the values."""
        check_in("switch", self.switch, SWITCHES)
        check_in("flow_matrix", self.flow_matrix, (True, False))
        check_int("flow_table", self.flow_table, 0, MOST_FLOWS)
        parse_duration(self.flowlet_gap, "flowlet_gap")
        check_in("preflight", self.preflight, (True, False))
        check_in("generator", self.generator, (*GENERATORS, APPS))
        check_in("host_access", self.host_access, HOST_ACCESS)
        if self.probes and self.generator != "native":
            allowed = f"none with the generator {self.generator}"
            raise ConfigError("probes", [list(pair) for pair in self.probes], allowed)

    @property
    def flowlet_gap_ns(self) -> int:
        """Idle time after which a remembered flow may move; 0 for never."""
        return parse_duration(self.flowlet_gap, "flowlet_gap")

    @property
    def flow_generator(self) -> str:
        """What sends flows where the plan is one of flows."""
        return "native" if self.generator == APPS else self.generator
