"""A network whose switches are muxes, the software muxes beside them, and what VIPs need of hosts.

A VIP's number is a host number beyond the hosts'. All VIPs are one prefix, which leads to the
nearest software mux; what a switch announces is the /32 of a VIP, which leads to the switch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dcgym.backends.emulation.emulator.muxes.controller import MuxController
from dcgym.backends.emulation.emulator.muxes.tables import Budgets, Slots, make_slots
from dcgym.backends.emulation.emulator.network import EmulatedNetwork, NodeKind
from dcgym.backends.emulation.emulator.pod_network import (
    CLIENT_SYSCTLS,
    SEED,
    SERVER_SYSCTLS,
    BalancerSwitch,
)
from dcgym.backends.emulation.emulator.run import run
from dcgym.backends.emulation.wire.mux_messages import FIRST_VIP, vip_address
from dcgym.errors import BackendError
from dcgym.native import bpf_object, require
from dcgym.tasks.balancing.rules import RULES
from dcgym.tasks.network.events import Event
from dcgym.topologies import Topology
from dcgym.topologies.groups import switch_salt
from dcgym.topologies.routing import RouteTable

if TYPE_CHECKING:
    from dcgym.native._native import Balancer, LoadReporter

__all__ = ["MuxNetwork"]

PORT = 80
STREAM_PORT = 81
FLOW_ENTRIES = 1 << 16
# Longer than any drill: a flow of UDP is one as long as its sender lives.
FLOW_TIMEOUT_NS = 3_600_000_000_000
STATE_DEADLINE_S = 5.0


class MuxNetwork:
    """A built network with VIPs; lives as long as the emulator's process.

    Args:
        topology: Roles: client, server, switch, and balancer for a software mux.
        vips: Names of the servers of each VIP.
        budgets: Room of each switch.
        entries: Equal-cost entries of each server of each VIP.
        convergence_s: From an announcement or withdrawal until other switches follow it.
    """

    def __init__(
        self,
        topology: Topology,
        vips: Sequence[Sequence[str]],
        budgets: Budgets,
        entries: Sequence[Sequence[int]],
        convergence_s: float = 0.0,
    ) -> None:
        self._topology = topology
        self._switches = [node for node in topology.switches if node.role == "switch"]
        self._muxes = [node.name for node in topology.switches if node.role == "balancer"]
        self._anycast = len(topology.hosts) + 1
        blocks = [
            make_slots([topology.node(name).index + 1 for name in servers], own)
            for servers, own in zip(vips, entries, strict=True)
        ]
        self._balancers = [self._make_balancer(name, len(vips)) for name in self._muxes]
        # Beside the prefix, a number for each switch.
        n_numbers = 1 + len(topology.switches)
        self.network = EmulatedNetwork(
            topology,
            "ebpf",
            flow_matrix=False,
            n_spare_numbers=n_numbers,
            n_spare_groups=len(topology.switches) * n_numbers,
            nodes={
                name: NodeKind(BalancerSwitch, {"balancer": balancer})
                for name, balancer in zip(self._muxes, self._balancers, strict=True)
            },
            hmux=require().HmuxSize(
                n_vips=len(vips),
                first_vip=FIRST_VIP,
                software_mux=self._anycast,
                ecmp_entries=budgets.ecmp_entries,
                tunnel_entries=budgets.tunnel_entries,
                seed=SEED,
            ),
        )
        self._reporters = self._configure_hosts(vips)
        self._open_muxes()
        distances = self._route(frozenset())
        numbers = [self._number(node.name) for node in topology.switches]
        self.controller = MuxController(
            self.network.fabric.hmux, self, numbers, distances, blocks, budgets, convergence_s
        )

    def _number(self, switch: str) -> int:
        return self._anycast + 1 + self._topology.node(switch).index

    def _make_balancer(self, name: str, n_vips: int) -> Balancer:
        number = self._number(name)
        balancer: Balancer = require().Balancer(
            str(bpf_object("l4lb")),
            _mac(self._anycast),
            n_vips=n_vips,
            flow_entries=FLOW_ENTRIES,
            seed=SEED,
            stream=number,
            delivery="ipip",
            source_mac=_mac(number),
            tunnel_from=[_address(number)],
        )
        balancer.set_timeouts(udp_ns=FLOW_TIMEOUT_NS, syn_ns=FLOW_TIMEOUT_NS)
        for vip in range(n_vips):
            for port, protocol in ((PORT, "tcp"), (PORT, "udp"), (STREAM_PORT, "tcp")):
                balancer.add_vip(vip, vip_address(vip), port, protocol)
        return balancer

    def _open_muxes(self) -> None:
        for name in self._muxes:
            self.network.net.get(name).open("tc")

    def set_slots(self, vip: int, slots: Slots) -> None:
        """Give the software muxes a VIP's block: a server number of theirs is one entry of it."""
        macs = {index: _mac(dip) for index, dip in enumerate(slots)}
        addresses = {index: [_address(dip)] for index, dip in enumerate(slots)}
        even = [1.0] * len(slots)
        for balancer in self._balancers:
            balancer.set_servers(vip, macs, addresses)
            balancer.pools.replace(vip, RULES["ecmp"].number, list(macs), even)

    def _configure_hosts(self, vips: Sequence[Sequence[str]]) -> list[LoadReporter]:
        reporters = []
        for node in self._topology.hosts:
            namespace_fd = self.network.namespace_fds[node.index]
            is_server = node.role == "server"
            for path, value in (SERVER_SYSCTLS if is_server else CLIENT_SYSCTLS).items():
                require().write_sysctl(namespace_fd, path, value)
            if is_server:
                reporters.append(self._make_agent(node.name, node.index, namespace_fd))
                own = [vip for vip, servers in enumerate(vips) if node.name in servers]
                lines = "".join(f"address add {vip_address(vip)}/32 dev lo\n" for vip in own)
                namespace = f"--net=/proc/{os.getpid()}/fd/{namespace_fd}"
                run("nsenter", namespace, "ip", "-batch", "-", input=lines)
        return reporters

    def _make_agent(self, name: str, index: int, namespace_fd: int) -> LoadReporter:
        """Return a server's agent: it takes packets out of tunnels, the stack answers clients."""
        agent: LoadReporter = require().LoadReporter(
            str(bpf_object("l4lb_server")),
            0,
            cookies=False,
            reports=False,
            addresses=[self._topology.ip(name)],
        )
        port = self._topology.ports(name)[0]
        agent.attach(self.network.ifindex(port), namespace_fd)
        return agent

    def _route(self, dead_ports: frozenset[str]) -> dict[int, dict[int, int]]:
        """Route the prefix and each switch's number over what is left; return the distances."""
        table = RouteTable(self._topology, dead_ports)
        distances: dict[int, dict[int, int]] = {}
        targets = {self._anycast: self._muxes}
        targets |= {self._number(node.name): [node.name] for node in self._switches}
        for number, names in targets.items():
            routes = table.to_switches(names)
            for node in self._switches:
                self._set_route(node.name, node.index, number, routes.get(node.name, (None, ()))[1])
            if number != self._anycast:
                own = self._topology.node(names[0]).index
                distances[own] = {own: 0} | {
                    self._topology.node(name).index: hops
                    for name, (hops, _) in routes.items()
                    if hops is not None
                }
        return distances

    def _set_route(self, name: str, index: int, number: int, ports: Sequence[int]) -> None:
        fabric = self.network.fabric
        if not ports:
            fabric.clear_route(index, number)
            return
        group = self.network.first_spare_group
        group += index * (1 + len(self._topology.switches)) + number - self._anycast
        members = [
            self.network.ifindex(port)
            for port in self._topology.ports(name)
            if port.number in ports
        ]
        fabric.set_group(group, switch_salt(name), members, [1.0] * len(members))
        fabric.set_route(index, number, group)

    def fail_switch(self, name: str) -> Mapping[str, int]:
        """Kill a switch, and let its neighbours notice.

        Hosts' routes follow as soon as the kernel reports the links; those of VIPs, of the prefix
        and of switches after the time of convergence.

        Returns:
            When it died, and when the last route had changed (CLOCK_MONOTONIC, ns).

        Raises:
            BackendError: The links did not fail in time.
        """
        events = self.network.events
        assert events is not None  # eBPF switches have them
        events.prepare([Event(0, "down", (name,))])
        began_ns = time.monotonic_ns()
        events.start(began_ns)
        wanted = {port.name for port in self._topology.ports(name)}
        deadline = time.monotonic() + STATE_DEADLINE_S
        while not wanted <= events.dead_ports:
            if time.monotonic() > deadline:
                raise BackendError(f"the links of {name} are still up after {STATE_DEADLINE_S} s")
            time.sleep(0.001)
        self.controller.converge()
        self._route(events.dead_ports)
        self.controller.lose_switch(self._topology.node(name).index)
        return {"died_ns": began_ns, "rerouted_ns": time.monotonic_ns()}


def _address(number: int) -> str:
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def _mac(number: int) -> str:
    return f"02:dc:00:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
