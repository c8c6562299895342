"""Mininet switches of the emulation: the BPF fabric, and Open vSwitch for comparison."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from mininet.node import OVSSwitch as MininetOVSSwitch
from mininet.node import Switch

from dcgym.backends.emulation.emulator.nodes import LazyShell
from dcgym.backends.emulation.emulator.run import run
from dcgym.topologies import NextHopGroup, Topology
from dcgym.topologies.groups import switch_salt

if TYPE_CHECKING:
    from dcgym.native._native import Fabric

__all__ = ["EbpfSwitch", "OVSSwitch", "dpid", "port_ids"]

# The selection method of a group came to OpenFlow with 1.5.
OPENFLOW = "OpenFlow15"


def port_ids(topology: Topology) -> dict[str, int]:
    """Return the telemetry index of every switch interface by name.

    Args:
        topology: The network.
    """
    return {port.name: index for index, port in enumerate(topology.switch_ports)}


def dpid(topology: Topology, name: str) -> str:
    """Return a datapath number, which Mininet would otherwise look for in the name.

    Args:
        topology: The network.
        name: Name of the switch.
    """
    return f"{topology.node(name).index + 1:016x}"


class EbpfSwitch(LazyShell, Switch):
    """A switch whose ports carry the fabric's BPF programs; the ports' queues stay the kernel's.

    Args:
        name: Node name.
        fabric: The emulator's `Fabric`, shared by its switches.
        topology: The network.
        groups: This switch's next-hop groups, by their number in the fabric.
    """

    def __init__(
        self,
        name: str,
        *,
        fabric: Fabric,
        topology: Topology,
        groups: dict[int, NextHopGroup],
        **params: object,
    ) -> None:
        super().__init__(name, dpid=dpid(topology, name), **params)
        self._fabric, self._topology, self._groups = fabric, topology, groups

    def start(self, controllers: object) -> None:
        """Install the routes, then let packets in."""
        index = self._topology.node(self.name).index
        ids = port_ids(self._topology)
        ifindex = {p.number: socket.if_nametoindex(p.name) for p in self._topology.ports(self.name)}
        for port in self._topology.ports(self.name):
            number = ifindex[port.number]
            self._fabric.add_port(
                number,
                index,
                ids[port.name],
                queue_bytes=port.queue_bytes,
                mtu=port.mtu_bytes,
                to_host=self._topology.node(port.peer).is_endpoint,
            )
        # A salt of its own per switch: equal hashes in a row would leave paths unused.
        salt = switch_salt(self.name)
        for number, group in self._groups.items():
            members = [ifindex[port.number] for port in group.ports]
            self._fabric.set_group(number, salt, members, [1.0] * len(members))
            for host in group.hosts:
                self._fabric.set_route(index, self._topology.node(host).index + 1, number)
        for number in ifindex.values():
            self._fabric.attach(number)

    def stop(self, deleteIntfs: bool = True) -> None:
        """Detach the programs."""
        for port in self._topology.ports(self.name):
            self._fabric.detach(socket.if_nametoindex(port.name))
        super().stop(deleteIntfs)


class OVSSwitch(LazyShell, MininetOVSSwitch):
    """Open vSwitch with static OpenFlow rules, in the emulator's own instance, in user space.

    The fabric's egress program sits on its ports too, for marks and peak queues.
    """

    def __init__(
        self,
        name: str,
        *,
        fabric: Fabric,
        topology: Topology,
        groups: dict[int, NextHopGroup],
        **params: object,
    ) -> None:
        # One at a time: Mininet's batch would create the bridges only after every start().
        params |= {"datapath": "user", "failMode": "secure", "protocols": OPENFLOW}
        params["batch"] = False
        params["dpid"] = dpid(topology, name)
        super().__init__(name, **params)
        self._fabric, self._topology, self._groups = fabric, topology, groups

    def start(self, controllers: object) -> None:
        """Create the bridge, install groups and flows, watch the ports."""
        super().start([])
        # One process, one transaction: groups first, as the rules name them.
        run("ovs-ofctl", "-O", OPENFLOW, "bundle", self.name, "-", input=self._rules())
        ids = port_ids(self._topology)
        index = self._topology.node(self.name).index
        # After the bridge has its ports: vswitchd resets their ingress qdisc when it takes them.
        for port in self._topology.ports(self.name):
            ifindex = socket.if_nametoindex(port.name)
            self._fabric.add_port(ifindex, index, ids[port.name], queue_bytes=port.queue_bytes)
            self._fabric.attach(ifindex, forward=False)

    def _rules(self) -> str:
        groups, flows = [], []
        for number, group in self._groups.items():
            action = f"output:{group.ports[0].number}"
            if group.has_choice:
                groups.append(f"group add {self._select_group(number + 1, group)}")
                action = f"group:{number + 1}"
            flows += [f"flow add {self._flow(host, action)}" for host in group.hosts]
        return "\n".join(groups + flows) + "\n"

    def _select_group(self, number: int, group: NextHopGroup) -> str:
        """A hash over addresses and ports chooses the port, with a basis of the switch's own.

        The default basis is the same everywhere: of the flows that an edge switch sends to one
        aggregation switch, all would go on to the same core switch.
        """
        salt = switch_salt(self.name)
        buckets = ",".join(f"bucket=weight:1,actions=output:{port.number}" for port in group.ports)
        method = f"selection_method=dp_hash,selection_method_param={salt}"
        return f"group_id={number},type=select,{method},{buckets}"

    def _flow(self, host: str, action: str) -> str:
        """A rule by address, which puts the host's MAC in the place of the gateway's."""
        ip, mac = self._topology.ip(host), self._topology.mac(host)
        return f"ip,nw_dst={ip},actions=set_field:{mac}->eth_dst,{action}"
