"""Backends of servers with accelerators: their protocol, and their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy.typing as npt

from dcgym.backends.base import Backend, Capabilities, Fidelity, FloatArray, Mask, Record, TimeArray
from dcgym.backends.registry import Options, checked_options
from dcgym.config import check_int
from dcgym.registry import Registry
from dcgym.tasks.accelerators.pool import AcceleratorPool

__all__ = ["DEVICE_POOLS", "DevicePool", "DevicePoolMaker", "make_device_pool"]


class DevicePool(Backend, Protocol):
    """Copies of one pool of servers with devices, stepped together; E copies, N servers, D devices.

    The clock of each copy begins at 0 with its reset.
    """

    @property
    def pool(self) -> AcceleratorPool:
        """Servers, devices, requests and events, the same in every copy."""

    @property
    def n_envs(self) -> int:
        """Number of copies."""

    def reset(
        self,
        seeds: npt.ArrayLike,
        rates_per_s: npt.ArrayLike | None = None,
        mask: Mask | None = None,
    ) -> None:
        """Begin anew with these seeds and requests a second, (E,): configured weights."""

    def set_rules(
        self, device_rule: str, server_rule: str = "ecmp", mask: Mask | None = None
    ) -> None:
        """Place new requests by these rules from now on."""

    def set_weights(self, weights: FloatArray, mask: Mask | None = None) -> TimeArray:
        """Weigh the devices, (E, N, D) or what broadcasts; returns when that was in force, (E,)."""

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Run each copy until its time, (E,); returns by how much each was missed, (E,)."""

    def now_ns(self) -> TimeArray:
        """Return the time of each copy, (E,)."""

    def observe(self, mask: Mask | None = None) -> Mapping[str, npt.NDArray[Any]]:
        """Return what has happened since the last call (`AcceleratorTwin.observe` lists it)."""

    def records(self, env: int) -> npt.NDArray[Any]:
        """Return and forget the finished requests of a copy."""

    def under_way(self, env: int) -> npt.NDArray[Any]:
        """Return the requests of a copy that have not ended (`AcceleratorTwin.under_way`)."""

    def event_records(self, env: int) -> list[Record]:
        """Return the events that have happened in a copy since its reset."""

    def fidelity(self, env: int) -> Fidelity:
        """Say how far the episode of a copy can be believed."""


MakeDevicePool: TypeAlias = Callable[[AcceleratorPool, int, Options], DevicePool]


@dataclass(frozen=True)
class DevicePoolMaker:
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
    make: MakeDevicePool


DEVICE_POOLS: Registry[DevicePoolMaker] = Registry("accelerator backends", "backend")
"""Backends of tasks on servers with accelerators."""


def make_device_pool(
    name: str, pool: AcceleratorPool, n_envs: int = 1, options: Options | None = None
) -> DevicePool:
    """Make copies of a pool; nothing is started.

    Args:
        name: A name in `DEVICE_POOLS`.
        pool: Servers, devices, requests.
        n_envs: Number of copies.
        options: Options that the backend takes.

    Raises:
        ConfigError: There is no such backend, it does not take an option or its value, or it
            cannot run so many copies.
    """
    maker = DEVICE_POOLS.find(name)
    given = checked_options(maker, options)
    n_envs = check_int("num_envs", n_envs, 1, maker.capabilities.copies)
    return maker.make(pool, n_envs, given)
