"""Jellyfish: switches in a random regular graph (Singla, Hong, Popa, Godfrey, NSDI 2012)."""

from __future__ import annotations

from collections import deque

import numpy as np

from dcgym.config import check_int
from dcgym.defaults import DefaultCount
from dcgym.errors import ConfigError
from dcgym.topologies.delays import DelaySpec
from dcgym.topologies.graph import Topology
from dcgym.topologies.links import DEFAULT_MARK, DEFAULT_QUEUE, Tiers, parse_tiers
from dcgym.topologies.marking import MarkSpec

__all__ = ["jellyfish"]

_MAX_SWITCHES = 1024
_MAX_DEGREE = 64
_ATTEMPTS = 1000
_STUCK = 20  # fruitless shuffles of the last few ports before the graph is drawn anew

_Edge = tuple[int, int]


# Long because it describes each of its parameters.
def jellyfish(
    switches: int = DefaultCount(10),
    degree: int = DefaultCount(3),
    hosts_per_switch: int = 2,
    seed: int = 0,
    rate: str | int = "100Mbit",
    queue: str | int = DEFAULT_QUEUE,
    mark: MarkSpec = DEFAULT_MARK,
    delay: DelaySpec = 0,
    tiers: Tiers = None,
    mtu: str | int = 1500,
) -> Topology:
    """Build a Jellyfish network: every switch has the same number of random switch neighbours.

    The paper routes over the k shortest paths; here, as in every topology, all shortest paths
    share the traffic, which in a random graph are often only one or two.

    Args:
        switches: Number of switches; where nobody says, twice the degree if 10 cannot have it.
        degree: Ports of each switch that lead to other switches; switches * degree is even. Where
            nobody says, 3, or 4 if the number of switches is odd, or fewer of few switches.
        hosts_per_switch: Hosts at each switch.
        seed: Seed of the graph; the same seed gives the same graph.
        rate: Rate of every link.
        queue: Limit of each queue.
        mark: Backlog above which ECN-capable packets are marked; None for no threshold.
        delay: One-way delay of each link (see `parse_delay`); a number is in seconds.
        tiers: What differs in the tiers "host" and "core" (the links between the switches), such
            as ``{"core": {"rate": "1Gbit"}}``.
        mtu: Largest IP packet of each link, in bytes.

    Returns:
        The topology, with hosts h1, h2, ... and switches s1, s2, ...

    Raises:
        ConfigError: A parameter is not allowed.
    """
    switches, degree, hosts_per_switch = _sizes(switches, degree, hosts_per_switch)
    seed = check_int("seed", seed, 0)
    shapes = parse_tiers(("host", "core"), rate, queue, mark, delay, tiers, mtu)
    names = [f"s{number + 1}" for number in range(switches)]
    hosts = [f"h{number + 1}" for number in range(switches * hosts_per_switch)]
    at = [names[number // hosts_per_switch] for number in range(len(hosts))]
    links = [shapes["host"].link(*ends) for ends in zip(hosts, at, strict=True)]
    edges = _connected_regular_graph(switches, degree, seed)
    links += [shapes["core"].link(names[a], names[b]) for a, b in edges]
    roles = [(name, "host") for name in hosts] + [(name, "switch") for name in names]
    return Topology.build("jellyfish", roles, links)


def _fitted(switches: int, degree: int) -> tuple[int, int]:
    """Let a default give way to what was asked for."""
    if isinstance(degree, DefaultCount) and not isinstance(switches, DefaultCount):
        # An odd number of switches cannot have three ports each.
        fits = next(d for d in (3, 4, 2, 1) if d < switches and switches * d % 2 == 0)
        return switches, fits
    if isinstance(switches, DefaultCount) and not isinstance(degree, DefaultCount):
        return (switches if 1 < degree < switches else 2 * degree), degree
    return switches, degree


def _sizes(switches: int, degree: int, hosts_per_switch: int) -> tuple[int, int, int]:
    switches = check_int("switches", switches, 2, _MAX_SWITCHES)
    hosts_per_switch = check_int("hosts_per_switch", hosts_per_switch, 1, _MAX_SWITCHES)
    switches, degree = _fitted(switches, check_int("degree", degree, 1, _MAX_DEGREE))
    check_int("degree", degree, 1 if switches == 2 else 2, min(_MAX_DEGREE, switches - 1))
    if switches * degree % 2:
        raise ConfigError("degree", degree, f"an even number, as there are {switches} switches")
    return switches, degree, hosts_per_switch


def _connected_regular_graph(n: int, degree: int, seed: int) -> list[_Edge]:
    """Return sorted edges; draws again until the graph is simple and in one piece."""
    rng = np.random.default_rng(seed)
    # A dense graph is drawn by the links that it lacks.
    drawn = min(degree, n - 1 - degree)
    for _ in range(_ATTEMPTS):
        edges = _regular_graph(n, drawn, rng)
        if edges is not None and drawn != degree:
            edges = {(a, b) for b in range(n) for a in range(b)} - edges
        if edges is not None and _is_connected(n, edges):
            return sorted(edges)
    raise ConfigError("degree", degree, "a degree at which a random graph is connected")


def _regular_graph(n: int, degree: int, rng: np.random.Generator) -> set[_Edge] | None:
    """Pair free ports at random, and again those whose link would be double or a loop.

    After Steger and Wormald, "Generating random regular graphs quickly" (1999): close to uniform.
    Returns None where the last free ports fit no more.
    """
    edges: set[_Edge] = set()
    ports = np.repeat(np.arange(n), degree)
    stuck = 0
    while ports.size and stuck < _STUCK:
        rng.shuffle(ports)
        unfit: list[int] = []
        for first, second in ports.reshape(-1, 2).tolist():
            edge = (min(first, second), max(first, second))
            if first == second or edge in edges:
                unfit += edge
            else:
                edges.add(edge)
        stuck = stuck + 1 if len(unfit) == ports.size else 0
        ports = np.array(unfit, np.int64)
    return None if ports.size else edges


def _is_connected(n: int, edges: set[_Edge]) -> bool:
    neighbours: dict[int, list[int]] = {switch: [] for switch in range(n)}
    for a, b in edges:
        neighbours[a].append(b)
        neighbours[b].append(a)
    reached, waiting = {0}, deque([0])
    while waiting:
        for neighbour in neighbours[waiting.popleft()]:
            if neighbour not in reached:
                reached.add(neighbour)
                waiting.append(neighbour)
    return len(reached) == n
