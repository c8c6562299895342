"""The emulated pod: an edge that spreads virtual addresses over balancers, and their servers.

The fabric routes host numbers; a pod has some beyond its hosts'. The first are those of the virtual
addresses, whose packets the edge spreads over the balancers' ports, and all balancers take their
MACs. The others are the balancers' own: what they send bears that MAC, so that an answer can find
its balancer.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from mininet.node import Switch

from dcgym.backends.emulation.emulator.network import EmulatedNetwork, NodeKind, ipv6_address
from dcgym.backends.emulation.emulator.nodes import LazyShell
from dcgym.backends.emulation.emulator.probing import start_probing
from dcgym.backends.emulation.emulator.run import run
from dcgym.backends.emulation.emulator.switches import dpid, port_ids
from dcgym.backends.emulation.wire.layout import VIP_PORT
from dcgym.backends.emulation.wire.messages import BuildPod
from dcgym.errors import BackendError, CommandError, FeatureNotSupported
from dcgym.native import bpf_object, require
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.topologies import Port, Topology
from dcgym.topologies.groups import switch_salt

if TYPE_CHECKING:
    from dcgym.native._native import Balancer, Fabric, LoadReporter, ProbeSender

__all__ = ["BalancerSwitch", "PodNetwork"]

SEED = 1
"""Of the balancers' flow hash."""

# Nothing tells the end of a flow of UDP: a pod's are one request, and the answer passes by.
UDP_TIMEOUT_NS = 1_000_000_000
# Survivors of a balancer keep the flows that they have.
EDGE_FLOW_ENTRIES = 1 << 18
SERVER_SYSCTLS = {
    # Who owns the virtual address must not answer for it: RFC 826 knows no balancer.
    "/proc/sys/net/ipv4/conf/all/arp_ignore": "1",
    "/proc/sys/net/ipv4/conf/all/arp_announce": "2",
    # Timestamps that are the machine's clock: the server's number goes above it.
    "/proc/sys/net/ipv4/tcp_timestamps": "2",
}
CLIENT_SYSCTLS = {
    # A connection a request: ports come back after the minute of TIME_WAIT, or earlier.
    "/proc/sys/net/ipv4/ip_local_port_range": "1024 65535",
    "/proc/sys/net/ipv4/tcp_tw_reuse": "1",
}


class BalancerSwitch(LazyShell, Switch):
    """A Mininet node whose only port carries the layer-4 balancer's BPF program.

    Args:
        name: Node name.
        fabric: The emulator's `Fabric`, which measures the port.
        topology: The network.
        balancer: The native `Balancer`.

    Attributes:
        sender: Sends its probes, once it knows the servers.
    """

    def __init__(
        self, name: str, *, fabric: Fabric, topology: Topology, balancer: Balancer, **params: object
    ) -> None:
        super().__init__(name, dpid=dpid(topology, name), **params)
        self._fabric, self._topology, self.balancer = fabric, topology, balancer
        self.sender: ProbeSender | None = None

    @property
    def port(self) -> Port:
        """The link to the edge."""
        return self._topology.ports(self.name)[0]

    def start(self, controllers: object) -> None:
        """Measure the port."""
        ifindex = socket.if_nametoindex(self.port.name)
        ids = port_ids(self._topology)
        self._fabric.add_port(
            ifindex,
            self._topology.node(self.name).index,
            ids[self.port.name],
            queue_bytes=self.port.queue_bytes,
            mtu=self.port.mtu_bytes,
        )
        self._fabric.attach(ifindex, forward=False)

    def open(self, hook: str) -> None:
        """Take packets for the first time, once the links are up.

        Args:
            hook: Where the balancer's program runs.

        Raises:
            FeatureNotSupported: The kernel refuses the program at that hook, or it sends nothing.
        """
        try:
            if hook != "tc":
                # XDP carries on no claim on a checksum that the device is to fill in.
                run("ethtool", "-K", self.port.peer_name, "tx", "off")
            self.revive()
        except (BackendError, CommandError) as error:
            what = f"the hook {hook} of balancers ({error})"
            raise FeatureNotSupported(what, "hook='tc' needs Linux 6.6 alone") from error

    def fail(self) -> None:
        """Die: no packet is taken any more, and all flows are forgotten."""
        self.balancer.detach(socket.if_nametoindex(self.port.name))
        self.balancer.clear()

    def revive(self) -> None:
        """Take packets."""
        here, edge = (socket.if_nametoindex(p) for p in (self.port.name, self.port.peer_name))
        self.balancer.attach(here, edge)

    def stop(self, deleteIntfs: bool = True) -> None:
        """Detach the programs."""
        ifindex = socket.if_nametoindex(self.port.name)
        if self.sender is not None:
            self.sender.close()
        self.balancer.detach(ifindex)
        self._fabric.detach(ifindex)
        super().stop(deleteIntfs)


