"""Nodes, links and ports: what a network is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from dcgym.config import check_in, check_int, check_range, check_text, read_numbers
from dcgym.errors import ConfigError
from dcgym.topologies.delays import WIRE_FIELDS
from dcgym.topologies.validation import (
    DEFAULT_MTU_BYTES,
    MAX_HOSTS,
    check_mark,
    check_mtu,
    check_node_name,
    check_queue,
)

__all__ = ["ENDPOINT_ROLES", "FORWARDER_ROLES", "STEP_FIELDS", "Link", "Node", "Port"]

ENDPOINT_ROLES = ("host", "server", "client")
"""Roles of nodes that own an address and send or receive traffic."""

FORWARDER_ROLES = ("switch", "balancer")
"""Roles of nodes that pass traffic on."""

STEP_FIELDS: Mapping[str, float | None] = {
    "mark_max_bytes": None,
    "mark_probability": 1.0,
    "mark_weight": 1.0,
}
"""What a link without RED has in the fields that RED uses."""

_MAX_LAYER = 100
_MAX_RATE_BPS = 10**13
_USUAL = {**STEP_FIELDS, **WIRE_FIELDS, "mtu_bytes": DEFAULT_MTU_BYTES}


@dataclass(frozen=True)
class Node:
    """A machine of the network.

    Attributes:
        name: Unique name, which also starts the names of its interfaces.
        role: One of "host", "server", "client" (endpoints), "switch", "balancer" (forwarders).
        index: Position, from 0, among the nodes of its kind (endpoints or forwarders).
        layer: Height at which to draw the node, counted up from 0; None leaves it to the links.
    """

    name: str
    role: str
    index: int
    layer: int | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        read_numbers(self)
        name = check_node_name(self.name)
        check_in(f"role of node {name}", self.role, ENDPOINT_ROLES + FORWARDER_ROLES)
        check_int(f"index of node {name}", self.index, 0, MAX_HOSTS - 1)
        if self.layer is not None:
            check_int(f"layer of node {name}", self.layer, 0, _MAX_LAYER)

    @property
    def is_endpoint(self) -> bool:
        """Whether the node owns an address (host, server or client)."""
        return self.role in ENDPOINT_ROLES

    def to_dict(self) -> dict[str, object]:
        """Return the node as plain data; its index follows from the order of the nodes."""
        layer = {} if self.layer is None else {"layer": self.layer}
        return {"name": self.name, "role": self.role, **layer}


@dataclass(frozen=True)
class Link:
    """A cable between two nodes, the same in both directions.

    Attributes:
        a: Name of one end.
        b: Name of the other end.
        rate_bps: Capacity of each direction.
        queue_bytes: Limit of the queue in front of each direction.
        mark_bytes: Backlog above which ECN-capable packets are marked; None means no threshold.
        delay_ns: One-way propagation delay.
        mark_max_bytes: For RED: average backlog from which all are marked; None means that marking
            is a step at `mark_bytes`.
        mark_probability: Of a mark beyond the step, or just below `mark_max_bytes`.
        mark_weight: Weight of a new backlog in RED's moving average; 1 averages nothing.
        mtu_bytes: Largest IP packet that the link carries.
        jitter_ns: Most that is added to a packet's delay, evenly from 0, in order.
        loss_probability: That a packet is lost on the wire.
    """

    a: str
    b: str
    rate_bps: int
    queue_bytes: int
    mark_bytes: int | None
    delay_ns: int = 0
    mark_max_bytes: int | None = None
    mark_probability: float = 1.0
    mark_weight: float = 1.0
    mtu_bytes: int = DEFAULT_MTU_BYTES
    jitter_ns: int = 0
    loss_probability: float = 0.0

    def __post_init__(self) -> None:
        """Check the fields."""
        read_numbers(self)
        for end in (self.a, self.b):
            check_text("link end", end, "the name of a node")
        where = f"of link {self.a}-{self.b}"
        if self.a == self.b:
            raise ConfigError("link", f"{self.a}-{self.b}", "a link between two different nodes")
        check_int(f"rate_bps {where}", self.rate_bps, 1, _MAX_RATE_BPS)
        check_mtu(f"mtu_bytes {where}", self.mtu_bytes)
        check_queue(f"queue_bytes {where}", self.queue_bytes, self.mtu_bytes)
        check_int(f"delay_ns {where}", self.delay_ns, 0)
        check_int(f"jitter_ns {where}", self.jitter_ns, 0)
        check_range(f"loss_probability {where}", self.loss_probability, 0.0, 1.0)
        if self.mark_bytes is not None:
            check_mark(f"mark_bytes {where}", self.mark_bytes, self.queue_bytes)
        check_range(f"mark_probability {where}", self.mark_probability, 0.0, 1.0)
        check_range(f"mark_weight {where}", self.mark_weight, 2.0**-16, 1.0)
        if self.mark_max_bytes is not None:
            least = (self.mark_bytes if self.mark_bytes is not None else self.queue_bytes) + 1
            check_int(f"mark_max_bytes {where}", self.mark_max_bytes, least, self.queue_bytes)

    def to_dict(self) -> dict[str, object]:
        """Return the link as plain data; MTU, RED, jitter and loss only if they say something."""
        values = asdict(self)
        return {key: value for key, value in values.items() if _USUAL.get(key, ...) != value}


@dataclass(frozen=True)
class Port:
    """One end of a link.

    Attributes:
        node: Name of the node that owns the port.
        number: Port number as Mininet counts: forwarders from 1, endpoints from 0.
        name: Interface name, such as "s1-eth1".
        peer: Name of the node at the other end.
        peer_name: Interface name at the other end.
        link: The link.
    """

    node: str
    number: int
    name: str
    peer: str
    peer_name: str
    link: Link

    @property
    def rate_bps(self) -> int:
        """Capacity of the port."""
        return self.link.rate_bps

    @property
    def queue_bytes(self) -> int:
        """Limit of the port's queue."""
        return self.link.queue_bytes

    @property
    def mtu_bytes(self) -> int:
        """Largest IP packet that the port sends."""
        return self.link.mtu_bytes

    @property
    def mark_bytes(self) -> int | None:
        """Backlog above which ECN-capable packets are marked."""
        return self.link.mark_bytes
