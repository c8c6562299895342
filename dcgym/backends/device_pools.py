"""Backends of servers with accelerators: their protocol, and their names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

import numpy.typing as npt

from dcgym.backends.base import Backend, Capabilities, Mask, TimeArray
from dcgym.backends.records import RecordKind
from dcgym.backends.registry import Options, checked_options
from dcgym.config import check_int
from dcgym.registry import Registry
from dcgym.tasks.accelerators.pool import AcceleratorPool
from dcgym.tasks.accelerators.protocol import DeviceCommands, DeviceState

__all__ = ["DEVICE_POOLS", "DevicePool", "DevicePoolMaker", "make_device_pool"]


T = TypeVar("T")


class DevicePool(Backend, Protocol):
    """Copies of one pool of servers with devices, stepped together; E copies, N servers, D devices.

    The clock of each copy begins at 0 with its reset.
    """

    def reset(
        self,
        seeds: npt.ArrayLike,
        rates_per_s: npt.ArrayLike | None = None,
        mask: Mask | None = None,
    ) -> None:
        """Begin anew with these seeds and requests a second, (E,): configured weights."""

    def apply(self, commands: DeviceCommands, mask: Mask | None = None) -> TimeArray:
        """Do what is decided, in some copies, (E,), or in all; returns when it was in force, (E,).

        Raises:
            ConfigError: A command is not allowed; nothing is done then.
        """

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Run each copy until its time, (E,); returns by how much each was missed, (E,)."""

    def read(self, mask: Mask | None = None) -> DeviceState:
        """Return what has happened in some copies since the last call; others' rows say nothing."""

    def records(self, kind: RecordKind[T], env: int) -> T:
        """Return what is recorded of a copy.

        Args:
            kind: `FLOWS` or `OPEN_FLOWS`, requests here (`AcceleratorTwin.records`);
                `EVENT_RECORDS`, or `FIDELITY`.
            env: Number of the copy.
        """


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
