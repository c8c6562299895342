"""How long a flow takes when it has the network for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from dcgym.traffic.plans.records import NONE, Records
from dcgym.units import NS_PER_S

if TYPE_CHECKING:
    from dcgym.topologies import Link, Topology

__all__ = ["ideal_completion_ns", "payload_bytes", "wire_bytes"]

FloatArray = npt.NDArray[np.float64]

# Headers of Ethernet (14), IPv4 (20), and of TCP with timestamps (32) or UDP (8): queues and token
# buckets count all of them for a packet.
_HEADER_BYTES = np.array([66, 42])
_ETHERNET_BYTES = 14
# SYN with options (40 bytes of TCP header), and the answer to it.
_HANDSHAKE_BYTES = 74


class _Path(NamedTuple):
    """What a packet meets on its way.

    Attributes:
        rate_bps: Lowest rate of a link.
        bit_ns: Time one bit takes on all links together, one after the other.
        delay_ns: Propagation delay of all links.
        mtu_bytes: Largest IP packet that all of them carry.
    """

    rate_bps: float
    bit_ns: float
    delay_ns: float
    mtu_bytes: float

    def then(self, rest: _Path) -> _Path:
        """Return this path followed by another."""
        return _Path(
            min(self.rate_bps, rest.rate_bps),
            self.bit_ns + rest.bit_ns,
            self.delay_ns + rest.delay_ns,
            min(self.mtu_bytes, rest.mtu_bytes),
        )


def ideal_completion_ns(records: Records, topology: Topology) -> FloatArray:
    """Return the completion times of a plan's flows on an empty network.

    From the planned start to the last byte at the receiver, store and forward, without slow start,
    loss or processing:

    - TCP: the handshake, one round trip of 74-byte frames;
    - the first full packet over all links but the bottleneck;
    - all packets over the bottleneck, each with 66 bytes of headers (TCP) or 42 (UDP) and as large
      as the path's MTU, or size over ``rate_bps`` where the flow's own cap takes longer;
    - the propagation delays.

    Token buckets let a burst pass at once, so that flows of a few packets may finish sooner.

    Args:
        records: The flows; ``src`` and ``dst`` are indexes of ``topology.hosts``.
        topology: The network; the first of several equal-cost paths is taken.

    Returns:
        One time a flow; NaN for a flow without a size.
    """
    paths = _paths(records, topology)
    size = records["size_bytes"].astype(np.float64)
    kind = records["transport"]
    first_frame = np.minimum(size + _HEADER_BYTES[kind], paths[:, 3] + _ETHERNET_BYTES)
    crossing_ns = first_frame * 8 * (paths[:, 1] - NS_PER_S / paths[:, 0])
    sending_ns = wire_bytes(records, topology) * 8 * NS_PER_S / paths[:, 0]
    is_capped = records["rate_bps"] != NONE
    cap_bps = np.where(is_capped, records["rate_bps"], np.inf)
    sending_ns = np.maximum(sending_ns, size * 8 * NS_PER_S / cap_bps)
    handshake_ns = 2 * (paths[:, 2] + _HANDSHAKE_BYTES * 8 * paths[:, 1])
    total_ns = crossing_ns + sending_ns + paths[:, 2] + np.where(kind == 0, handshake_ns, 0.0)
    return np.where(records["size_bytes"] == NONE, np.nan, total_ns)


def wire_bytes(records: Records, topology: Topology) -> FloatArray:
    """Return the bytes of each flow with the headers of its packets; 0 without a size.

    Args:
        records: The flows; ``src`` and ``dst`` are indexes of ``topology.hosts``.
        topology: The network.
    """
    size, kind = records["size_bytes"], records["transport"]
    packets = -(-size // payload_bytes(records, topology))
    return np.where(size == NONE, 0, size + packets * _HEADER_BYTES[kind]).astype(np.float64)


def payload_bytes(records: npt.NDArray[np.void], topology: Topology) -> npt.NDArray[np.int64]:
    """Return what a full packet of each flow carries, by the MTU of its path.

    Args:
        records: The flows, planned or ended, with their ``src``, ``dst`` and ``transport``.
        topology: The network; the first of several equal-cost paths is taken.
    """
    mtus = {link.mtu_bytes for link in topology.links}
    mtu_bytes: float | FloatArray = min(mtus)
    if len(mtus) > 1:
        mtu_bytes = _paths(records, topology)[:, 3]
    frame_bytes = mtu_bytes + _ETHERNET_BYTES
    return np.asarray(frame_bytes - _HEADER_BYTES[records["transport"]], np.int64)


def _paths(records: npt.NDArray[np.void], topology: Topology) -> FloatArray:
    """Return rate, time of a bit, delay and MTU of each flow's path; shape (n, 4)."""
    ends = np.stack([records["src"], records["dst"]], axis=1)
    pairs, inverse = np.unique(ends, axis=0, return_inverse=True)
    known: dict[tuple[str, int], _Path] = {}
    rows = np.empty((len(pairs), 4))
    for row, (src, dst) in enumerate(pairs.tolist()):
        port = topology.host_ports[src]
        if (port.peer, dst) not in known:
            known[port.peer, dst] = _walk(topology, port.peer, topology.hosts[dst].name)
        rows[row] = _link(port.link).then(known[port.peer, dst])
    return rows[inverse.reshape(-1)]


def _walk(topology: Topology, switch: str, host: str) -> _Path:
    path, node = _Path(np.inf, 0.0, 0.0, np.inf), switch
    while node != host:
        port = topology.ports(node)[topology.next_hops(node, host)[0] - 1]
        path = path.then(_link(port.link))
        node = port.peer
    return path


def _link(link: Link) -> _Path:
    rate_bps = float(link.rate_bps)
    return _Path(rate_bps, NS_PER_S / rate_bps, float(link.delay_ns), float(link.mtu_bytes))
