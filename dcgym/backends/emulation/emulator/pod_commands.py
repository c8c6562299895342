"""The emulator's commands for a load-balanced pod; those for traffic are every network's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dcgym.backends.emulation.emulator.commands import Commands
from dcgym.backends.emulation.emulator.mininet_path import make_importable
from dcgym.backends.emulation.emulator.server_programs import ServerPlace, ServerPrograms
from dcgym.backends.emulation.emulator.state import EmulatorState
from dcgym.backends.emulation.wire.message import Descriptor, Message
from dcgym.backends.emulation.wire.messages import (
    BeginPod,
    BuildPod,
    ChangeServer,
    Done,
    PodBuilt,
    SetBalancer,
    SetCapacity,
)
from dcgym.errors import BackendError
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.topologies import Topology
from dcgym.traffic.generators.host_access import HOST_ACCESS, choose_access
from dcgym.traffic.http import HttpServer
from dcgym.traffic.http.programs import ServerProgram

if TYPE_CHECKING:
    # Mininet can be imported only once it was looked for.
    from dcgym.backends.emulation.emulator.pod_network import PodNetwork

__all__ = ["PodCommands"]


class PodCommands:
    """Commands of an emulated pod.

    Args:
        state: Takes the network of the pod that is built.
    """

    def __init__(self, state: EmulatorState) -> None:
        self._state = state
        self._pod: PodNetwork | None = None
        self._programs: ServerPrograms | None = None

    def register(self, commands: Commands) -> None:
        """Add the commands of this part."""
        commands.add(BuildPod, self._build)
        commands.add(BeginPod, self._begin)
        commands.add(SetCapacity, self._set_capacity)
        commands.add(ChangeServer, self._change_server)
        commands.add(SetBalancer, self._set_balancer)

    @property
    def pod(self) -> PodNetwork:
        """The built pod.

        Raises:
            BackendError: It is not built.
        """
        if self._pod is None:
            raise BackendError("the pod is not built")
        return self._pod

    def _build(self, request: BuildPod) -> Message:
        make_importable()
        from dcgym.backends.emulation.emulator.pod_network import PodNetwork

        choose_access(HOST_ACCESS[0])
        scenario = Scenario.from_dict(request.scenario)
        topology = Topology.from_dict(request.topology)
        self._pod = pod = PodNetwork(topology, scenario, request.server_rows)
        generator = self._state.begin(pod.network)
        if request.program:
            self._run_programs(ServerProgram.from_dict(request.program), scenario, request)
        else:
            generator.serve(_servers(scenario, pod), request.server_rows)
        balancers = [node.balancer for node in pod.balancers]
        return PodBuilt(
            targets=tuple((address, port) for port in pod.ports for address in pod.addresses),
            regions=tuple(Descriptor(balancer.region_map_fd) for balancer in balancers),
            counters=tuple(Descriptor(balancer.counter_map_fd) for balancer in balancers),
            generator_memory=Descriptor(generator.shm_fd),
            generator_process=Descriptor(os.pidfd_open(generator.pid)),
        )

    def _run_programs(self, program: ServerProgram, scenario: Scenario, request: BuildPod) -> None:
        """Run a program at each server in the place of the generator's."""
        network, pid = self.pod.network, os.getpid()
        places = [
            ServerPlace(name, f"/proc/{pid}/fd/{network.namespace_fd(name)}", group.workers)
            for name, group in zip(self.pod.servers, scenario.server_groups, strict=True)
        ]
        self._programs = ServerPrograms(program, places, self.pod.ports[0], request.server_rows)

    def _begin(self, request: BeginPod) -> Message:
        generator = self._state.generator
        generator.stop()
        if self._programs is not None:
            self._programs.begin()
        else:
            for number in range(len(self.pod.servers)):
                generator.change_server(number, "reset")
        generator.load_request_file(request.plan, request.request)
        self.pod.network.forget_path_mtus()
        self.pod.begin()
        return Done()

    def _set_capacity(self, request: SetCapacity) -> Message:
        self._state.generator.set_server(
            request.server, speed=request.speed, colocated=request.colocated
        )
        return Done()

    def _change_server(self, request: ChangeServer) -> Message:
        if self._programs is not None:
            self._programs.change(request.server, request.change)
        else:
            self._state.generator.change_server(request.server, request.change)
        return Done()

    def _set_balancer(self, request: SetBalancer) -> Message:
        self.pod.set_balancer(request.balancer, request.is_up)
        return Done()


def _servers(scenario: Scenario, pod: PodNetwork) -> list[HttpServer]:
    """Return one HTTP server a host; it answers at the port of the first VIP."""
    return [
        HttpServer(
            name,
            workers=group.resource("cpu").workers,
            scheduling=group.resource("cpu").discipline,
            slots=group.resource("cpu").slots_in_service,
            cpu_speed=group.resource("cpu").speed,
            io_speed=group.resource("io").speed,
            backlog=scenario.pool.backlog,
            idle_timeout_ns=scenario.pool.idle_timeout_ns,
            port=pod.ports[0],
        )
        for name, group in zip(pod.servers, scenario.server_groups, strict=True)
    ]
