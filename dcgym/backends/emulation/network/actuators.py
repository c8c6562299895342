"""Limits of the hosts and queues of all interfaces, changed through netlink."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.backends.emulation.wire.messages import NetworkBuilt
from dcgym.monitors import Snapshot
from dcgym.native import require
from dcgym.topologies import Topology
from dcgym.topologies.round_trips import frame_bytes

if TYPE_CHECKING:
    from dcgym.native._native import RateLimiter, TokenBucket

__all__ = ["START_DELAY_NS", "LinkActuators"]

START_DELAY_NS = 10_000_000
"""Time between the order to start a plan and its beginning: the generator gets ready meanwhile."""

HELD_RATE_BPS = 8_000


class LinkActuators:
    """The token buckets of a running network.

    Args:
        topology: The network.
        built: Interfaces and descriptors; not owned.

    Attributes:
        link_rates_bps: Rate of each host's link, shape (H,).
        frames_bytes: Largest frame of each switch port.
    """

    def __init__(self, topology: Topology, built: NetworkBuilt) -> None:
        self._native = require()
        hosts, ports = topology.host_ports, topology.switch_ports
        self.frames_bytes = [frame_bytes(port.link) for port in ports]
        self.link_rates_bps = np.array([port.rate_bps for port in hosts], np.uint64)
        self._limiter: RateLimiter = self._native.RateLimiter(
            rtnl_fds=built.host_netlinks,
            ifindexes=built.host_ifindexes,
            limit_bytes=built.host_queue_bytes,
            frames_bytes=[frame_bytes(port.link) for port in hosts],
            link_rates_bps=self.link_rates_bps,
        )
        bucket = self._native.TokenBucket
        self._port_buckets: list[TokenBucket] = [
            bucket(
                built.switch_netlink,
                ifindex,
                port.rate_bps,
                port.queue_bytes,
                frame_bytes(port.link),
            )
            for ifindex, port in zip(built.port_ifindexes, ports, strict=True)
        ]
        self._host_buckets: list[TokenBucket] = [
            bucket(netlink, ifindex, port.rate_bps, built.host_queue_bytes, frame_bytes(port.link))
            for netlink, ifindex, port in zip(
                built.host_netlinks, built.host_ifindexes, hosts, strict=True
            )
        ]
        # The others are full of tokens again when the next episode begins.
        self._fills_slowly = np.array(
            [
                bucket.burst_bytes * 8e9 > START_DELAY_NS * bucket.rate_bps
                for bucket in self._buckets
            ]
        )

    @property
    def _buckets(self) -> list[TokenBucket]:
        return [*self._port_buckets, *self._host_buckets]

    def limit(self, rates_bps: npt.NDArray[np.uint64]) -> int:
        """Limit each host; returns the CLOCK_MONOTONIC ns at which the kernel had acknowledged.

        Only limits that differ are sent: a token bucket is filled by each change (sch_tbf.c), so
        that a changed limit may pass up to one burst more than its rate.
        """
        return self._limiter.apply(rates_bps)

    def release(self) -> None:
        """Let every host send at the rate of its link."""
        self._limiter.apply(self.link_rates_bps)

    def block(self) -> None:
        """Let no host send anything."""
        self._limiter.apply(np.ones_like(self.link_rates_bps))

    def hold(self, is_held: bool) -> None:
        """Hold back what the hosts have to send, or let it go."""
        held = np.full_like(self.link_rates_bps, HELD_RATE_BPS)
        self._limiter.apply(held if is_held else self.link_rates_bps)

    def drop_waiting(self, state: Snapshot, *, at_hosts: bool) -> None:
        """Drop what waits in the queues of the switches.

        Args:
            state: Tells which queues hold something.
            at_hosts: Whether to empty the queues of the hosts too.
        """
        backlog = np.concatenate((state.ports["backlog_bytes"], state.hosts["backlog_bytes"]))
        count = len(self._fills_slowly) if at_hosts else len(self._port_buckets)
        waiting = np.flatnonzero(((backlog > 0) | self._fills_slowly)[:count])
        buckets = self._buckets
        self._native.flush_buckets([buckets[index] for index in waiting])

    def bursts_bytes(self, rates_bps: Sequence[int]) -> list[int]:
        """Return what the switch ports may send at once, at these rates of theirs."""
        return [
            int(self._native.burst_for(rate_bps, most_bytes))
            for rate_bps, most_bytes in zip(rates_bps, self.frames_bytes, strict=True)
        ]

    def close(self) -> None:
        """Let go of the sockets, before they are closed."""
        del self._limiter
        self._port_buckets, self._host_buckets = [], []
