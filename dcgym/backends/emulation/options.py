"""What may be chosen about the emulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dcgym.backends.options import BackendOptions
from dcgym.config import check_in
from dcgym.traffic.generators.host_access import HOST_ACCESS
from dcgym.traffic.generators.tools import GENERATORS, NATIVE
from dcgym.traffic.http.programs import ServerProgram

__all__ = ["CONSISTENCIES", "HOOKS", "SWITCHES", "DeviceOptions", "NetworkOptions", "PoolOptions"]

SWITCHES = ("ebpf", "ovs")
"""Data planes."""

CONSISTENCIES = ("rule", "table", "cookie", "none")
"""What keeps a connection on its server."""

HOOKS = ("tc", "xdp")
"""Where a balancer's program runs."""


@dataclass(frozen=True, kw_only=True)
class NetworkOptions(BackendOptions):
    """Options of an emulated network.

    Attributes:
        switch: What forwards packets: "ebpf", or "ovs", which knows neither unequal weights of
            paths nor events.
        preflight: Measure a few links before the first episode, which takes about a second.
        generator: What sends the flows: "native", "iperf3" or "goben". A plan of applications has
            a generator of its own.
        host_access: What processes of the hosts may do with the machine: "limited", "read-only" or
            "full" (`dcgym.traffic.generators.host_access`).

    Raises:
        ConfigError: A value is not allowed.
    """

    asks_nothing = MappingProxyType({"preflight": (False,), "host_access": HOST_ACCESS[1:-1]})

    switch: str = "ebpf"
    preflight: bool = True
    generator: str = NATIVE
    host_access: str = HOST_ACCESS[0]

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        check_in("switch", self.switch, SWITCHES)
        check_in("preflight", self.preflight, (True, False))
        GENERATORS.find(self.generator)
        check_in("host_access", self.host_access, HOST_ACCESS)


@dataclass(frozen=True, kw_only=True)
class PoolOptions(BackendOptions):
    """Options of an emulated pool.

    Attributes:
        server_program: What runs in each server's place: a name, such as "nginx"; a mapping of
            ``name`` and its arguments; the fields of a `ServerProgram`, or one. None for the
            generator's servers.
        consistency: What keeps a connection on its server: "table", the flow table; "cookie", the
            server's number in TCP timestamps, and the table for what bears none; "rule", "cookie"
            while ``sapp`` or ``wsapp`` is in force, else "table"; "none", the hash alone, for the
            rules ``ecmp`` and ``wcmp``.
        hook: Where the balancers' programs run: "tc", or "xdp" in the driver of their links.

    Raises:
        ConfigError: A value is not allowed.
    """

    server_program: ServerProgram | Mapping[str, object] | str | None = None
    consistency: str = CONSISTENCIES[0]
    hook: str = HOOKS[0]

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        check_in("consistency", self.consistency, CONSISTENCIES)
        check_in("hook", self.hook, HOOKS)


@dataclass(frozen=True, kw_only=True)
class DeviceOptions(BackendOptions):
    """Options of emulated servers with accelerators.

    Attributes:
        transport: Of requests: "udp", as published, or "tcp".
        work: How stations serve: "timed", which costs next to nothing, or "burnt".
        hook: Where the balancer's program runs: "tc", or "xdp" in the driver of its link.
    """

    transport: str = "udp"
    work: str = "timed"
    hook: str = HOOKS[0]
