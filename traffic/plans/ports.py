"""Destination ports for the flows that name none."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.traffic.plans.records import LAST_PORT, Records

__all__ = ["FIRST_PORT", "SHARED_PORTS", "choose_ports"]

FIRST_PORT = 13_001
"""Destination port of a host's first flow that names none; the next ones count up. No common tool
listens here by default: iperf does at 5001, iperf3 at 5201, web servers do at 8000 to 8888, netperf
at 12865."""

SOURCE_PORTS = 16_384
"""The senders' own ports begin here, as does everything that a kernel gives to connections."""

SHARED_PORTS = 256
"""TCP flows towards one host that name no port use this many ports in turn: thousands of flows
need no thousands of listeners, and both ports together still spread over equal-cost paths."""

# Thousands of UDP flows towards one host also have lower ports, and those of senders at last.
PORTS = np.concatenate(
    [
        np.arange(FIRST_PORT, SOURCE_PORTS),
        np.arange(1024, FIRST_PORT),
        np.arange(SOURCE_PORTS, LAST_PORT + 1),
    ]
)


def choose_ports(records: Records, hosts: Sequence[str]) -> npt.NDArray[np.uint32]:
    """Return the destination port of each flow, choosing those left open.

    Args:
        records: The flows, of `records.FLOW_DTYPE`.
        hosts: Names that ``dst`` indexes.

    Raises:
        ConfigError: More UDP flows go to one host than there are ports.
    """
    ports: npt.NDArray[np.uint32] = records["port"].copy()
    order = np.argsort(records["dst"], kind="stable")
    starts = np.searchsorted(records["dst"][order], np.arange(len(hosts) + 1))
    for host, (first, last) in enumerate(pairwise(starts.tolist())):
        rows = order[first:last]
        named = ports[rows] > 0
        if not named.all():
            is_udp = records["transport"][rows[~named]] == 1
            ports[rows[~named]] = _free_ports(hosts[host], ports[rows[named]], is_udp)
    return ports


def _free_ports(
    host: str, taken: npt.NDArray[np.uint32], is_udp: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Choose ports of one receiver: TCP flows share some, every UDP flow has its own."""
    free = PORTS[~np.isin(PORTS, taken)]
    count, n_udp = len(is_udp), int(is_udp.sum())
    n_tcp = min(count - n_udp, SHARED_PORTS)
    if n_tcp + n_udp > len(free):
        allowed = f"at most {len(free) - n_tcp} UDP flows towards one host"
        raise ConfigError("plan.flows", host, allowed)
    number = np.arange(count)
    # A small plan has consecutive ports, in the plan's order.
    if count > SHARED_PORTS:
        number[~is_udp] = np.arange(count - n_udp) % SHARED_PORTS
        number[is_udp] = n_tcp + np.arange(n_udp)
    return free[number]
