"""A topology and an episode as the plain numbers that the packet twin reads."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

from dcgym.errors import ConfigError
from dcgym.native import require
from dcgym.tasks.network.controls import CONGESTION_CONTROLS
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.path_rules import PathChoice
from dcgym.topologies import Port, Topology, base_rtt_ns, next_hop_groups, slowest_frame_ns
from dcgym.topologies.groups import group_numbers, switch_salt
from dcgym.topologies.round_trips import HOP_NS, full_frame_bytes
from dcgym.topologies.routing import KEPT
from dcgym.topologies.validation import DEFAULT_MTU_BYTES, MAX_MTU_BYTES
from dcgym.traffic.plans.applications import AppPlan

__all__ = [
    "PROCESSING_NS",
    "START_DELAY_NS",
    "check_memory",
    "check_mtus",
    "episode_config",
    "network_config",
    "opposite_ports",
]

PROCESSING_NS = HOP_NS
"""What a kernel takes to pass a packet on."""

START_DELAY_NS = 10_000_000
"""Time between the reset and the beginning of the plan, as in the emulation."""

NO_GROUP = 0xFFFFFFFF
# As the emulator sets it (emulator/network.py).
HOST_QUEUE_BYTES = 4_000_000
# As in native/include/fabric.h.
PROBABILITY_ONE = 65536
RED_PACKET_BYTES = 1500
# What a copy takes for each port, each switch and host, and each switch port and host of a matrix,
# as measured with fat-trees of 4 to 16 ports.
PORT_BYTES, ROUTE_BYTES, ENTRY_BYTES = 1_600, 4, 64


def check_mtus(topology: Topology) -> None:
    """Refuse links that full packets do not fit: all of the twin's hosts send those of one size.

    Args:
        topology: The network.

    Raises:
        ConfigError: A link has an MTU below 1500, or another than the first link.
    """
    for link in topology.links:
        if link.mtu_bytes < DEFAULT_MTU_BYTES or link.mtu_bytes != topology.links[0].mtu_bytes:
            allowed = f"{DEFAULT_MTU_BYTES} to {MAX_MTU_BYTES}, the same of all links"
            allowed += ", with the backend simulation"
            raise ConfigError(f"mtu_bytes of link {link.a}-{link.b}", link.mtu_bytes, allowed)


def check_memory(topology: Topology, n_envs: int, counts_matrix: bool) -> None:
    """Refuse more copies of a network than this machine has memory for.

    Args:
        topology: The network.
        n_envs: Number of copies.
        counts_matrix: Whether bytes are counted by switch port and source host.

    Raises:
        ConfigError: There are more. Packets and flows come on top, so fewer may be too many.
    """
    n_switches, n_hosts = len(topology.switches), len(topology.hosts)
    copy_bytes = PORT_BYTES * len(topology.directed_ports) + ROUTE_BYTES * n_switches * n_hosts
    if counts_matrix:
        copy_bytes += ENTRY_BYTES * len(topology.switch_ports) * n_hosts
    machine_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if n_envs * copy_bytes > machine_bytes:
        allowed = (
            f"at most {machine_bytes // copy_bytes:,} copies of {topology.name}, which take "
            f"{copy_bytes / 1e6:,.1f} MB each, on this machine of {machine_bytes / 1e9:.0f} GB"
        )
        raise ConfigError("n_envs", n_envs, allowed)


def network_config(
    topology: Topology,
    counts_matrix: bool,
    paths: PathChoice,
    timer_late_ns: int,
) -> dict[str, object]:
    """Return a topology with names replaced by numbers: the switches' ports, then one a host.

    Args:
        topology: The network.
        counts_matrix: Whether bytes are counted by switch port and source host.
        paths: The path rule with its numbers.
        timer_late_ns: Mean of how late timers come.
    """
    ports = (*topology.switch_ports, *topology.host_ports)
    return {
        "n_switches": len(topology.switches),
        "n_hosts": len(topology.hosts),
        "frame_bytes": full_frame_bytes(topology),
        "ports": [_port(topology, port) for port in ports],
        "port_switch": [topology.node(port.node).index for port in topology.switch_ports],
        "counts_matrix": counts_matrix,
        "pins_flows": paths.flow_entries > 0,
        "path_rule": paths.rule.switch,
        "flowlet_gap_ns": paths.flowlet_gap_ns,
        "plb": _plb_limits(paths.rule.sender),
        "timer_late_ns": timer_late_ns,
        "base_rtt_us": base_rtt_ns(topology) // 1000,
        "packet_ns": slowest_frame_ns(topology),
    }


def _plb_limits(sender: str) -> tuple[int, int, int, int]:
    """Return when a sender gives its flow another label; no rounds: never."""
    if not sender:
        return 0, 0, 0, 0
    limits: tuple[int, int, int, int] = getattr(require("_packets"), f"{sender.upper()}_LIMITS")
    return limits


def episode_config(topology: Topology, episode: NetworkEpisode) -> dict[str, Any]:
    """Return an episode with names replaced by numbers.

    Args:
        topology: The network.
        episode: The episode.

    Raises:
        ConfigError: The twin does not know the congestion control, or runs no applications.
    """
    if isinstance(episode.plan, AppPlan):
        raise ConfigError("traffic", episode.plan.name, "flows: the simulation runs no apps")
    names = [host.name for host in topology.hosts]
    algorithms = [episode.congestion_control.get(name, "cubic") for name in names]
    for algorithm in set(algorithms):
        _check_control(algorithm)
    return {
        "seed": episode.seed,
        "start_ns": START_DELAY_NS,
        "flows": episode.plan.to_generator(names),
        "congestion_control": algorithms,
        "marking": [_marking(port, episode.marking) for port in topology.switch_ports],
        **_routes(topology),
    }


def _check_control(name: str) -> None:
    """Refuse what the twin has not, and give it the functions of another package's header."""
    control = CONGESTION_CONTROLS.find(name)
    if not control.is_in_twin:
        known = [name for name, one in CONGESTION_CONTROLS.items() if one.is_in_twin]
        allowed = f"one of {', '.join(known)} with the backend simulation"
        raise ConfigError("congestion_control", name, allowed)
    if control.is_header:
        require("_packets").add_congestion_control(name, control.functions())


