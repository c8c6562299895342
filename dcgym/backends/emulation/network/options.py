"""What can be chosen about an emulated network, besides its topology."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dcgym.config import check_in, read_numbers
from dcgym.errors import ConfigError
from dcgym.tasks.network.settings import SWITCHES
from dcgym.tasks.paths.rules import PathChoice, read_path_rule
from dcgym.traffic.generators.host_access import HOST_ACCESS
from dcgym.traffic.generators.tools import GENERATORS
from dcgym.traffic.plans.applications import APPS

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
        path_rule: How flows, flowlets or packets are spread over equal-cost ports; Open vSwitch has
            ``ecmp`` alone.
        flowlet_gap: With the rule ``letflow``, idle time after which a flow may move; 0: 500 us.
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
    path_rule: str = "ecmp"
    flow_table: int = 0
    flowlet_gap: str | int | float = 0
    preflight: bool = True
    generator: str = "native"
    host_access: str = HOST_ACCESS[0]

    def __post_init__(self) -> None:
        """Check the values."""
        read_numbers(self)
        check_in("switch", self.switch, SWITCHES)
        check_in("flow_matrix", self.flow_matrix, (True, False))
        if self.paths.name != "ecmp" and self.switch == "ovs":
            allowed = "ecmp with the switch ovs of the emulation"
            raise ConfigError("path_rule", self.path_rule, allowed)
        check_in("preflight", self.preflight, (True, False))
        check_in("generator", self.generator, (*GENERATORS, APPS))
        check_in("host_access", self.host_access, HOST_ACCESS)
        if self.probes and self.generator != "native":
            allowed = f"none with the generator {self.generator}"
            raise ConfigError("probes", [list(pair) for pair in self.probes], allowed)

    @property
    def paths(self) -> PathChoice:
        """The path rule with its numbers."""
        return read_path_rule(self.path_rule, self.flow_table, self.flowlet_gap, MOST_FLOWS)

    @property
    def flow_generator(self) -> str:
        """What sends flows where the plan is one of flows."""
        return "native" if self.generator == APPS else self.generator
