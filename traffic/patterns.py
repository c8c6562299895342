"""Who sends to whom: functions from a list of hosts to (source, destination) pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dcgym.errors import ConfigError

__all__ = ["Pattern", "all_to_all", "idle", "incast", "pairs", "random_bijection", "stride"]

Pairs = list[tuple[str, str]]
Pattern = Callable[[Sequence[str], np.random.Generator], Pairs]


def pairs(hosts: Sequence[str], _rng: np.random.Generator) -> Pairs:
    """Host i of the first half sends to host i of the second half."""
    _check_hosts(hosts)
    half = len(hosts) // 2
    return list(zip(hosts[:half], hosts[half:], strict=False))


def incast(hosts: Sequence[str], _rng: np.random.Generator) -> Pairs:
    """Every other host sends to the last one."""
    _check_hosts(hosts)
    return [(host, hosts[-1]) for host in hosts[:-1]]


def all_to_all(hosts: Sequence[str], _rng: np.random.Generator) -> Pairs:
    """Every host sends to every other one."""
    _check_hosts(hosts)
    return [(src, dst) for src in hosts for dst in hosts if src != dst]


def random_bijection(hosts: Sequence[str], rng: np.random.Generator) -> Pairs:
    """Every host sends to one other host and receives from one other host, drawn uniformly."""
    _check_hosts(hosts)
    order = np.arange(len(hosts))
    drawn = rng.permutation(len(hosts))
    # One permutation in e has no fixed point, whatever the number of hosts.
    while np.any(drawn == order):
        drawn = rng.permutation(len(hosts))
    return [(hosts[i], hosts[int(j)]) for i, j in enumerate(drawn)]


def idle(_hosts: Sequence[str], _rng: np.random.Generator) -> Pairs:
    """Nobody sends."""
    return []


def stride(step: int) -> Pattern:
    """Host i sends to host i + step, counted round the end."""

    def pattern(hosts: Sequence[str], _rng: np.random.Generator) -> Pairs:
        _check_hosts(hosts)
        count = len(hosts)
        if step % count == 0:
            raise ConfigError("traffic", f"stride-{step}", f"no multiple of the {count} hosts")
        return [(hosts[i], hosts[(i + step) % count]) for i in range(count)]

    return pattern


def _check_hosts(hosts: Sequence[str]) -> None:
    if len(hosts) < 2:
        raise ConfigError("topology.hosts", len(hosts), "two hosts or more, for traffic to flow")
