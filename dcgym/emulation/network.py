"""The emulated network itself: Mininet nodes, fabric, queues, neighbours. Runs in the emulator."""

from __future__ import annotations

import os
import socket
from typing import Any

from mininet.link import Link
from mininet.net import Mininet
from mininet.node import Host
from mininet.topo import Topo

from dcgym.emulation.commands import run
from dcgym.emulation.ovs import start_ovs
from dcgym.emulation.switches import EbpfSwitch, OVSSwitch, count_groups
from dcgym.native import bpf_object, require
from dcgym.topologies import Topology

__all__ = ["HOST_SYSCTLS", "EmulatedNetwork"]

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
HOST_QUEUE_BYTES = 4_000_000


class EmulatedHost(Host):  # type: ignore[misc]
    """A Mininet host that is quiet from its first moment: no address discovery, no TCP memory."""

    namespace_fd = -1

    def startShell(self, mnopts: str | None = None) -> None:
        """Start the shell, and set up its namespace before any interface enters it."""
        super().startShell(mnopts)
        self.namespace_fd = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        _set_sysctls(self.namespace_fd)


def _set_sysctls(namespace_fd: int) -> None:
    for path, value in HOST_SYSCTLS.items():
        require().write_sysctl(namespace_fd, path, value)


class _GraphTopo(Topo):  # type: ignore[misc]
    """A dcgym graph in Mininet's words."""

    def build(self, topology: Topology, switch_params: dict[str, dict[str, Any]]) -> None:
        for host in topology.hosts:
            address = {"ip": f"{topology.ip(host.name)}/8", "mac": topology.mac(host.name)}
            self.addHost(host.name, **address)
        for switch in topology.switches:
            self.addSwitch(switch.name, **switch_params[switch.name])
        seen: dict[int, list[Any]] = {}
        for node in topology.nodes:
            for port in topology.ports(node.name):
                seen.setdefault(id(port.link), []).append(port)
        for a, b in seen.values():
            self.addLink(a.node, b.node, port1=a.number, port2=b.number)


class EmulatedNetwork:
    """A built network; lives as long as the emulator's process.

    Args:
        topology: What to build.
        switch: ``ebpf`` or ``ovs``.
        flow_matrix: Count bytes by switch port and source host.
    """

    def __init__(self, topology: Topology, switch: str, flow_matrix: bool) -> None:
        self._native = require()
        self.topology = topology
        self._switch = switch
        _set_sysctls(-1)
        if switch == "ovs":
            start_ovs()
        self.fabric = self._native.Fabric(
            str(bpf_object("fabric")),
            n_switches=len(topology.switches),
            n_hosts=len(topology.hosts),
            n_ports=len(topology.switch_ports),
            n_groups=count_groups(topology),
            flow_matrix=flow_matrix,
        )
        self.net = self._build_mininet()
        self.namespace_fds = [host.namespace_fd for host in self.net.hosts]
        self.rtnl_fd = self._native.open_rtnl()
        self.host_rtnl_fds = [self._native.open_rtnl(fd) for fd in self.namespace_fds]
        self.host_ifindexes = [
            self._native.interface_index(fd, port.name)
            for fd, port in zip(self.namespace_fds, topology.host_ports, strict=True)
        ]
        self.port_ifindexes = [socket.if_nametoindex(port.name) for port in topology.switch_ports]
        self._add_neighbours()
        self._shape_ports()

    def _build_mininet(self) -> Any:
        # Mininet's own initialisation raises limits of the whole machine (fs.file-max and others).
        Mininet.inited = True
        params: dict[str, dict[str, Any]] = {}
        group = 0
        for node in self.topology.switches:
            params[node.name] = {
                "fabric": self.fabric,
                "topology": self.topology,
                "first_group": group,
            }
            group += len({self.topology.next_hops(node.name, h.name) for h in self.topology.hosts})
        topo = _GraphTopo(topology=self.topology, switch_params=params)
        cls = {"ebpf": EbpfSwitch, "ovs": OVSSwitch}[self._switch]
        net = Mininet(
            topo=topo, switch=cls, host=EmulatedHost, controller=None, link=Link, build=False
        )
        net.build()
        if self._switch == "ovs":
            # Checksums are left to a device that does not exist; user space would send them unset.
            for port in self.topology.host_ports:
                net[port.node].cmd(f"ethtool -K {port.name} tx off")
        net.start()
        return net

    def _add_neighbours(self) -> None:
        topology = self.topology
        everybody = [(topology.ip(host.name), topology.mac(host.name)) for host in topology.hosts]
        for index, fd in enumerate(self.host_rtnl_fds):
            others = everybody[:index] + everybody[index + 1 :]
            self._native.add_neighbours(fd, self.host_ifindexes[index], others)

    def _shape_ports(self) -> None:
        self._native.rebuild_buckets(
            [
                self._native.TokenBucket(self.rtnl_fd, ifindex, port.rate_bps, port.queue_bytes)
                for ifindex, port in zip(
                    self.port_ifindexes, self.topology.switch_ports, strict=True
                )
            ]
            + [
                self._native.TokenBucket(fd, ifindex, port.rate_bps, HOST_QUEUE_BYTES)
                for fd, ifindex, port in zip(
                    self.host_rtnl_fds, self.host_ifindexes, self.topology.host_ports, strict=True
                )
            ]
        )

    def set_marking(self, enabled: bool) -> None:
        """Switch step marking on at the ports that have a threshold, or off everywhere."""
        one = self._native.PROBABILITY_ONE
        for index, port in enumerate(self.topology.switch_ports):
            threshold = port.mark_bytes if enabled else None
            self._fabric_port(index, port, threshold or 0, one if threshold is not None else 0)

    def _fabric_port(self, index: int, port: Any, threshold_bytes: int, probability: int) -> None:
        self.fabric.add_port(
            self.port_ifindexes[index],
            self.topology.node(port.node).index,
            index,
            threshold_bytes,
            threshold_bytes,
            probability,
            port.queue_bytes,
        )

    def ping_matrix(self) -> list[tuple[str, str]]:
        """Ping between all ordered pairs; returns the pairs that got no answer."""
        lost = []
        for source in self.net.hosts:
            for target in self.net.hosts:
                if source is not target:
                    answer = source.cmd(f"ping -n -c1 -W1 {target.IP()} >/dev/null; echo $?")
                    if answer.strip() != "0":
                        lost.append((source.name, target.name))
        return lost

    def execute(self, host: str, argv: list[str], timeout_s: float) -> str:
        """Run a command in a host's namespaces.

        Raises:
            CommandError: It failed or took too long.
        """
        return run("mnexec", "-a", str(self.net[host].pid), *argv, timeout_s=timeout_s)
