"""Round trips between chosen hosts as part of what a network environment observes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dcgym.config import check_in, check_list
from dcgym.errors import ConfigError
from dcgym.tasks.network.features import PROBE_RTT
from dcgym.topologies import Topology
from dcgym.units import NS_PER_S

__all__ = ["Probes", "longest_queueing_ns"]

FloatArray = npt.NDArray[np.float64]


class Probes:
    """The pairs whose round trips are observed, and what each is compared with.

    Args:
        pairs: Ordered pairs of names of hosts.
        features: Names of the features, which name ``probe_rtt`` if there are pairs.
        topology: The network.

    Raises:
        ConfigError: A pair is not one of two hosts, comes twice, or the features do not fit.
    """

    def __init__(
        self, pairs: Sequence[Sequence[str]], features: Sequence[str], topology: Topology
    ) -> None:
        self.pairs = _check_pairs(pairs, topology)
        if (PROBE_RTT in features) != bool(self.pairs):
            raise ConfigError(
                "probes", list(pairs), f"pairs of hosts with the feature {PROBE_RTT}, else none"
            )
        self._longest_ns = np.array(
            [longest_queueing_ns(topology, *pair) for pair in self.pairs], np.float64
        )

    def shares(self, rtt_ns: FloatArray | None) -> FloatArray | None:
        """Return the round trips over the longest queueing delay of their paths.

        Args:
            rtt_ns: Round trips of snapshots, (..., pairs).

        Raises:
            ConfigError: The backend was made for other pairs.
        """
        if not self.pairs:
            return None
        if rtt_ns is None or rtt_ns.shape[-1] != len(self.pairs):
            raise ConfigError("probes", list(self.pairs), "the pairs that the backend measures")
        shares: FloatArray = rtt_ns / self._longest_ns
        return shares


def longest_queueing_ns(topology: Topology, source: str, target: str) -> float:
    """Return how long a packet and its answer wait where every queue on their way is full.

    Only queues of switches count; of several equal-cost paths the first is taken.

    Args:
        topology: The network.
        source: Name of the host that asks.
        target: Name of the host that answers.
    """
    return _one_way_ns(topology, source, target) + _one_way_ns(topology, target, source)


def _one_way_ns(topology: Topology, source: str, target: str) -> float:
    node, total_ns = topology.host_ports[topology.node(source).index].peer, 0.0
    while node != target:
        port = topology.ports(node)[topology.next_hops(node, target)[0] - 1]
        total_ns += port.queue_bytes * 8 * NS_PER_S / port.rate_bps
        node = port.peer
    return total_ns


def _check_pairs(pairs: Sequence[Sequence[str]], topology: Topology) -> tuple[tuple[str, str], ...]:
    hosts = [host.name for host in topology.hosts]
    checked: list[tuple[str, str]] = []
    for number, pair in enumerate(check_list("probes", pairs, "a list of pairs of hosts")):
        field = f"probes[{number}]"
        ends = check_list(field, pair, "a pair of hosts, such as ['h1', 'h2']", (2,))
        source, target = (check_in(field, name, hosts) for name in ends)
        if source == target or (source, target) in checked:
            raise ConfigError(field, list(pair), "two hosts, each pair once")
        checked.append((source, target))
    return tuple(checked)
