"""From a pool of servers with accelerators to hosts and stations of an emulated pod.

A station is a device: workers of its own behind an address of its own, at a host of the pod. The
hosts of a server share a switch, as devices share a server's bus.
"""

from __future__ import annotations

from dataclasses import dataclass

from dcgym.backends.emulation.wire.device_messages import AgentSettings
from dcgym.backends.emulation.wire.layout import VIP_PORT
from dcgym.config import check_int
from dcgym.errors import ConfigError
from dcgym.monitors.balancer.layout import SERVERS
from dcgym.tasks.accelerators.devices import Device
from dcgym.tasks.accelerators.pool import AcceleratorPool
from dcgym.tasks.balancing import DataPlane, Scenario, ServerGroup, ServerPool, Workload
from dcgym.topologies import Topology, pod
from dcgym.traffic.http import Application, HttpServer, Resource, Stage
from dcgym.traffic.sizes import Distribution

__all__ = ["Stations"]

CLIENTS = 4
QUEUE = "4MB"
NO_LIMIT = 1_000_000


@dataclass(frozen=True)
class Stations:
    """The devices of a pool as stations.

    Attributes:
        pool: The pool.
        transport: "udp" for requests of one datagram, as published, or "tcp".
        cpu: "timed" or "burnt" (`HttpServer.cpu`).
    """

    pool: AcceleratorPool
    transport: str
    cpu: str

    def __post_init__(self) -> None:
        """Refuse what only the twin can serve.

        Raises:
            ConfigError: There are too many stations, applications that a device does not serve at
                one speed, or another connection table than the balancer's.
        """
        check_int("scenario.groups, devices", len(self.homes), 1, SERVERS)
        for group in self.pool.groups:
            for device in group.devices:
                self._check_speed(device)
        self.threshold_ns()
        cells = self.pool.connection_table.cells
        if cells:
            raise ConfigError("connection_table.cells", cells, "0 here: cells are a twin's")

    def _check_speed(self, device: Device) -> None:
        ratios = [
            device.time_ns(one.name, one.gflop) / reference
            for one, reference in zip(self.pool.applications, self.reference_ns, strict=True)
        ]
        if max(ratios) > 1.001 * min(ratios):
            allowed = "times of all applications in one ratio to the first processors', here"
            raise ConfigError(f"device {device.kind}.service", dict(device.service_ns), allowed)

    @property
    def homes(self) -> list[tuple[int, int]]:
        """Server, and position in it, of each station."""
        return [
            (server, device)
            for server, group in enumerate(self.pool.servers)
            for device in range(len(group.devices))
        ]

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of stations of each server."""
        return tuple(len(group.devices) for group in self.pool.servers)

    @property
    def devices(self) -> list[Device]:
        """The device of each station."""
        return [device for group in self.pool.servers for device in group.devices]

    @property
    def reference_ns(self) -> list[float]:
        """Mean service time of each application at the first server's processors, of speed 1."""
        first = self.pool.groups[0].devices[0]
        return [first.time_ns(one.name, one.gflop) for one in self.pool.applications]

    def topology(self) -> Topology:
        """Return the network: a switch a server, a host a device."""
        return pod(CLIENTS, 1, list(self.counts), queue=QUEUE)

    def scenario(self) -> Scenario:
        """Return what the emulator needs to know of the data plane, and of the requests."""
        groups = tuple(
            ServerGroup(f"s{server}d{device}", 1, (Resource("cpu"),), 1.0)
            for server, device in self.homes
        )
        applications = tuple(
            Application(one.name, (Stage("cpu", Distribution("constant", round(time_ns))),))
            for one, time_ns in zip(self.pool.applications, self.reference_ns, strict=True)
        )
        return Scenario(
            self.pool.name,
            ServerPool(groups, balancers=1),
            Workload(applications, load=0.5),
            DataPlane(transport=self.transport, probe_interval_ns=0),
        )

    def servers(self) -> list[HttpServer]:
        """Return what serves at each station."""
        return [
            HttpServer(
                f"s{number + 1}",
                (Resource("cpu", device.workers, self._speed(device)),),
                cpu=self.cpu,
                backlog=NO_LIMIT if device.queue_limit is None else device.queue_limit,
                port=VIP_PORT,
            )
            for number, device in enumerate(self.devices)
        ]

    def _speed(self, device: Device) -> float:
        application = self.pool.applications[0]
        return self.reference_ns[0] / device.time_ns(application.name, application.gflop)

    def threshold_ns(self) -> int:
        """Return the one threshold of all applications.

        Raises:
            ConfigError: They have different ones: packets do not say whose they are.
        """
        found = {self.pool.agents.threshold_of(one.name) for one in self.pool.applications}
        if len(found) > 1:
            allowed = "one time for all applications in the emulation"
            raise ConfigError("agents.threshold_ns", self.pool.agents.threshold_ns, allowed)
        return found.pop()

    def agents(self) -> AgentSettings | None:
        """Return what the agents are told; None without any."""
        agents = self.pool.agents
        if agents.kind == "none":
            return None
        return AgentSettings(
            kind=agents.kind,
            period_ns=agents.period_ns,
            window=agents.window,
            threshold_ns=self.threshold_ns(),
            release=float(agents.release),
            second_report_ns=agents.second_report_ns,
            delay_ns=agents.delay_ns,
            loss=float(agents.loss),
        )