def opposite_ports(topology: Topology) -> list[int]:
    """Return the number of the port at the other end of each switch port's link."""
    ports = (*topology.switch_ports, *topology.host_ports)
    numbers = {port.name: number for number, port in enumerate(ports)}
    return [numbers[port.peer_name] for port in topology.switch_ports]


def _port(topology: Topology, port: Port) -> tuple[int, int, int, int, bool, int, int, bool, bool]:
    peer = topology.node(port.peer)
    is_of_host, link = topology.node(port.node).is_endpoint, port.link
    queue_bytes = HOST_QUEUE_BYTES if is_of_host else port.queue_bytes
    # The emulation's relay stands behind the queue.
    is_relayed = bool(link.delay_ns or link.jitter_ns or link.loss_probability)
    loss = min(round(link.loss_probability * 2**32), 2**32 - 1)
    wire = link.delay_ns + PROCESSING_NS, peer.index, peer.is_endpoint, link.jitter_ns, loss
    return port.rate_bps, queue_bytes, *wire, is_relayed, is_relayed and is_of_host


def _routes(topology: Topology) -> dict[str, object]:
    return {**_groups(topology), "routes": group_numbers(topology)}


@lru_cache(maxsize=KEPT)
def _groups(topology: Topology) -> dict[str, object]:
    groups = next_hop_groups(topology)
    numbers = {port.name: number for number, port in enumerate(topology.switch_ports)}
    return {
        "group_ports": [[numbers[port.name] for port in group.ports] for group in groups],
        "group_salts": [switch_salt(group.switch) for group in groups],
    }


def _marking(port: Port, is_on: bool) -> tuple[int, int, int, int, int]:
    link = port.link
    if not is_on or link.mark_bytes is None:
        return 0, 0, 0, PROBABILITY_ONE, 0
    return (
        link.mark_bytes,
        link.mark_bytes if link.mark_max_bytes is None else link.mark_max_bytes,
        round(link.mark_probability * PROBABILITY_ONE),
        round(link.mark_weight * PROBABILITY_ONE),
        min(RED_PACKET_BYTES * 8 * 10**9 // link.rate_bps, 2**32 - 1),
    )
