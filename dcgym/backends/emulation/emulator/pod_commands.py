"""The emulator's commands for a load-balanced pod; those for traffic are every network's."""

from __future__ import annotations

import os
from typing import Any

from dcgym.backends.emulation.emulator.mininet_path import make_importable
from dcgym.tasks.balancing import Scenario
from dcgym.topologies import Topology
from dcgym.traffic.generators.generator import Generator
from dcgym.traffic.http import HttpServer

__all__ = ["PodCommands"]

Answer = tuple[dict[str, Any], list[int]]


class PodCommands:
    """Commands of an emulated pod, each a method named ``do_<command>``."""

    _network: Any = None
    _generator: Generator | None = None

    @property
    def generator(self) -> Generator:
        """The traffic generator of the built network."""
        raise NotImplementedError

    def do_build_pod(
        self, fds: list[int], topology: dict[str, Any], scenario: dict[str, Any]
    ) -> Answer:
        """Build a pod and open its servers.

        Their states go to the map that comes along. Answers with the virtual address and
        the descriptors of: the generator's memory and process; the regions of each balancer; the
        counters of each.
        """
        make_importable()
        from dcgym.backends.emulation.emulator.pod_network import PORT, PodNetwork

        described = Scenario.from_dict(scenario)
        network = PodNetwork(Topology.from_dict(topology), described, fds[0])
        self._network, self._generator = network, _start_generator(network)
        servers = [
            HttpServer(
                name,
                workers=group.resource("cpu").workers,
                scheduling=group.resource("cpu").discipline,
                slots=group.resource("cpu").slots_in_service,
                cpu_speed=group.resource("cpu").speed,
                io_speed=group.resource("io").speed,
                backlog=described.pool.backlog,
                port=PORT,
            )
            for name, group in zip(network.servers, described.server_groups, strict=True)
        ]
        self._generator.serve(servers, fds[0])
        balancers = [node.balancer for node in network.balancers]
        answer = {"address": network.address, "port": PORT}
        return answer, [
            self._generator.shm_fd,
            os.pidfd_open(self._generator.pid),
            *(balancer.region_map_fd for balancer in balancers),
            *(balancer.counter_map_fd for balancer in balancers),
        ]

    def do_begin_pod(self, fds: list[int], request: str) -> Answer:
        """End the traffic, make servers and balancers as new, and load a plan of requests.

        The plan comes as the descriptor of its memory file.
        """
        self.generator.stop()
        for number in range(len(self._network.servers)):
            self.generator.change_server(number, "reset")
        self.generator.load_request_file(fds[0], request)
        self._network.begin()
        return {}, []

    def do_set_capacity(self, server: int, speed: float, colocated: float) -> Answer:
        """Set a server's speed, of its first one, and how many processes share its processors."""
        self.generator.set_server(server, speed=speed, colocated=colocated)
        return {}, []

    def do_change_server(self, server: int, change: str) -> Answer:
        """Kill, drain or restart a server."""
        self.generator.change_server(server, change)
        return {}, []

    def do_set_balancer(self, balancer: int, is_up: bool) -> Answer:
        """Kill a balancer with its flow table, or bring it back with an empty one."""
        self._network.set_balancer(balancer, is_up)
        return {}, []


def _start_generator(network: Any) -> Generator:
    names = [host.name for host in network.topology.hosts]
    namespaces = [f"/proc/{os.getpid()}/fd/{fd}" for fd in network.namespace_fds]
    addresses = [network.topology.ip(name) for name in names]
    return Generator(list(zip(range(len(names)), namespaces, addresses, strict=True)), names)
