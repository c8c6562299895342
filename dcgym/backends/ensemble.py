"""Backends of one network each, stepped together as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Capabilities, Mask, Network, Startable
from dcgym.backends.records import RecordKind
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.protocol import NOTHING, NetworkCommands, NetworkState

__all__ = ["NetworkEnsemble", "networks"]

T = TypeVar("T")
TimeArray = npt.NDArray[np.int64]


class NetworkEnsemble:
    """Networks of one copy each as one of several (`dcgym.backends.base.Network`).

    They share nothing but the caller's thread. Networks in real time all run while one of them is
    waited for: their intervals end at their own deadlines, in the order of these.

    Args:
        networks: One or more, over the same topology.
    """

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = tuple(networks)
        # State of each copy at its own deadline, until somebody asks for it.
        self._ended: list[NetworkState | None] = [None] * len(self._networks)

    @property
    def networks(self) -> tuple[Network, ...]:
        """The single networks."""
        return self._networks

    @property
    def name(self) -> str:
        """Name of the networks' backend."""
        return self._networks[0].name

    @property
    def capabilities(self) -> Capabilities:
        """Those of a single network."""
        return self._networks[0].capabilities

    def reset(self, episodes: Sequence[NetworkEpisode | None]) -> None:
        """Begin an episode in each copy that has one here."""
        for network in self._networks:
            if isinstance(network, Startable):
                network.start()
        for env, episode in enumerate(episodes):
            if episode is not None:
                self._ended[env] = None
                self._networks[env].reset([episode])

    def apply(self, commands: NetworkCommands, mask: Mask | None = None) -> TimeArray:
        """Do what is decided, in some copies, (E,), or in all; returns when it was in force."""
        in_force_ns = np.zeros(len(self._networks), np.int64)
        for env, network in enumerate(self._networks):
            own = NOTHING
            if commands is not NOTHING and (mask is None or mask[env]):
                # An action makes the state at the last deadline old.
                self._ended[env], own = None, commands.of(env)
            [in_force_ns[env]] = network.apply(own)
        return in_force_ns

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Run each copy until its time, (E,)."""
        overruns_ns = np.zeros(len(self._networks), np.int64)
        for env in np.argsort(until_ns, kind="stable"):
            [overruns_ns[env]] = self._networks[env].advance(until_ns[env : env + 1])
            # The copies after it must not lengthen its interval.
            self._ended[env] = self._networks[env].read()
        return overruns_ns

    def read(self, mask: Mask | None = None) -> NetworkState:
        """Return the states of some copies at the end of their `advance`, once; then the present.

        Args:
            mask: Which, (E,); None for all.
        """
        states: list[NetworkState | None] = [None] * len(self._networks)
        for env, network in enumerate(self._networks):
            if mask is None or mask[env]:
                ended, self._ended[env] = self._ended[env], None
                states[env] = network.read() if ended is None else ended
        return NetworkState.joined(states)

    def records(self, kind: RecordKind[T], env: int) -> T:
        """Return what is recorded of a copy."""
        return self._networks[env].records(kind, 0)

    def close(self) -> None:
        """End all copies; a second call does nothing."""
        for network in self._networks:
            network.close()


def networks(n_envs: int, make: Callable[[], Network]) -> Network:
    """Return a backend of so many copies.

    Args:
        n_envs: Number of copies.
        make: Makes a network of one copy.
    """
    made = [make() for _ in range(n_envs)]
    return made[0] if n_envs == 1 else NetworkEnsemble(made)
