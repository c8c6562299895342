"""The emulator's commands for a load-balanced pod; those for traffic are every network's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from dcgym.backends.emulation.emulator.commands import Commands
from dcgym.backends.emulation.emulator.device_agents import AgentPlace, DeviceAgents
from dcgym.backends.emulation.emulator.mininet_path import make_importable
from dcgym.backends.emulation.emulator.server_programs import ServerPlace, ServerPrograms
from dcgym.backends.emulation.emulator.state import EmulatorState
from dcgym.backends.emulation.wire.device_messages import BuildDevicePod, DevicePodBuilt, SetAgent
from dcgym.backends.emulation.wire.layout import VIP_PORT
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
from dcgym.backends.emulation.wire.pod_messages import SetFault, SetListeners
from dcgym.errors import BackendError
from dcgym.native import require
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
        self._agents: DeviceAgents | None = None

    def register(self, commands: Commands) -> None:
        """Add the commands of this part."""
        commands.add(BuildPod, self._build)
        commands.add(BuildDevicePod, self._build_devices)
        commands.add(BeginPod, self._begin)
        commands.add(SetCapacity, self._set_capacity)
        commands.add(ChangeServer, self._change_server)
        commands.add(SetBalancer, self._set_balancer)
        commands.add(SetListeners, self._set_listeners)
        commands.add(SetFault, self._set_fault)
        commands.add(SetAgent, self._set_agent)

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
        self._pod = pod = PodNetwork(topology, scenario, request)
        generator = self._state.begin(pod.network)
        if request.program:
            self._run_programs(ServerProgram.from_dict(request.program), scenario, request)
        else:
            generator.serve(_servers(scenario, pod), request.server_rows)
            data_plane = scenario.data_plane
            generator.set_messages(
                pod.balancer_addresses,
                members=[np.flatnonzero(row).tolist() for row in scenario.pool.members],
                loss=data_plane.message_loss,
                copies=data_plane.message_copies,
                delay_ns=data_plane.message_delay_ns,
            )
        balancers = [node.balancer for node in pod.balancers]
        return PodBuilt(
            targets=tuple((address, VIP_PORT) for own in pod.addresses for address in own),
            regions=tuple(Descriptor(balancer.region_map_fd) for balancer in balancers),
            counters=tuple(Descriptor(balancer.counter_map_fd) for balancer in balancers),
            generator_memory=Descriptor(generator.shm_fd),
            generator_process=Descriptor(os.pidfd_open(generator.pid)),
        )

    def _build_devices(self, request: BuildDevicePod) -> Message:
        make_importable()
        from dcgym.backends.emulation.emulator.pod_network import PodNetwork

        choose_access(HOST_ACCESS[0])
        scenario = Scenario.from_dict(request.scenario)
        topology = Topology.from_dict(request.topology)
        self._pod = pod = PodNetwork(topology, scenario, request, request.devices)
        generator = self._state.begin(pod.network)
        generator.serve(
            [HttpServer.from_dict(station) for station in request.stations], request.server_rows
        )
        if request.agents:
            self._agents = DeviceAgents(
                _agent_places(pod),
                {
                    **request.agents,
                    "balancer": pod.balancer_addresses[0],
                    "balancer_mac": pod.balancer_macs[0],
                    "balancer_port": int(require().MESSAGE_PORT),
                    "vip": pod.addresses[0][0],
                    "port": VIP_PORT,
                },
                request.server_rows,
                request.agent_rows,
            )
        balancer = pod.balancers[0].balancer
        return DevicePodBuilt(
            targets=((pod.addresses[0][0], VIP_PORT),),
            regions=(Descriptor(balancer.region_map_fd),),
            counters=(Descriptor(balancer.counter_map_fd),),
            generator_memory=Descriptor(generator.shm_fd),
            generator_process=Descriptor(os.pidfd_open(generator.pid)),
            device_map=Descriptor(balancer.device_map_fd),
            agents=tuple(map(Descriptor, self._agents.pidfds if self._agents else ())),
        )

    def _run_programs(self, program: ServerProgram, scenario: Scenario, request: BuildPod) -> None:
        """Run a program at each server in the place of the generator's."""
        network = self.pod.network
        places = [
            ServerPlace(name, network.namespace(name), group.workers)
            for name, group in zip(self.pod.servers, scenario.server_groups, strict=True)
        ]
        self._programs = ServerPrograms(program, places, VIP_PORT, request.server_rows)

    def _begin(self, request: BeginPod) -> Message:
        generator = self._state.generator
        generator.stop()
        if self._programs is not None:
            self._programs.begin()
        else:
            for number in range(len(self.pod.servers)):
                generator.change_server(number, "reset")
            generator.set_listeners(())
        generator.load_request_file(request.plan, request.request)
        self.pod.network.forget_path_mtus()
        self.pod.begin()
        if self._agents is not None:
            self._agents.begin()
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

    def _set_listeners(self, request: SetListeners) -> Message:
        self._state.generator.set_listeners(request.frontends)
        return Done()

    def _set_fault(self, request: SetFault) -> Message:
        self._state.generator.set_fault(request.server, request.fault, request.value)
        if request.fault == "false-reports":
            self.pod.set_report_factor(request.server, request.value)
        return Done()

    def _set_agent(self, request: SetAgent) -> Message:
        if self._agents is not None:
            self._agents.silence(request.station, request.is_silent)
        return Done()

    def _set_balancer(self, request: SetBalancer) -> Message:
        self.pod.set_balancer(request.balancer, request.is_up)
        return Done()


def _servers(scenario: Scenario, pod: PodNetwork) -> list[HttpServer]:
    """Return one HTTP server a host; it answers at all of its addresses."""
    return [
        HttpServer(
            name,
            group.resources,
            backlog=scenario.pool.backlog,
            idle_timeout_ns=scenario.pool.idle_timeout_ns,
            port=VIP_PORT,
        )
        for name, group in zip(pod.servers, scenario.server_groups, strict=True)
    ]


def _agent_places(pod: PodNetwork) -> list[AgentPlace]:
    network = pod.network
    return [
        AgentPlace(
            namespace=network.namespace(name),
            interface=network.topology.ports(name)[0].name,
            server=server,
            device=device,
        )
        for (server, device), name in zip(pod.homes, pod.servers, strict=True)
    ]
