"""The emulator's commands for networks: build one, look at it, work in its hosts."""

from __future__ import annotations

import os

from dcgym.backends.emulation.emulator.commands import Commands
from dcgym.backends.emulation.emulator.hosts_file import name_hosts
from dcgym.backends.emulation.emulator.link_delays import LinkDelays
from dcgym.backends.emulation.emulator.mininet_path import make_importable
from dcgym.backends.emulation.emulator.state import EmulatorState
from dcgym.backends.emulation.wire.message import Descriptor, Message
from dcgym.backends.emulation.wire.messages import (
    BuildNetwork,
    DeadPorts,
    Done,
    Drops,
    Execute,
    Flushed,
    FlushLinks,
    LostPairs,
    NetworkBuilt,
    Output,
    PingAllPairs,
    ReadDeadPorts,
    ReadDrops,
    ReadTapDrops,
    SendBurst,
    SetMarking,
    TapDrops,
)
from dcgym.topologies import Topology
from dcgym.traffic.generators.host_access import choose_access

__all__ = ["NetworkCommands"]


class NetworkCommands:
    """Commands of every emulated network.

    Args:
        state: Takes the network that is built.
    """

    def __init__(self, state: EmulatorState) -> None:
        self._state = state

    def register(self, commands: Commands) -> None:
        """Add the commands of this part."""
        commands.add(BuildNetwork, self._build)
        commands.add(SetMarking, self._set_marking)
        commands.add(SendBurst, self._send_burst)
        # A step of the environment waits for no command, which changes nothing of the process: a
        # thread enters the host for its own children alone (setns(2)), and they end with the thread
        # that has started them (PR_SET_PDEATHSIG), which waits for their end.
        commands.add(Execute, self._execute, is_beside=True)
        commands.add(PingAllPairs, self._ping_all_pairs)
        commands.add(ReadDrops, self._read_drops)
        commands.add(ReadDeadPorts, self._read_dead_ports)
        commands.add(FlushLinks, self._flush_links)
        commands.add(ReadTapDrops, self._read_tap_drops)

    def _build(self, request: BuildNetwork) -> Message:
        make_importable()
        from dcgym.backends.emulation.emulator.network import HOST_QUEUE_BYTES, EmulatedNetwork

        choose_access(request.host_access)
        topology = Topology.from_dict(request.topology)
        name_hosts({host.name: topology.ip(host.name) for host in topology.hosts})
        network = EmulatedNetwork(
            topology,
            request.switch,
            request.has_flow_matrix,
            request.flow_entries,
            path_rule=request.path_rule,
            relabelling=request.relabelling,
        )
        generator = self._state.begin(network, request.generator, request.probes)
        fabric, queues = network.fabric, network.queues
        return NetworkBuilt(
            port_ifindexes=tuple(network.port_ifindexes),
            host_ifindexes=tuple(network.host_ifindexes),
            host_queue_bytes=HOST_QUEUE_BYTES,
            n_queues=network.n_queues,
            rx_slots=tuple(network.rx_slots),
            switch_netlink=Descriptor(network.rtnl_fd),
            host_netlinks=tuple(Descriptor(fd) for fd in network.host_rtnl_fds),
            port_counters=Descriptor(fabric.port_map_fd),
            flow_matrix=Descriptor(fabric.flow_map_fd),
            groups=Descriptor(fabric.group_map_fd),
            fabric_control=Descriptor(fabric.control_map_fd),
            queue_program=Descriptor(queues.program_fd),
            queues=Descriptor(queues.map_fd),
            generator_memory=Descriptor(generator.shm_fd),
            generator_process=Descriptor(os.pidfd_open(generator.pid)),
            relay=_relay_descriptors(network.delays),
        )

    def _set_marking(self, request: SetMarking) -> Message:
        self._state.network.set_marking(request.is_on)
        return Done()

    def _send_burst(self, request: SendBurst) -> Message:
        self._state.network.burst(request.sources, request.target, request.datagrams)
        return Done()

    def _execute(self, request: Execute) -> Message:
        return Output(self._state.network.execute(request.host, request.argv, request.timeout_s))

    def _ping_all_pairs(self, _: PingAllPairs) -> Message:
        return LostPairs(tuple(self._state.network.ping_matrix()))

    def _read_drops(self, _: ReadDrops) -> Message:
        return Drops(self._state.network.fabric.drop_counters())

    def _read_dead_ports(self, _: ReadDeadPorts) -> Message:
        events = self._state.network.events
        return DeadPorts(tuple(sorted(events.dead_ports)) if events is not None else ())

    def _flush_links(self, _: FlushLinks) -> Message:
        delays = self._state.network.delays
        return Flushed(delays.relay.flush() if delays is not None else 0)

    def _read_tap_drops(self, _: ReadTapDrops) -> Message:
        delays = self._state.network.delays
        return TapDrops(delays.dropped() if delays is not None else 0)


def _relay_descriptors(delays: LinkDelays | None) -> tuple[Descriptor, ...]:
    if delays is None:
        return ()
    process = os.pidfd_open(delays.relay.pid)
    return Descriptor(delays.relay.memory_fd), Descriptor(process)