class PodNetwork:
    """A built pod; lives as long as the emulator's process.

    Args:
        topology: Made by `dcgym.topologies.builders.pod`.
        scenario: What its balancers and servers are like.
        request: What asked for it. Its map has the rows that the servers write, for their reports
            to balancers.
        devices: How many hosts of role server each of the balancers' servers has, one a device;
            none where each host is a server.

    Attributes:
        addresses: Addresses of each VIP, one a family.
        balancer_addresses: The balancers' own addresses, for messages of servers.
        balancer_macs: The balancers' own MACs.
        homes: Number of the server, and position in it, of each host of role server.
        network: Links, hosts and fabric.
        servers: Names of the servers.
        balancers: The balancers' nodes.
    """

    def __init__(
        self,
        topology: Topology,
        scenario: Scenario,
        request: BuildPod,
        devices: Sequence[int] = (),
    ) -> None:
        self._clients = [node.name for node in topology.hosts if node.role == "client"]
        self.servers = [node.name for node in topology.hosts if node.role == "server"]
        names = [node.name for node in topology.switches if node.role == "balancer"]
        self._members = scenario.pool.members
        self._has_devices = bool(devices)
        counts = devices or [1] * len(self.servers)
        self.homes = [(server, d) for server, count in enumerate(counts) for d in range(count)]
        self._data_plane, self._request = scenario.data_plane, request
        self._number_addresses(len(topology.hosts) + 1, len(names))
        nodes = {
            name: NodeKind(BalancerSwitch, {"balancer": self._make_balancer(number)})
            for number, name in enumerate(names)
        }
        self.network = EmulatedNetwork(
            topology,
            "ebpf",
            flow_matrix=False,
            flow_entries=EDGE_FLOW_ENTRIES,
            n_spare_numbers=len(self.addresses) + len(names),
            nodes=nodes,
            ipv6="ipv6" in self._data_plane.families,
        )
        self.balancers: list[BalancerSwitch] = [self.network.net.get(name) for name in names]
        self._is_up = [True] * len(names)
        self._configure_hosts()
        # What a server adds to its packets names its number, which a device has not.
        n_reporters = 0 if devices else len(self.servers)
        self._reporters = [self._make_reporter(number) for number in range(n_reporters)]
        self._set_servers()
        self._route_balancers()
        self._spread()
        self._open_balancers()

    def _number_addresses(self, first: int, n_balancers: int) -> None:
        """Give VIPs, then balancers, the host numbers from this one on."""
        in_family = {"ipv4": _address, "ipv6": ipv6_address}
        own = first + len(self._members)
        self._vip_numbers, self._own_numbers = range(first, own), range(own, own + n_balancers)
        self.addresses = [
            [in_family[name](number) for name in self._data_plane.families]
            for number in self._vip_numbers
        ]
        self.balancer_addresses = [_address(number) for number in self._own_numbers]
        self.balancer_macs = [_mac(number) for number in self._own_numbers]

    def _open_balancers(self) -> None:
        """Let balancers take packets, and send what they ask for."""
        topology = self.network.topology
        servers = {
            server: (topology.mac(name), topology.ip(name))
            for (server, device), name in zip(self.homes, self.servers, strict=True)
            if device == 0
        }
        for number, node in enumerate(self.balancers):
            node.open(self._request.hook)
            node.sender = start_probing(
                node.balancer,
                node.port.name,
                self.balancer_macs[number],
                self.balancer_addresses[number],
                servers,
                self._data_plane,
                len(self.balancers),
            )

    def _make_balancer(self, number: int) -> Balancer:
        data_plane = self._data_plane
        balancer: Balancer = require().Balancer(
            str(bpf_object("l4lb")),
            _mac(self._vip_numbers[0]),
            further_macs=len(self.addresses) - 1,
            n_vips=len(self.addresses),
            flow_entries=data_plane.flow_table_buckets * data_plane.flow_table_ways,
            # Where the hash leads all agree, and each draws for itself.
            seed=SEED,
            stream=number + 1,
            consistency=self._request.consistency,
            hook=self._request.hook,
            devices=self._has_devices,
            source_mac=_mac(self._own_numbers[number]),
        )
        over_udp = data_plane.transport == "udp"
        syn_ns = UDP_TIMEOUT_NS if over_udp else data_plane.syn_timeout_ns
        balancer.set_timeouts(syn_ns=syn_ns, udp_ns=UDP_TIMEOUT_NS)
        balancer.set_half_open_limit(data_plane.half_open_limit)
        for vip, own in enumerate(self.addresses):
            for address in own:
                balancer.add_vip(vip, address, VIP_PORT, data_plane.transport)
        return balancer

    def _make_reporter(self, number: int) -> LoadReporter:
        """Return a server's part in balancing, which Charon's rules need."""
        object_path = str(bpf_object("l4lb_server"))
        reporter: LoadReporter = require().LoadReporter(
            object_path, number, self._request.server_rows
        )
        for address in self._addresses_of(number):
            reporter.add_vip(address, VIP_PORT)
        node = self.network.topology.node(self.servers[number])
        interface = self.network.topology.ports(node.name)[0]
        reporter.attach(self.network.ifindex(interface), self.network.namespace_fds[node.index])
        return reporter

    def _addresses_of(self, station: int) -> list[str]:
        """Return the virtual addresses that a host of role server answers."""
        vips = np.flatnonzero(self._members[:, station])
        return [address for vip in vips for address in self.addresses[vip]]

    def _configure_hosts(self) -> None:
        for node in self.network.topology.hosts:
            namespace_fd = self.network.namespace_fds[node.index]
            is_server = node.role == "server"
            for path, value in (SERVER_SYSCTLS if is_server else CLIENT_SYSCTLS).items():
                require().write_sysctl(namespace_fd, path, value)
        for station, name in enumerate(self.servers):
            namespace_fd = self.network.namespace_fds[self.network.topology.node(name).index]
            namespace = f"--net=/proc/{os.getpid()}/fd/{namespace_fd}"
            added = [f"address add {one} dev lo\n" for one in self._addresses_of(station)]
            run("nsenter", namespace, "ip", "-batch", "-", input="".join(added))

    def _set_servers(self) -> None:
        for vip, row in enumerate(self._members):
            macs: dict[int, dict[int, str]] = {}
            for station in np.flatnonzero(row):
                server, device = self.homes[station]
                name = self.servers[station]
                macs.setdefault(server, {})[device] = self.network.topology.mac(name)
            for node in self.balancers:
                node.balancer.set_servers(vip, {server: of[0] for server, of in macs.items()})
                for server, of in macs.items() if self._has_devices else ():
                    accelerators = {device: mac for device, mac in of.items() if device > 0}
                    node.balancer.set_accelerators(vip, server, accelerators)

    def _ports_to(self, numbers: Sequence[int]) -> list[int]:
        """Interface numbers of the edge's ports to balancers."""
        names = {self.balancers[number].name for number in numbers}
        ports = self.network.topology.ports("edge")
        return [self.network.ifindex(port) for port in ports if port.peer in names]

    def _route_balancers(self) -> None:
        """Route the balancers' own numbers: from a rack as to the clients, from the edge there.

        From a rack also the virtual addresses: what its switch answers a server's packet is for
        one.
        """
        network = self.network
        edge = network.topology.node("edge").index
        racks = {
            network.topology.node(group.switch).index: number
            for number, group in enumerate(network.groups)
            if self._clients[0] in group.hosts and group.switch != "edge"
        }
        for switch, upwards in racks.items():
            for number in (*self._vip_numbers, *self._own_numbers):
                network.fabric.set_route(switch, number, upwards)
        for balancer, number in enumerate(self._own_numbers):
            group = network.first_spare_group + 1 + balancer
            network.fabric.set_group(group, 0, self._ports_to([balancer]), [1.0])
            network.fabric.set_route(edge, number, group)

    def _spread(self) -> None:
        """Spread the virtual addresses over the living balancers; over none, packets are lost."""
        fabric, group = self.network.fabric, self.network.first_spare_group
        edge = self.network.topology.node("edge").index
        members = self._ports_to([i for i, is_up in enumerate(self._is_up) if is_up])
        if not members:
            for number in self._vip_numbers:
                fabric.clear_route(edge, number)
            return
        fabric.set_group(group, switch_salt("edge"), members, [1.0] * len(members))
        for number in self._vip_numbers:
            fabric.set_route(edge, number, group)

    def set_balancer(self, number: int, is_up: bool) -> None:
        """Kill a balancer with its flow table, or bring it back with an empty one.

        The edge learns of it at once, as from a routing protocol: it stops before the balancer is
        gone and begins after it is back.
        """
        if self._is_up[number] == is_up:
            return
        self._is_up[number] = is_up
        if is_up:
            self.balancers[number].revive()
            self._spread()
        else:
            self._spread()
            self.balancers[number].fail()

    def begin(self) -> None:
        """Make all balancers as new, while there is no traffic."""
        for number, node in enumerate(self.balancers):
            self.set_balancer(number, True)
            node.balancer.clear()
        for reporter in self._reporters:
            reporter.set_factor(1.0)

    def set_report_factor(self, server: int, factor: float) -> None:
        """Let a server's reports with SYN-ACKs tell so many times its flows.

        Args:
            server: Number of the server.
            factor: 1 for the truth.
        """
        self._reporters[server].set_factor(factor)


def _address(number: int) -> str:
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def _mac(number: int) -> str:
    return f"02:dc:00:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
