"""Backends by name: what each can do, which options it takes, and how to make one.

Importing this module registers nothing; `dcgym.backends` registers the backends of this package. A
backend from outside adds a `Maker` of its own to one of the registries.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Generic, TypeVar

from dcgym.backends.base import Capabilities, DevicePool, Network, Pool
from dcgym.backends.needs import DeviceNeeds, NetworkNeeds, PoolNeeds
from dcgym.backends.options import BackendOptions, Values
from dcgym.backends.placement import Placement
from dcgym.config import check_int
from dcgym.errors import ConfigError, suggest
from dcgym.registry import Registry
from dcgym.tasks.placement.data_centre import DataCentre

__all__ = [
    "DEVICE_POOLS",
    "NETWORKS",
    "PLACEMENTS",
    "POOLS",
    "Maker",
    "make_backend",
    "own_options",
]

Needs = TypeVar("Needs")
Made = TypeVar("Made", covariant=True)
Options = TypeVar("Options", bound=BackendOptions)


class Maker(Generic[Needs, Made]):
    """Makes the backends of one name.

    Args:
        name: Name of the backend in configurations.
        capabilities: What they can do, with one choice of the options at least.
        options: The options that may be chosen, which check their values.
        make: Makes copies of what a task needs, with options; nothing is started
            (`dcgym.backends.ensemble.networks` makes one backend of several networks).

    Attributes:
        name: As above.
        capabilities: As above.
        options: As above.
    """

    def __init__(
        self,
        name: str,
        capabilities: Capabilities,
        options: type[Options],
        make: Callable[[Needs, int, Options], Made],
    ) -> None:
        if not (isinstance(options, type) and issubclass(options, BackendOptions)):
            raise ConfigError("options", options, "a subclass of BackendOptions")
        self.name, self.capabilities = name, capabilities
        self.options: type[BackendOptions] = options

        def read_and_make(needs: Needs, n_envs: int, values: Values) -> Made:
            return make(needs, n_envs, options.read(values))

        self._make = read_and_make

    def make(self, needs: Needs, n_envs: int, values: Values) -> Made:
        """Return copies of what a task needs.

        Args:
            needs: What it needs.
            n_envs: Number of copies.
            values: Values of the options, all of them known.

        Raises:
            ConfigError: A value is not allowed, or there cannot be so many copies.
        """
        n_envs = check_int("num_envs", n_envs, 1, self.capabilities.copies)
        return self._make(needs, n_envs, values)


NETWORKS: Registry[Maker[NetworkNeeds, Network]] = Registry("network backends", "backend")
"""Backends of tasks on networks."""

POOLS: Registry[Maker[PoolNeeds, Pool]] = Registry("pool backends", "backend")
"""Backends of tasks on server pools."""

DEVICE_POOLS: Registry[Maker[DeviceNeeds, DevicePool]] = Registry("accelerator backends", "backend")
"""Backends of tasks on servers with accelerators."""

PLACEMENTS: Registry[Maker[DataCentre, Placement]] = Registry("placement backends", "backend")
"""Backends of tasks on the VIPs of a data centre."""


def own_options(
    makers: Registry[Maker[Needs, Made]], name: str | None, options: Values
) -> dict[str, object]:
    """Return options without those of other backends that ask for nothing.

    Args:
        makers: The backends of a protocol.
        name: The name of one; None for a backend of no name, whose options nobody knows.
        options: Values by name.

    Raises:
        ConfigError: There is no such backend, or it does not have an option, whose value asks for
            something.
    """
    known = [] if name is None else makers.find(name).options.names()
    of = "a backend without a name" if name is None else f"the backend {name}"
    own = dict(options)
    for other in [other for other in options if other not in known]:
        value = own.pop(other)
        nothing = [one for maker in makers.values() for one in maker.options.neutral(other)]
        if any(value is one or value == one for one in nothing):
            continue
        allowed = [str(one) for one in nothing if one is not None]
        instead = f"{' or '.join(allowed)}, or left out," if allowed else "left out"
        said = f"{instead} with {of}, which takes {', '.join(known) or 'no options'}"
        raise ConfigError(other, value, said, None if nothing else suggest(other, known))
    return own


def make_backend(
    makers: Registry[Maker[Needs, Made]],
    name: str,
    needs: Needs,
    n_envs: int = 1,
    options: Values = MappingProxyType({}),
) -> Made:
    """Make copies of what a task runs on; nothing is started.

    Args:
        makers: `NETWORKS`, `POOLS`, `DEVICE_POOLS` or `PLACEMENTS`.
        name: A name in there.
        needs: What the task needs.
        n_envs: Number of copies.
        options: Values of the backend's options by name, and those of others that ask for nothing.

    Raises:
        ConfigError: There is no such backend, it does not take an option or its value, it cannot
            run so many copies, or it cannot have such a network, pool or data centre.
    """
    return makers.find(name).make(needs, n_envs, own_options(makers, name, options))
