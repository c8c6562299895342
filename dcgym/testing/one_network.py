"""One network, driven by hand: for tests, probes and scripts, which know no copies."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Network
from dcgym.backends.records import ENDED_FLOWS, RecordKind
from dcgym.monitors import Snapshot, StateWords
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.protocol import NOTHING, NetworkCommands
from dcgym.topologies import Topology

__all__ = ["OneNetwork"]

T = TypeVar("T")


class OneNetwork:
    """A backend of one copy, without the axis of copies; other attributes are the backend's.

    Args:
        backend: The network.
        topology: Its topology; None for the one that it has as an attribute.

    Attributes:
        backend: The same.
        topology: The same.
    """

    def __init__(self, backend: Network, topology: Topology | None = None) -> None:
        self.backend = backend
        self.topology: Topology = self.topology if topology is None else topology
        self._layout = StateWords(len(self.topology.switch_ports), len(self.topology.hosts))

    def __getattr__(self, name: str) -> Any:
        """Return what only this backend has."""
        if name == "backend" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.backend, name)

    def reset(self, episode: NetworkEpisode) -> None:
        """Begin an episode (`Network.reset`)."""
        self.backend.reset([episode])

    def apply(self, **commands: Any) -> int:
        """Do what is decided; returns when it was in force, or, where nothing is, the time.

        Args:
            **commands: Fields of `NetworkCommands`; arrays without the axis of copies, but those of
                `flow_commands`, (1, F).
        """
        for name in ("rates_bps", "path_weights"):
            if name in commands:
                commands[name] = np.asarray(commands[name])[None]
        return int(self.backend.apply(NetworkCommands(**commands) if commands else NOTHING)[0])

    def now_ns(self) -> int:
        """Return the time of the clock that snapshots are stamped with."""
        return self.apply()

    def advance(self, until_ns: int) -> int:
        """Let the network run until a time; returns by how much it was missed, in ns."""
        return int(self.backend.advance(np.array([until_ns], np.int64))[0])

    def snapshot(self) -> Snapshot:
        """Read the state, and begin a new interval for the peak queues."""
        state = self.backend.read()
        matrix, rtts_ns = state.flow_matrix, state.probe_rtt_ns
        return Snapshot(
            int(state.time_ns[0]),
            *self._layout.structures_of(state.words[0]),
            None if matrix is None else matrix[0],
            None if rtts_ns is None else rtts_ns[0],
        )

    def finished(self) -> bool:
        """Read the state, and tell whether every flow of the plan has ended."""
        return bool(self.backend.read().finished[0])

    def flow_states(self) -> npt.NDArray[np.void]:
        """Read the state, and return the steered flows, (F,) of `AGENT_FLOW`."""
        found = self.backend.read().flows
        return np.zeros(0, np.void) if found is None else found[0]

    def flow_records(self) -> npt.NDArray[np.void]:
        """Return the flows that have ended since the reset."""
        return self.records(ENDED_FLOWS)

    def records(self, kind: RecordKind[T]) -> T:
        """Return what is recorded (`Network.records`)."""
        return self.backend.records(kind, 0)

    def close(self) -> None:
        """End the backend; a second call does nothing."""
        self.backend.close()
