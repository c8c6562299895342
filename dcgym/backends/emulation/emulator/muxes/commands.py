"""The emulator's commands for networks whose switches are muxes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dcgym.backends.emulation.emulator.commands import Commands
from dcgym.backends.emulation.emulator.mininet_path import make_importable
from dcgym.backends.emulation.emulator.muxes.controller import SOFTWARE
from dcgym.backends.emulation.emulator.muxes.flows import FlowCheck, FlowServers
from dcgym.backends.emulation.emulator.muxes.streams import Streams, StreamServers
from dcgym.backends.emulation.emulator.muxes.tables import Budgets
from dcgym.backends.emulation.emulator.state import EmulatorState
from dcgym.backends.emulation.wire.message import Message
from dcgym.backends.emulation.wire.messages import Done, Records
from dcgym.backends.emulation.wire.mux_messages import (
    AssignVips,
    BuildMuxes,
    Failover,
    FailSwitch,
    LocaliseVip,
    Places,
    ReadStreams,
    RemoveDip,
    StartFlows,
    StartStreams,
    StopFlows,
    vip_address,
)
from dcgym.errors import BackendError, ConfigError
from dcgym.topologies import Topology

if TYPE_CHECKING:
    # Mininet can be imported only once it was looked for.
    from dcgym.backends.emulation.emulator.muxes.network import MuxNetwork

__all__ = ["MuxCommands"]


class MuxCommands:
    """Commands of a network with VIPs.

    Args:
        state: Takes the network that is built.
    """

    def __init__(self, state: EmulatorState) -> None:
        self._state = state
        self._muxes: MuxNetwork | None = None
        self._flows: FlowCheck | None = None
        self._streams: Streams | None = None

    def register(self, commands: Commands) -> None:
        """Add the commands of this part."""
        commands.add(BuildMuxes, self._build)
        commands.add(AssignVips, self._assign)
        commands.add(LocaliseVip, self._localise)
        commands.add(RemoveDip, self._remove_dip)
        commands.add(FailSwitch, self._fail_switch)
        commands.add(StartFlows, self._start_flows)
        commands.add(StopFlows, self._stop_flows)
        commands.add(StartStreams, self._start_streams)
        commands.add(ReadStreams, self._read_streams)

    @property
    def muxes(self) -> MuxNetwork:
        """The built network.

        Raises:
            BackendError: It is not built.
        """
        if self._muxes is None:
            raise BackendError("the network with VIPs is not built")
        return self._muxes

    @property
    def _topology(self) -> Topology:
        return self.muxes.network.topology

    def _build(self, request: BuildMuxes) -> Message:
        make_importable()
        from dcgym.backends.emulation.emulator.muxes.network import (
            PORT,
            STREAM_PORT,
            MuxNetwork,
        )

        topology = Topology.from_dict(request.topology)
        self._muxes = MuxNetwork(
            topology,
            request.vips,
            Budgets(**request.budgets),  # type: ignore[arg-type]  # Budgets checks them
            request.entries,
            request.convergence_s,
        )
        self._state.begin(self._muxes.network)
        places = []
        for node in topology.hosts:
            own = [vip for vip, servers in enumerate(request.vips) if node.name in servers]
            fd = self._muxes.network.namespace_fds[node.index]
            places.append((node.index + 1, fd, [vip_address(vip) for vip in own]))
        FlowServers(places, PORT)
        servers = [node for node in topology.hosts if node.role == "server"]
        fds = self._muxes.network.namespace_fds
        self._streams = Streams(
            StreamServers([(node.name, fds[node.index]) for node in servers], STREAM_PORT),
            STREAM_PORT,
        )
        return self._places()

    def _places(self) -> Places:
        controller = self.muxes.controller
        names = [node.name for node in self._topology.switches]
        used = {
            names[switch]: [tables.ecmp_used, tables.tunnels_used]
            for switch, tables in controller.tables.items()
        }
        return Places(
            tuple("" if place == SOFTWARE else names[place] for place in controller.places),
            tuple(tuple(names[switch] for switch in own) for own in controller.local),
            used,
        )

    def _switch(self, name: str) -> int:
        names = [node.name for node in self._topology.switches if node.role == "switch"]
        if name not in names:
            raise ConfigError("switch", name, f"one of {', '.join(names)}")
        return self._topology.node(name).index

    def _assign(self, request: AssignVips) -> Message:
        moves = {vip: self._switch(name) if name else SOFTWARE for vip, name in request.moves}
        controller = self.muxes.controller
        for vip, name in request.moves:
            if moves[vip] in controller.local[vip]:
                raise ConfigError("switch", name, f"one without a local mapping of VIP {vip}")
        controller.assign(moves)
        return self._places()

    def _localise(self, request: LocaliseVip) -> Message:
        controller, vip = self.muxes.controller, request.vip
        if len(set(request.racks)) < len(request.racks):
            raise ConfigError("racks", list(request.racks), "each switch once")
        racks = {}
        for name in request.racks:
            switch, peers = self._switch(name), {p.peer for p in self._topology.ports(name)}
            numbers = {n.index + 1 for n in self._topology.hosts if n.name in peers}
            racks[switch] = sorted(numbers & controller.dips(vip))
            if not racks[switch] or controller.places[vip] == switch:
                allowed = f"switches beside servers of VIP {vip}, without its residual mapping"
                raise ConfigError("racks", name, allowed)
        controller.localise(vip, racks)
        return self._places()

    def _remove_dip(self, request: RemoveDip) -> Message:
        controller = self.muxes.controller
        numbers = {node.name: node.index + 1 for node in self._topology.hosts}
        dips = controller.dips(request.vip)
        names = [name for name, number in numbers.items() if number in dips]
        if request.server not in names or len(names) == 1:
            allowed = f"one of {', '.join(names)}" if len(names) > 1 else "none: it is the last one"
            raise ConfigError("server", request.server, allowed)
        controller.remove_dip(request.vip, numbers[request.server])
        return Done()

    def _fail_switch(self, request: FailSwitch) -> Message:
        self._switch(request.switch)
        return Failover(**self.muxes.fail_switch(request.switch))

    def _start_flows(self, request: StartFlows) -> Message:
        from dcgym.backends.emulation.emulator.muxes.network import PORT

        if self._flows is not None:
            raise BackendError("flows are running already")
        fds = self.muxes.network.namespace_fds
        flows = [
            (client, fds[self._topology.node(client).index], vip, vip_address(vip), transport)
            for client, vip, transport in request.flows
        ]
        self._flows = FlowCheck(flows, PORT, request.interval_s)
        return Done()

    def _start_streams(self, request: StartStreams) -> Message:
        assert self._streams is not None  # the lab builds first
        fds = self.muxes.network.namespace_fds
        hosts = {node.name: node for node in self._topology.hosts}
        for client, to in request.streams:
            if client not in hosts:
                raise ConfigError("client", client, f"one of {', '.join(hosts)}")
            if isinstance(to, str) and (to not in hosts or hosts[to].role != "server"):
                raise ConfigError("server", to, "the name of a server")
        for client, to in request.streams:
            address = self._topology.ip(to) if isinstance(to, str) else vip_address(to)
            self._streams.open(client, fds[hosts[client].index], to, address)
        return Done()

    def _read_streams(self, _: ReadStreams) -> Message:
        assert self._streams is not None
        return Records(tuple(self._streams.read()))

    def _stop_flows(self, _: StopFlows) -> Message:
        if self._flows is None:
            raise BackendError("no flows are running")
        flows, self._flows = self._flows, None
        names = {node.index + 1: node.name for node in self._topology.hosts}
        return Records(tuple(flows.stop(names)))
