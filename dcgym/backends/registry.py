"""Backends by name: what each can do, which options it takes, and how to make one.

Importing this module registers nothing; `dcgym.backends` registers the backends of this package. A
backend from outside adds a `Maker` of its own to one of the registries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from dcgym.backends.base import Capabilities, DevicePool, Network, Pool
from dcgym.backends.placement import Placement
from dcgym.config import check_int
from dcgym.errors import ConfigError, suggest
from dcgym.registry import Registry
from dcgym.tasks.accelerators.pool import AcceleratorPool
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.tasks.placement.data_centre import DataCentre
from dcgym.topologies import Topology
from dcgym.traffic.generators.host_access import HOST_ACCESS

__all__ = [
    "ASKS_NOTHING",
    "DEVICE_POOLS",
    "NETWORKS",
    "PLACEMENTS",
    "POOLS",
    "Maker",
    "Options",
    "checked_options",
    "make_backend",
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

Subject = TypeVar("Subject")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Maker(Generic[Subject, Made]):
    """Makes the backends of one name.

    Attributes:
        name: Name of the backend in configurations.
        capabilities: What they can do.
        options: Names of the options that `make` takes.
        make: Makes the copies of a topology, a scenario, a pool or a data centre, and checks the
            values of the options (`dcgym.backends.ensemble.networks` makes one backend of several
            networks).
    """

    name: str
    capabilities: Capabilities
    options: frozenset[str]
    make: Callable[[Subject, int, Options], Made]


NETWORKS: Registry[Maker[Topology, Network]] = Registry("network backends", "backend")
"""Backends of tasks on networks."""

POOLS: Registry[Maker[Scenario, Pool]] = Registry("pool backends", "backend")
"""Backends of tasks on server pools."""

DEVICE_POOLS: Registry[Maker[AcceleratorPool, DevicePool]] = Registry(
    "accelerator backends", "backend"
)
"""Backends of tasks on servers with accelerators."""

PLACEMENTS: Registry[Maker[DataCentre, Placement]] = Registry("placement backends", "backend")
"""Backends of tasks on the VIPs of a data centre."""


def make_backend(
    makers: Registry[Maker[Subject, Made]],
    name: str,
    subject: Subject,
    n_envs: int = 1,
    options: Options | None = None,
) -> Made:
    """Make copies of what a task runs on; nothing is started.

    Args:
        makers: `NETWORKS`, `POOLS`, `DEVICE_POOLS` or `PLACEMENTS`.
        name: A name in there.
        subject: The topology, the scenario, the pool or the data centre.
        n_envs: Number of copies.
        options: Options that the backend takes.

    Raises:
        ConfigError: There is no such backend, it does not take an option or its value, it cannot
            run so many copies, or it cannot have such traffic or servers.
    """
    maker = makers.find(name)
    checked = checked_options(maker, options)
    n_envs = check_int("num_envs", n_envs, 1, maker.capabilities.copies)
    if isinstance(subject, Scenario):
        _check_scenario(name, maker.capabilities, subject)
    return maker.make(subject, n_envs, checked)


def _check_scenario(name: str, can: Capabilities, scenario: Scenario) -> None:
    """Refuse traffic and servers that a backend cannot have."""
    workload = scenario.workload
    if workload.is_closed_loop and not can.closed_loops:
        allowed = f"open arrivals with the backend {name}"
        raise ConfigError("scenario.arrivals", workload.arrivals.name, allowed)
    for group in scenario.pool.groups:
        for one in group.resources:
            if one.limit is not None and not can.stage_limits:
                allowed = f"None with the backend {name}"
                raise ConfigError(f"group.{one.name}_limit", one.limit, allowed)


def checked_options(maker: Maker[Any, Any], options: Options | None) -> Options:
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


def _allowed(maker: Maker[Any, Any], name: str) -> str:
    """Return what is allowed as an option that a backend does not have."""
    values = [str(value) for value in ASKS_NOTHING.get(name, ()) if value not in (None, ())]
    instead = f"{' or '.join(values)}, or left out," if values else "left out"
    options = ", ".join(sorted(maker.options)) or "no options"
    return f"{instead} with the backend {maker.name}, which takes {options}"
