"""The emulated network itself: Mininet nodes, fabric, queues, neighbours. Runs in the emulator."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING

from mininet.net import Mininet
from mininet.node import Switch

from dcgym.backends.emulation.emulator.bursts import send_burst
from dcgym.backends.emulation.emulator.events import EpisodeEvents
from dcgym.backends.emulation.emulator.link_delays import make_delays, wire_sysctls
from dcgym.backends.emulation.emulator.nodes import (
    Description,
    make_mininet,
    write_description,
)
from dcgym.backends.emulation.emulator.ovs import start_ovs
from dcgym.backends.emulation.emulator.run import run
from dcgym.backends.emulation.emulator.switches import EbpfSwitch, OVSSwitch
from dcgym.backends.emulation.wire.layout import count_spare_groups
from dcgym.errors import CommandError
from dcgym.native import bpf_object, require
from dcgym.topologies import Link, NextHopGroup, Port, Topology, next_hop_groups
from dcgym.topologies.round_trips import frame_bytes, full_frame_bytes
from dcgym.topologies.validation import ETHERNET_BYTES
from dcgym.traffic.generators.host_access import chosen_access
from dcgym.traffic.generators.host_spaces import HostSpaces, children_in, host_words

if TYPE_CHECKING:
    from dcgym.native._native import Fabric, HmuxSize, QueueReader

__all__ = ["HOST_SYSCTLS", "EmulatedNetwork", "NodeKind", "ipv6_address"]

HOST_SYSCTLS = {
    # One episode must not teach the next: RTT, ssthresh and reordering are cached per destination.
    "/proc/sys/net/ipv4/tcp_no_metrics_save": "1",
    "/proc/sys/net/ipv4/tcp_no_ssthresh_metrics_save": "1",
    # Since Linux 5.18 a short RTT makes TCP build 64 KB segments at any rate, and small-queue
    # control lets two of them wait in the host: 200 ms at 5 Mbit/s. 0 sizes them by rate alone.
    "/proc/sys/net/ipv4/tcp_tso_rtt_log": "0",
    "/proc/sys/net/ipv6/conf/all/disable_ipv6": "1",
    "/proc/sys/net/ipv6/conf/default/disable_ipv6": "1",
}
# Hosts keep what ICMP told them of a way's MTU for ten minutes.
FLUSH_SYSCTLS = ("/proc/sys/net/ipv4/route/flush", "/proc/sys/net/ipv6/route/flush")
# Addresses and routes are given; nothing is asked or announced that no host would answer.
IPV6_SYSCTLS = {
    "/proc/sys/net/ipv6/conf/all/disable_ipv6": "0",
    "/proc/sys/net/ipv6/conf/default/disable_ipv6": "0",
    "/proc/sys/net/ipv6/conf/default/accept_ra": "0",
    "/proc/sys/net/ipv6/conf/default/accept_dad": "0",
    "/proc/sys/net/ipv6/conf/default/router_solicitations": "0",
    "/proc/sys/net/ipv6/conf/default/addr_gen_mode": "1",
}
PING_DEADLINE_MS = 3000
HOST_QUEUE_BYTES = 4_000_000
# RED counts idle time in packets of this size.
RED_PACKET_BYTES = 1500


# Interface numbers are ours to choose, so that none has to be asked for. Those below the ports' are
# for the loopback and for Open vSwitch.
HOST_IFINDEX = 2
FIRST_PORT_IFINDEX = 16
# The host numbers' one exception (DCGYM_GATEWAY_NUMBER): whoever it is for stands in the IP header.
GATEWAY_IP = "10.255.255.254"
GATEWAY_MAC = "02:dc:00:ff:ff:fe"
GATEWAY_IPV6 = "fe80::dc"


@dataclass(frozen=True)
class NodeKind:
    """How to make a Mininet switch.

    Attributes:
        cls: Its class; the constructor takes ``fabric`` and ``topology`` besides the arguments.
        arguments: What else the constructor takes.
    """

    cls: type[Switch]
    arguments: Mapping[str, object] = field(default_factory=dict)


class EmulatedNetwork:
    """A built network; lives as long as the emulator's process.

    Args:
        topology: What to build.
        switch: ``ebpf`` or ``ovs``.
        flow_matrix: Count bytes by switch port and source host.
        flow_entries: Size of the table that keeps flows on their path; 0 for none.
        n_spare_numbers: Host numbers beyond the hosts', whose routes the caller sets.
        n_spare_groups: Next-hop groups for them, from `first_spare_group` on; one each by default.
        hmux: Tables of switches that are muxes; without, they only forward.
        nodes: Switches that are not of the usual kind, by name.
        path_rule: How switches choose among equal-cost ports.
        relabelling: How senders of dctcp avoid congested paths, "plb" or "flowbender".
        ipv6: Whether hosts have IPv6 addresses too, fd00:dc:: and their number.
    """

    def __init__(
        self,
        topology: Topology,
        switch: str,
        flow_matrix: bool,
        flow_entries: int = 0,
        n_spare_numbers: int = 0,
        nodes: Mapping[str, NodeKind] | None = None,
        ipv6: bool = False,
        path_rule: str = "ecmp",
        relabelling: str = "",
        n_spare_groups: int | None = None,
        hmux: HmuxSize | None = None,
    ) -> None:
        self._native = require()
        self.relabelling = relabelling
        self.topology = topology
        self._switch = switch
        self._nodes = dict(nodes or {})
        self._has_ipv6 = ipv6
        self.groups = next_hop_groups(topology)
        for path, value in HOST_SYSCTLS.items():
            self._native.write_sysctl(-1, path, value)
        if switch == "ovs":
            start_ovs()
        self.port_ifindexes = [FIRST_PORT_IFINDEX + i for i in range(len(topology.switch_ports))]
        self.host_ifindexes = [HOST_IFINDEX + port.number for port in topology.host_ports]
        spares = n_spare_numbers, n_spare_numbers if n_spare_groups is None else n_spare_groups
        self._load_fabric(flow_matrix, flow_entries, spares, path_rule, hmux)
        self._make_namespaces()
        self._make_links()
        if switch == "ebpf":
            # While the ports are down: a queue set up later costs an RCU grace period each.
            self._shape_ports()
        self._read_queues()
        self.delays = make_delays(topology, lambda port: self._end(port)[:2])
        self.net = self._build_mininet()
        if switch == "ovs":
            # Not before: Open vSwitch removes the queues of the ports that it takes.
            self._shape_ports()
        self._set_up()
        self.events: EpisodeEvents | None = None
        if switch == "ebpf":
            parts = self.fabric, self.port_ifindexes, self.delays
            self.events = EpisodeEvents(topology, *parts)

    def _load_fabric(
        self,
        flow_matrix: bool,
        flow_entries: int,
        spares: tuple[int, int],
        path_rule: str,
        hmux: HmuxSize | None,
    ) -> None:
        topology = self.topology
        self.first_spare_group = len(self.groups) + count_spare_groups(topology)
        spare_numbers, spare_groups = spares
        self.fabric: Fabric = self._native.Fabric(
            str(bpf_object("fabric")),
            n_switches=len(topology.switches),
            n_hosts=len(topology.hosts) + spare_numbers,
            n_ports=len(topology.switch_ports),
            n_groups=self.first_spare_group + spare_groups,
            n_ifindex=FIRST_PORT_IFINDEX + len(topology.switch_ports),
            flow_matrix=flow_matrix,
            flow_entries=flow_entries,
            least_mtu=min(port.mtu_bytes for port in topology.switch_ports),
            path_rule=path_rule,
            labels=bool(self.relabelling),
            **({} if hmux is None else {"hmux": hmux}),
        )

    def _make_namespaces(self) -> None:
        sysctls = HOST_SYSCTLS | wire_sysctls(self.topology)
        sysctls |= IPV6_SYSCTLS if self._has_ipv6 else {}
        n_hosts = len(self.topology.hosts)
        self.namespace_fds = self._native.make_namespaces(n_hosts, [*sysctls.items()])
        files = [f"/proc/{os.getpid()}/fd/{fd}" for fd in self.namespace_fds]
        self.spaces = HostSpaces(files)
        self.rtnl_fd = self._native.open_rtnl()
        self.host_rtnl_fds = self._native.open_rtnls(self.namespace_fds)

    def ifindex(self, port: Port) -> int:
        """Return the interface number of an interface, in the namespace of its node."""
        return self._end(port)[1]

    def _end(self, port: Port) -> tuple[int, int, str, str]:
        """Namespace, interface number, name and MAC of one end of a link."""
        node = self.topology.node(port.node)
        if not node.is_endpoint:
            index = self._port_index[port.name]
            return (-1, self.port_ifindexes[index], port.name, _mac("02:dc:01", index))
        mac = self.topology.mac(node.name) if port.number == 0 else _mac("02:dc:02", node.index)
        return (self.namespace_fds[node.index], HOST_IFINDEX + port.number, port.name, mac)

    def _make_links(self) -> None:
        self._cables = _cables(self.topology)
        self._port_index = {p.name: i for i, p in enumerate(self.topology.switch_ports)}
        ends = [
            tuple((*self._end(port), port.rate_bps, port.mtu_bytes) for port in pair)
            for pair in self._cables
        ]
        self._native.make_links(self.rtnl_fd, ends)

    def _read_queues(self) -> None:
        """Show the reader every interface: switch ports, hosts, then hosts' further interfaces."""
        ports = [*self.topology.switch_ports, *self.topology.host_ports]
        for host in self.topology.hosts:
            ports += self.topology.ports(host.name)[1:]
        slots = {port.name: slot for slot, port in enumerate(ports)}
        interfaces = [self._end(port)[:2] for port in ports]
        self.queues: QueueReader = self._native.QueueReader(str(bpf_object("queues")), interfaces)
        self.n_queues = len(ports)
        self.rx_slots = [slots[port.peer_name] for port in self.topology.switch_ports]

    def _build_mininet(self) -> Mininet:
        description = self._describe()
        net = make_mininet(description, self._switch_params())
        if self._switch == "ovs":
            # Checksums are left to a device that does not exist; user space would send them unset.
            for port in self.topology.host_ports:
                self.execute(port.node, ["ethtool", "-K", port.name, "tx", "off"], 10.0)
        net.start()
        # For `dcgym shell`; /run is the emulator's own.
        write_description(description)
        return net

    def _describe(self) -> Description:
        names = [host.name for host in self.topology.hosts]
        addresses = [f"{self.topology.ip(name)}/32" for name in names]
        return Description(
            hosts=list(zip(names, self.spaces.networks, addresses, strict=True)),
            switches=[switch.name for switch in self.topology.switches],
            links=[
                (a.node, b.node, a.number, b.number, self._end(a)[3], self._end(b)[3])
                for a, b in self._cables
            ],
            host_access=chosen_access(),
        )

    def _switch_params(self) -> dict[str, dict[str, object]]:
        """Return class and arguments of each switch."""
        usual = {"ebpf": EbpfSwitch, "ovs": OVSSwitch}[self._switch]
        groups: dict[str, dict[int, NextHopGroup]] = {n.name: {} for n in self.topology.switches}
        for number, group in enumerate(self.groups):
            groups[group.switch][number] = group
        kinds = {name: NodeKind(usual, {"groups": own}) for name, own in groups.items()}
        return {
            name: {
                "cls": kind.cls,
                "fabric": self.fabric,
                "topology": self.topology,
                **kind.arguments,
            }
            for name, kind in (kinds | self._nodes).items()
        }

    def _set_up(self) -> None:
        ends = [self._end(port) for pair in self._cables for port in pair]
        sockets = dict(zip(self.namespace_fds, self.host_rtnl_fds, strict=True)) | {
            -1: self.rtnl_fd
        }
        self._native.set_up([(sockets[fd], ifindex) for fd, ifindex, _, _ in ends])
        addresses = [self.topology.ip(host.name) for host in self.topology.hosts]
        hosts = list(zip(self.host_rtnl_fds, self.host_ifindexes, addresses, strict=True))
        self._native.configure_hosts(hosts, GATEWAY_IP, GATEWAY_MAC, "10.0.0.0", 8)
        if self._has_ipv6:
            addresses = [ipv6_address(host.index + 1) for host in self.topology.hosts]
            hosts = list(zip(self.host_rtnl_fds, self.host_ifindexes, addresses, strict=True))
            self._native.configure_hosts(hosts, GATEWAY_IPV6, GATEWAY_MAC, ipv6_address(0), 96)

    def _shape_ports(self) -> None:
        at_switches = [
            (self.rtnl_fd, ifindex, port, port.queue_bytes)
            for ifindex, port in zip(self.port_ifindexes, self.topology.switch_ports, strict=True)
        ]
        at_hosts = [
            (fd, ifindex, port, HOST_QUEUE_BYTES)
            for fd, ifindex, port in zip(
                self.host_rtnl_fds, self.host_ifindexes, self.topology.host_ports, strict=True
            )
        ]
        self._native.create_buckets(
            [
                self._native.TokenBucket(
                    fd, ifindex, port.rate_bps, queue_bytes, frame_bytes(port.link)
                )
                for fd, ifindex, port, queue_bytes in at_switches + at_hosts
            ]
        )

    def set_marking(self, enabled: bool) -> None:
        """Switch marking on at the ports that have a threshold, or off everywhere."""
        for index, port in enumerate(self.topology.switch_ports):
            self.fabric.add_port(
                self.port_ifindexes[index],
                self.topology.node(port.node).index,
                index,
                queue_bytes=port.queue_bytes,
                mtu=port.mtu_bytes,
                to_host=self.topology.node(port.peer).is_endpoint,
                **(self._marking(port.link) if enabled else {}),
            )
        self.fabric.reset_red()

    def _marking(self, link: Link) -> dict[str, int]:
        """Describe a link's marking in the fabric's units; nothing without a threshold."""
        if link.mark_bytes is None:
            return {}
        one = self._native.PROBABILITY_ONE
        most = link.mark_bytes if link.mark_max_bytes is None else link.mark_max_bytes
        return {
            "mark_min_bytes": link.mark_bytes,
            "mark_max_bytes": most,
            "mark_probability": round(link.mark_probability * one),
            "mark_weight": round(link.mark_weight * one),
            "mark_packet_ns": min(RED_PACKET_BYTES * 8 * 10**9 // link.rate_bps, 2**32 - 1),
        }

    def forget_path_mtus(self) -> None:
        """Let the hosts find out again what the ways carry, as in their first episode."""
        if len({link.mtu_bytes for link in self.topology.links}) == 1:
            return
        for namespace_fd in self.namespace_fds:
            for path in FLUSH_SYSCTLS:
                self._native.write_sysctl(namespace_fd, path, "0")

    def burst(self, sources: Sequence[str], target: str, datagrams: int) -> None:
        """Hand datagrams for one host to the queues of others, each a full frame."""
        fds = [self.namespace_fds[self.topology.node(name).index] for name in sources]
        # What does not fit everywhere would be dropped, and fill no queue.
        mtu_bytes = full_frame_bytes(self.topology) - ETHERNET_BYTES
        send_burst(fds, self.topology.ip(target), datagrams, mtu_bytes)

    def ping_matrix(self) -> list[tuple[str, str]]:
        """Ping between all ordered pairs; returns the pairs that got no answer in time."""
        names = [host.name for host in self.topology.hosts]
        addresses = [self.topology.ip(name) for name in names]
        hosts = list(zip(self.namespace_fds, addresses, strict=True))
        lost = self._native.unreachable_pairs(hosts, PING_DEADLINE_MS)
        return [(names[source], names[target]) for source, target in lost]

    def execute(self, host: str, argv: Sequence[str], timeout_s: float) -> str:
        """Run a command in a host's namespaces.

        Raises:
            CommandError: It failed or took too long.
        """
        try:
            namespace = self.namespace(host)
            with children_in(namespace):
                return run(*host_words(namespace), *argv, timeout_s=timeout_s)
        except CommandError as error:
            # Without the words before it.
            raise CommandError(argv, error.returncode, error.stderr) from None

    def namespace(self, host: str) -> str:
        """Return the file of a host's network namespace."""
        return self.spaces.networks[self.topology.node(host).index]


def ipv6_address(number: int) -> str:
    """Return the address that the fabric routes to a host number (DCGYM_IPV6_WORD_0).

    Args:
        number: Number of a host, from 1, or another that the fabric has a route for.
    """
    return str(ip_address("fd00:dc::") + number)


def _mac(prefix: str, number: int) -> str:
    return f"{prefix}:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"


def _cables(topology: Topology) -> list[tuple[Port, Port]]:
    """Both ports of every link, in the order of the nodes."""
    ends: dict[int, list[Port]] = {}
    for node in topology.nodes:
        for port in topology.ports(node.name):
            ends.setdefault(id(port.link), []).append(port)
    return [(a, b) for a, b in ends.values()]
