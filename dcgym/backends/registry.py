"""Backends by name: what each can do, which options it takes, and how to make one.

Importing this module registers nothing; `dcgym.backends` registers the backends of this package. A
backend from outside calls ``NETWORKS.add`` or ``POOLS.add`` with a maker of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from dcgym.backends.base import Capabilities, Network, Pool
from dcgym.backends.placement import Placement
from dcgym.config import check_int
from dcgym.errors import ConfigError, suggest
from dcgym.registry import Registry
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.tasks.placement.data_centre import DataCentre
from dcgym.topologies import Topology
from dcgym.traffic.generators.host_access import HOST_ACCESS

__all__ = [
    "ASKS_NOTHING",
    "NETWORKS",
    "PLACEMENTS",
    "POOLS",
    "Maker",
    "NetworkMaker",
    "Options",
    "PlacementMaker",
    "PoolMaker",
    "checked_options",
    "make_network",
    "make_placement",
    "make_pool",
]

Options: TypeAlias = Mapping[str, object]
"""Values of a backend's options by name; one that is missing has the backend's default."""

ASKS_NOTHING: Mapping[str, tuple[object, ...]] = {
    "switch": ("ebpf",),
    "preflight": (False,),
    "generator": ("native",),
    "host_access": HOST_ACCESS[:-1],
    "probes": ((),),
    "threads": (1,),
    "server_program": (None,),
    "transport": ("udp",),
    "work": ("timed",),
}
"""Values with which an option asks for nothing that a backend without it does not do anyway: to
leave something out, to forbid something to processes that it has none of, or what it is a twin of.
Every backend takes these; any other value only a backend that has the option."""

MakeNetwork: TypeAlias = Callable[[Topology, int, Options], Network]
MakePool: TypeAlias = Callable[[Scenario, int, Options], Pool]
MakePlacement: TypeAlias = Callable[[DataCentre, int, Options], Placement]


@dataclass(frozen=True)
class NetworkMaker:
    """Makes the networks of one backend.

    Attributes:
        name: Name of the backend in configurations.
        capabilities: What its networks can do.
        options: Names of the options that `make` takes.
        make: Makes the copies of one network, and checks the values of the options
            (`dcgym.backends.ensemble.networks` makes one backend of several).
    """

    name: str
    capabilities: Capabilities
    options: frozenset[str]
    make: MakeNetwork


@dataclass(frozen=True)
class PoolMaker:
    """Makes the pools of one backend.

    Attributes:
        name: Name of the backend in configurations.
        capabilities: What its pools can do.
        options: Names of the options that `make` takes.
        make: Makes the copies of one pool, and checks the values of the options.
    """

    name: str
    capabilities: Capabilities
    options: frozenset[str]
    make: MakePool


@dataclass(frozen=True)
class PlacementMaker:
    """Makes the data centres of one backend.

    Attributes:
        name: Name of the backend in configurations.
        capabilities: What it can do.
        options: Names of the options that `make` takes.
        make: Makes the copies of one data centre.
    """

    name: str
    capabilities: Capabilities
    options: frozenset[str]
    make: MakePlacement


NETWORKS: Registry[NetworkMaker] = Registry("network backends", "backend")
"""Backends of tasks on networks."""

POOLS: Registry[PoolMaker] = Registry("pool backends", "backend")
"""Backends of tasks on server pools."""

PLACEMENTS: Registry[PlacementMaker] = Registry("placement backends", "backend")
"""Backends of tasks on the VIPs of a data centre."""


def make_network(
    name: str, topology: Topology, n_envs: int = 1, options: Options | None = None
) -> Network:
    """Make copies of a network; nothing is started.

    Args:
        name: A name in `NETWORKS`.
        topology: The network.
        n_envs: Number of copies.
        options: Options that the backend takes.

    Raises:
        ConfigError: There is no such backend, it does not take an option or its value, or it
            cannot run so many copies.
    """
    maker = NETWORKS.find(name)
    checked = checked_options(maker, options)
    n_envs = check_int("num_envs", n_envs, 1, maker.capabilities.copies)
    return maker.make(topology, n_envs, checked)


def make_pool(
    name: str, scenario: Scenario, n_envs: int = 1, options: Options | None = None
) -> Pool:
    """Make copies of a server pool; nothing is started.

    Args:
        name: A name in `POOLS`.
        scenario: The pool and its traffic.
        n_envs: Number of copies.
        options: Options that the backend takes.

    Raises:
        ConfigError: There is no such backend, it does not take an option or its value, or it
            cannot run so many copies.
    """
    maker = POOLS.find(name)
    checked = checked_options(maker, options)
    n_envs = check_int("num_envs", n_envs, 1, maker.capabilities.copies)
    _check_scenario(maker, scenario)
    return maker.make(scenario, n_envs, checked)


def make_placement(
    name: str, data_centre: DataCentre, n_envs: int = 1, options: Options | None = None
) -> Placement:
    """Make copies of a data centre; nothing is started.

    Args:
        name: A name in `PLACEMENTS`.
        data_centre: Switches, links, tables and muxes.
        n_envs: Number of copies.
        options: Options that the backend takes.

    Raises:
        ConfigError: There is no such backend, it does not take an option, or it cannot run so many
            copies.
    """
    maker = PLACEMENTS.find(name)
    checked = checked_options(maker, options)
    n_envs = check_int("num_envs", n_envs, 1, maker.capabilities.copies)
    return maker.make(data_centre, n_envs, checked)


def _check_scenario(maker: PoolMaker, scenario: Scenario) -> None:
    """Refuse traffic and servers that a backend cannot have."""
    can, workload = maker.capabilities, scenario.workload
    if workload.is_closed_loop and not can.closed_loops:
        allowed = f"open arrivals with the backend {maker.name}"
        raise ConfigError("scenario.arrivals", workload.arrivals.name, allowed)
    for group in scenario.pool.groups:
        for one in group.resources:
            if one.limit is not None and not can.stage_limits:
                allowed = f"None with the backend {maker.name}"
                raise ConfigError(f"group.{one.name}_limit", one.limit, allowed)


class Maker(Protocol):
    """What makers of any kind of backend say of it."""

    @property
    def name(self) -> str:
        """Name of the backend in configurations."""

    @property
    def options(self) -> frozenset[str]:
        """Names of the options that it takes."""


def checked_options(maker: Maker, options: Options | None) -> Options:
    """Return the options that a backend is made with.

    One that the backend does not have is left out where its value is in `ASKS_NOTHING`.

    Args:
        maker: What takes them.
        options: Values by name; None for none.

    Raises:
        ConfigError: The backend does not have one of them, whose value asks for something.
    """
    given = dict(options or {})
    for name in [name for name in given if name not in maker.options]:
        value = given.pop(name)
        if not any(value is one or value == one for one in ASKS_NOTHING.get(name, ())):
            hint = None if name in ASKS_NOTHING else suggest(name, maker.options)
            raise ConfigError(name, value, _allowed(maker, name), hint)
    return given


def _allowed(maker: Maker, name: str) -> str:
    """Return what is allowed as an option that a backend does not have."""
    values = [str(value) for value in ASKS_NOTHING.get(name, ()) if value not in (None, ())]
    instead = f"{' or '.join(values)}, or left out," if values else "left out"
    options = ", ".join(sorted(maker.options)) or "no options"
    return f"{instead} with the backend {maker.name}, which takes {options}"
