"""Who sends to whom: functions from a topology to pairs of host indexes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.traffic.sizes.draws import Draws

if TYPE_CHECKING:
    from dcgym.topologies import Topology

__all__ = [
    "Pairs",
    "Pattern",
    "all_to_all",
    "hotspot",
    "idle",
    "incast",
    "pairs",
    "random",
    "random_bijection",
    "staggered",
    "stride",
]

Pairs = npt.NDArray[np.int64]
"""Shape (n, 2): index of the source, index of the destination."""

Pattern = Callable[["Topology", Draws], Pairs]


def pairs(topology: Topology, _draws: Draws) -> Pairs:
    """Host i of the first half sends to host i of the second half.

    Args:
        topology: The network.
        _draws: Random numbers, of which none are used.
    """
    half = _count(topology) // 2
    return _join(np.arange(half), np.arange(half) + half)


def all_to_all(topology: Topology, _draws: Draws) -> Pairs:
    """Every host sends to every other one.

    Args:
        topology: The network.
        _draws: Random numbers, of which none are used.
    """
    count = _count(topology)
    src, dst = np.divmod(np.arange(count * count), count)
    keep = src != dst
    return _join(src[keep], dst[keep])


def random_bijection(topology: Topology, draws: Draws) -> Pairs:
    """Every host sends to one other host and receives from one other host, drawn uniformly.

    Args:
        topology: The network.
        draws: Random numbers.
    """
    count = _count(topology)
    return _join(np.arange(count), draws.derangement(count))


def idle(_topology: Topology, _draws: Draws) -> Pairs:
    """Nobody sends.

    Args:
        _topology: The network.
        _draws: Random numbers, of which none are used.
    """
    return np.empty((0, 2), np.int64)


def incast(senders: int | None = None) -> Pattern:
    """Make N hosts send to the last one.

    Args:
        senders: N, drawn at random among the others; None for all the others.
    """

    def pattern(topology: Topology, draws: Draws) -> Pairs:
        last = _count(topology) - 1
        if senders is None:
            return _join(np.arange(last), np.full(last, last))
        _check_most(f"incast-{senders}", senders, last)
        return _join(np.sort(draws.permutation(last)[:senders]), np.full(senders, last))

    return pattern


def stride(step: int) -> Pattern:
    """Make host i send to host i + step, counted round the end.

    Args:
        step: How far on.
    """

    def pattern(topology: Topology, _draws: Draws) -> Pairs:
        count = _count(topology)
        if step % count == 0:
            raise ConfigError("traffic", f"stride-{step}", f"no multiple of the {count} hosts")
        return _join(np.arange(count), (np.arange(count) + step) % count)

    return pattern


def random(flows: int) -> Pattern:
    """Make every host send to this many different other hosts, drawn uniformly.

    Args:
        flows: Number of receivers of each host.
    """

    def pattern(topology: Topology, draws: Draws) -> Pairs:
        count = _count(topology)
        _check_most(f"random-{flows}", flows, count - 1)
        # Skipping a host's own place leaves count - 1 equally likely others.
        chosen = [np.sort(draws.permutation(count - 1)[:flows]) for _ in range(count)]
        src = np.repeat(np.arange(count), flows)
        drawn = np.concatenate(chosen)
        return _join(src, drawn + (drawn >= src))

    return pattern


def hotspot(hot: int, share: float = 0.5) -> Pattern:
    """Make every host send to a hot one with a given probability, else to any other one.

    Args:
        hot: Number of hot receivers, drawn at random.
        share: Probability of sending to one of them; a hot host sends to no hot host by it.
    """

    def pattern(topology: Topology, draws: Draws) -> Pairs:
        count = _count(topology)
        _check_most(f"hotspot-{hot}", hot, count - 1)
        src = np.arange(count)
        hosts = draws.permutation(count)[:hot]
        target = hosts[draws.integers(count, hot)]
        other = draws.integers(count, count - 1)
        other += other >= src
        is_hot = (draws.uniform(count) < share) & ~np.isin(src, hosts)
        return _join(src, np.where(is_hot, target, other))

    return pattern


def staggered(edge: float, pod: float) -> Pattern:
    """Make every host prefer near ones (Al-Fares et al., Hedera, NSDI 2010, section 5.3).

    A class without any host (a dumbbell has no pods) leaves its probability to the next farther
    one, the last one to the next nearer one.

    Args:
        edge: Probability of another host at the same switch.
        pod: Probability of another host at the shortest distance beyond it, in a fat-tree its pod.
    """
    if edge + pod > 1:
        allowed = "two probabilities of at most 1 together"
        raise ConfigError("traffic", f"staggered-{edge}-{pod}", allowed)

    def pattern(topology: Topology, draws: Draws) -> Pairs:
        count = _count(topology)
        classes = _classes(topology)
        drawn = draws.uniform(count)
        wanted = (drawn >= edge).astype(np.int64) + (drawn >= edge + pod)
        place = draws.uniform(count)
        sinks = []
        for src in range(count):
            near = classes[src]
            order = [*range(int(wanted[src]), 3), *range(int(wanted[src]) - 1, -1, -1)]
            others = next(found for k in order if (found := np.flatnonzero(near == k)).size)
            sinks.append(int(others[int(place[src] * others.size)]))
        return _join(np.arange(count), np.array(sinks))

    return pattern


def _classes(topology: Topology) -> npt.NDArray[np.int64]:
    """Return for each pair of hosts 0 (same switch), 1 (nearest others), 2 (rest), 3 (itself)."""
    edges = [port.peer for port in topology.host_ports]
    first = {edge: topology.hosts[i].name for i, edge in reversed(list(enumerate(edges)))}
    number = {edge: i for i, edge in enumerate(first)}
    hops = np.array([[_hops(topology, a, first[b]) for b in first] for a in first])
    beyond = hops[hops > 1]
    kinds = np.full(hops.shape, 2)
    if beyond.size and beyond.min() < beyond.max():
        kinds[hops == beyond.min()] = 1
    kinds[hops == 1] = 0
    index = np.array([number[edge] for edge in edges])
    classes: npt.NDArray[np.int64] = kinds[np.ix_(index, index)]
    np.fill_diagonal(classes, 3)
    return classes


def _hops(topology: Topology, switch: str, host: str) -> int:
    """Return the number of links from a switch to a host."""
    node, hops = switch, 0
    while node != host:
        number = topology.next_hops(node, host)[0]
        node = next(port.peer for port in topology.ports(node) if port.number == number)
        hops += 1
    return hops


def _join(src: npt.NDArray[np.int64], dst: npt.NDArray[np.int64]) -> Pairs:
    return np.stack([src, dst], axis=1).astype(np.int64)


def _count(topology: Topology) -> int:
    count = len(topology.hosts)
    if count < 2:
        raise ConfigError("topology.hosts", count, "two hosts or more, for traffic to flow")
    return count


def _check_most(name: str, number: int, most: int) -> None:
    if number > most:
        raise ConfigError("traffic", name, f"at most {most} on this topology")
