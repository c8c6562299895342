"""Reading the arguments that all tasks on a network share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from dcgym.config import check_in, check_keys
from dcgym.errors import ConfigError
from dcgym.tasks.network.controls import CONGESTION_CONTROLS
from dcgym.topologies import Topology, make_topology, with_marking
from dcgym.units import parse_duration

__all__ = [
    "TopologySpec",
    "read_congestion_control",
    "read_interval",
    "read_topology",
]

TopologySpec: TypeAlias = str | Path | Mapping[str, object] | Topology


def read_topology(
    spec: TopologySpec, marking: bool | Mapping[str, object], given: Topology | None = None
) -> tuple[Topology, bool]:
    """Return the network, and whether its switches mark.

    A default queue that does not hold the threshold of `marking` gives way, as it does to `mark`.

    Args:
        spec: What `make_topology` takes.
        marking: Whether they mark; a mapping replaces how the topology says.
        given: The network of a backend that exists already; it wins over the spec.

    Raises:
        ConfigError: An argument is not allowed.
    """
    topology = make_topology(spec) if given is None else given
    if not isinstance(marking, Mapping):
        return topology, check_in("marking", marking, (True, False))
    if given is not None:
        raise ConfigError("marking", dict(marking), "true or false where a backend is given")
    try:
        return with_marking(topology, marking), bool(marking)
    except ConfigError as error:
        try:
            wider = with_marking(make_topology(spec, mark=marking), marking)
        except ConfigError:
            raise error from None
        return wider, bool(marking)


def read_interval(interval: str | int | float) -> int:
    """Return the control interval in ns; 0 runs freely.

    Args:
        interval: What the user wrote.

    Raises:
        ConfigError: It is no duration, or negative.
    """
    interval_ns = parse_duration(interval, "interval")
    if interval_ns < 0:
        raise ConfigError("interval", interval, "a duration such as '50ms', or '0ms' to run freely")
    return interval_ns


def read_congestion_control(spec: str | Mapping[str, str], topology: Topology) -> dict[str, str]:
    """Return the algorithm of each host.

    Args:
        spec: One for all hosts, or a mapping of host to algorithm; cubic for hosts not named.
        topology: The network.

    Raises:
        ConfigError: Unknown host or algorithm.
    """
    names = [host.name for host in topology.hosts]
    if isinstance(spec, Mapping):
        check_keys(spec, names, "congestion_control")
        chosen = {name: spec.get(name, "cubic") for name in names}
    else:
        chosen = dict.fromkeys(names, spec)
    for algorithm in chosen.values():
        CONGESTION_CONTROLS.find(algorithm)
    return chosen
