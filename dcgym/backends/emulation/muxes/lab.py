"""A running network whose switches are muxes: move VIPs, remove servers, kill a switch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import TracebackType

from dcgym.backends.emulation.session.session import EmulatorSession
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
)
from dcgym.backends.records import Record
from dcgym.config import check_int, check_keys, check_range
from dcgym.errors import ConfigError
from dcgym.monitors.balancer.layout import SERVERS
from dcgym.topologies import Topology

__all__ = ["MuxLab"]

_MOST_VIPS = 64  # of a software mux (DCGYM_LB_MAX_VIPS)


class MuxLab:
    """An emulated data centre with VIPs on switches and software muxes (Duet, SIGCOMM 2014).

    Every switch holds a VIP's /32, a block of equal-cost entries and tunnels to its servers, within
    budgets that are never exceeded. A VIP that no switch serves follows the prefix of all VIPs to
    the nearest software mux, which is the layer-4 balancer with tunnels. Hash and seed are the same
    everywhere. A software mux takes what its link carries. The switch of a rack may serve its own
    hosts by servers of the rack: a local mapping (Rubik, USENIX ATC 2015).

    Args:
        topology: Roles: client, server, switch, and balancer for a software mux; `duet-10` and
            `rubik-20` are such.
            Links of servers and between switches need an MTU 20 bytes above the clients'.
        vips: Names of the servers of each VIP, 64 VIPs at most.
        budgets: Fields ``host_entries``, ``ecmp_entries``, ``tunnel_entries`` of each switch;
            by default 16384, 4096 and 512.
        entries_per_dip: Equal-cost entries of each server; a VIP has 256 at most. A mapping by name
            weighs servers of unequal speed (WCMP); who is not in it has one.
        convergence_s: From an announcement or withdrawal, or the loss of a neighbour, until other
            switches follow it, as routing protocols take; 38 ms in Duet's testbed.

    Raises:
        ConfigError: A value is not allowed.
        FeatureNotSupported: Not root, or the native parts are missing.
    """

    def __init__(
        self,
        topology: Topology,
        vips: Sequence[Sequence[str]],
        budgets: Mapping[str, int] | None = None,
        entries_per_dip: int | Mapping[str, int] = 4,
        convergence_s: float = 0.038,
    ) -> None:
        convergence_s = check_range("convergence_s", convergence_s, 0.0, 60.0)
        check_int("vips", len(vips), 1, _MOST_VIPS)
        servers = {node.name for node in topology.hosts if node.role == "server"}
        entries = _entries(servers, entries_per_dip)
        for vip, own in enumerate(vips):
            if not own or set(own) - servers or len(set(own)) < len(own):
                raise ConfigError(f"vips[{vip}]", list(own), "names of servers, each once")
            n_entries = sum(entries[name] for name in own)
            check_int(f"entries of vips[{vip}]", n_entries, 1, SERVERS)
        if not any(node.role == "balancer" for node in topology.switches):
            raise ConfigError("topology", topology.name, "one with a node of the role balancer")
        self._session = EmulatorSession()
        own_vips = tuple(tuple(own) for own in vips)
        sizes = dict(budgets or {})
        each = tuple(tuple(entries[name] for name in own) for own in own_vips)
        request = BuildMuxes(topology.to_dict(), own_vips, sizes, each, convergence_s)
        try:
            self.places = self._session.call(request, Places)
        except BaseException:
            self._session.close()
            raise

    def assign(self, moves: Mapping[int, str]) -> Places:
        """Move VIPs in two waves; those that find no room go to the software muxes.

        Args:
            moves: Name of the switch by VIP; nothing for the software muxes.

        Returns:
            Where all VIPs are then.
        """
        for vip in moves:
            self._check_vip(vip)
        self.places = self._session.call(AssignVips(tuple(moves.items())), Places)
        return self.places

    def localise(self, vip: int, racks: Sequence[str]) -> Places:
        """Give a VIP local mappings instead of those that it has.

        A rack's mapping has the VIP's servers of the rack, for what hosts of the rack send. Those
        servers leave the residual mapping, which is for all others; where it would have none left,
        it keeps all. Flows of the rack that had another server, and flows of others that had one of
        these, get a new one. A mapping that finds no room is not made.

        Args:
            vip: Number of the VIP.
            racks: Names of the switches.

        Returns:
            Where all VIPs are then.

        Raises:
            ConfigError: There is no such VIP, or a switch has none of its servers, or has its
                residual mapping.
        """
        self._check_vip(vip)
        self.places = self._session.call(LocaliseVip(vip, tuple(racks)), Places)
        return self.places

    def remove_dip(self, vip: int, server: str) -> None:
        """Take a server from a VIP, wherever that is served.

        Args:
            vip: Number of the VIP.
            server: Name of the server.

        Raises:
            ConfigError: There is no such VIP, or no such server of it, or it is the last one.
        """
        self._check_vip(vip)
        self._session.call(RemoveDip(vip, server), Done)

    def _check_vip(self, vip: int) -> None:
        check_int("vip", vip, 0, len(self.places.names) - 1)

    def fail_switch(self, switch: str) -> Failover:
        """Kill a switch and wait until the software muxes serve its VIPs.

        Args:
            switch: Its name.
        """
        return self._session.call(FailSwitch(switch), Failover)

    def start_flows(self, flows: Sequence[tuple[str, int, str]], interval_s: float) -> None:
        """Begin flows of requests whose answers name the server.

        Args:
            flows: Client, VIP and transport ("tcp" or "udp") of each.
            interval_s: From one request of a flow to its next.
        """
        self._session.call(StartFlows(tuple(flows), interval_s), Done)

    def stop_flows(self) -> list[Record]:
        """End the flows.

        Returns:
            One record a flow: ``client``, ``vip``, ``transport``, requests ``sent`` and
            ``answered``, ``servers`` with the time from which each answered, times of requests
            without an answer ``lost_ns`` (CLOCK_MONOTONIC), and ``error`` of a broken connection.
        """
        return [dict(record) for record in self._session.call(StopFlows(), Records).records]

    def start_streams(self, streams: Sequence[tuple[str, int | str]]) -> None:
        """Open TCP connections that send as much as the network takes, until the lab is closed.

        Args:
            streams: Client, and VIP or name of a server, of each. Those of a second call are more.

        Raises:
            ConfigError: There is no such VIP or server.
            BackendError: A connection could not be opened.
        """
        for _, to in streams:
            if not isinstance(to, str):
                self._check_vip(to)
        self._session.call(StartStreams(tuple(streams)), Done)

    def read_streams(self) -> list[Record]:
        """Tell what has arrived at the servers.

        Returns:
            One record a stream, in the order of the calls: ``client``, ``to``, ``server``,
            ``bytes`` so far, and ``read_ns`` (CLOCK_MONOTONIC) of when they were counted.
        """
        return [dict(record) for record in self._session.call(ReadStreams(), Records).records]

    def close(self) -> None:
        """End the emulator; a second call does nothing."""
        self._session.close()

    def __enter__(self) -> MuxLab:
        """Return the lab."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the emulator."""
        self.close()


def _entries(servers: Collection[str], given: int | Mapping[str, int]) -> dict[str, int]:
    """Return the equal-cost entries of each server."""
    if not isinstance(given, Mapping):
        return dict.fromkeys(servers, check_int("entries_per_dip", given, 1, SERVERS))
    own = check_keys(given, sorted(servers), "entries_per_dip")
    return {
        name: check_int(f"entries_per_dip.{name}", own.get(name, 1), 1, SERVERS) for name in servers
    }
