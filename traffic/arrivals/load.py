"""How much of a plan's traffic each link carries, with equal-cost paths shared evenly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError, suggest
from dcgym.traffic.plans.patterns import Pairs

if TYPE_CHECKING:
    from dcgym.topologies import Topology

__all__ = ["link_amounts", "most_loaded", "resolve_link"]

FloatArray = npt.NDArray[np.float64]


def link_amounts(topology: Topology, pairs: Pairs, amounts: FloatArray) -> FloatArray:
    """Spread what pairs of hosts exchange over the links.

    Args:
        topology: The network; its routes are followed, equal-cost next hops in equal shares.
        pairs: Shape (n, 2), indexes of source and destination.
        amounts: Shape (n,), what each pair exchanges, in any unit.

    Returns:
        The amount on each of `Topology.directed_ports`.
    """
    return topology.splits.carried(pairs, amounts)


def most_loaded(topology: Topology, carried: FloatArray) -> int:
    """Return the place in `Topology.directed_ports` with the highest amount for its rate.

    Args:
        topology: The network.
        carried: Amount on each of `Topology.directed_ports`.
    """
    rates_bps = np.array([port.rate_bps for port in topology.directed_ports], np.float64)
    return int(np.argmax(carried / rates_bps))


def resolve_link(topology: Topology, name: object, carried: FloatArray, field: str) -> int:
    """Return the place in `Topology.directed_ports` of a link that a user names.

    Args:
        topology: The network.
        name: "bottleneck" for the link with the highest load, or "s1-s2" for the direction from
            s1 to s2 (the busiest one, if several links join them).
        carried: Amount on each of `Topology.directed_ports`.
        field: Names the field in the error message.

    Raises:
        ConfigError: No such link, or nothing crosses it.
    """
    if name == "bottleneck":
        return most_loaded(topology, carried)
    ports = topology.directed_ports
    names = [f"{port.node}-{port.peer}" for port in ports]
    if name not in names:
        allowed = f"bottleneck, or a link of {topology.name} such as {names[-1]}"
        raise ConfigError(field, name, allowed, suggest(name, names))
    chosen = max((i for i, known in enumerate(names) if known == name), key=lambda i: carried[i])
    if carried[chosen] <= 0:
        raise ConfigError(field, name, "a link that some of the pairs use")
    return chosen
