"""The states of several copies of a network, as rows of words that NumPy takes at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.monitors.network.snapshot import (
    HOST_COUNTERS,
    HOST_LEVELS,
    HOST_STATE,
    PORT_COUNTERS,
    PORT_LEVELS,
    PORT_STATE,
    Snapshot,
)

__all__ = ["Fields", "Snapshots", "StateWords"]

Words = npt.NDArray[np.uint64]


class StateWords:
    """Where the words of a network's ports and hosts are in a row.

    The row holds the counters of the switch ports, those of the hosts, what the ports and then what
    the hosts show now; each field of all ports, or of all hosts, lies together, in the order of
    `PORT_STATE` and `HOST_STATE`.

    Args:
        n_ports: Number of switch ports P.
        n_hosts: Number of hosts H.

    Attributes:
        n_ports: The same.
        n_hosts: The same.
        size: Words of a row, W.
        n_counters: Words of counters, at the beginning of a row, C.
        ports: Where the words of each field of the ports are.
        hosts: Where the words of each field of the hosts are.
        port_counters: The counters among `ports`.
        host_counters: The counters among `hosts`.
        counter_starts: Where the words of each counter begin.
        port_columns: Position of each counter of the ports in `counter_starts`.
        host_columns: The same of the hosts' counters.
    """

    def __init__(self, n_ports: int, n_hosts: int) -> None:
        self.n_ports, self.n_hosts = n_ports, n_hosts
        self.ports: dict[str, slice] = {}
        self.hosts: dict[str, slice] = {}
        at = 0
        for slices, names, count in (
            (self.ports, PORT_COUNTERS, n_ports),
            (self.hosts, HOST_COUNTERS, n_hosts),
            (self.ports, PORT_LEVELS, n_ports),
            (self.hosts, HOST_LEVELS, n_hosts),
        ):
            for name in names:
                slices[name] = slice(at, at + count)
                at += count
        self.size = at
        self.n_counters = len(PORT_COUNTERS) * n_ports + len(HOST_COUNTERS) * n_hosts
        self.port_counters = {name: self.ports[name] for name in PORT_COUNTERS}
        self.host_counters = {name: self.hosts[name] for name in HOST_COUNTERS}
        counters = (*self.port_counters.values(), *self.host_counters.values())
        self.counter_starts = np.array([own.start for own in counters])
        self.port_columns = {name: at for at, name in enumerate(PORT_COUNTERS)}
        self.host_columns = {name: at for at, name in enumerate(HOST_COUNTERS, len(PORT_COUNTERS))}

    def starts(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return where the words of each field of the ports, and of the hosts, begin in a row."""
        return (
            {name: own.start for name, own in self.ports.items()},
            {name: own.start for name, own in self.hosts.items()},
        )

    def row_of(self, snapshot: Snapshot) -> Words:
        """Return the row of one state, (W,).

        Args:
            snapshot: The state.
        """
        row = np.empty(self.size, np.uint64)
        for name, own in self.ports.items():
            row[own] = snapshot.ports[name]
        for name, own in self.hosts.items():
            row[own] = snapshot.hosts[name]
        return row

    def structures_of(self, row: Words) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
        """Return ports and hosts of one row as structures, as a `Snapshot` holds them.

        Args:
            row: Words, (W,).
        """
        ports, hosts = np.empty(self.n_ports, PORT_STATE), np.empty(self.n_hosts, HOST_STATE)
        for name, own in self.ports.items():
            ports[name] = row[own]
        for name, own in self.hosts.items():
            hosts[name] = row[own]
        return ports, hosts


class Fields(Mapping[str, npt.NDArray[np.generic]]):
    """Parts of the last axis of an array, by name; views of it.

    Args:
        values: The array, (..., W).
        slices: Where each part is.
    """

    __slots__ = ("_slices", "_values")

    def __init__(self, values: npt.NDArray[np.generic], slices: Mapping[str, slice]) -> None:
        self._values, self._slices = values, slices

    def __getitem__(self, name: str) -> npt.NDArray[np.generic]:
        """Return a part, (..., n)."""
        return self._values[..., self._slices[name]]

    def __contains__(self, name: object) -> bool:
        """Tell whether there is such a part, without making it."""
        return name in self._slices

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._slices)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._slices)


@dataclass(slots=True)
class Snapshots:
    """States of E copies of a network, each at one moment of its own.

    Attributes:
        time_ns: When the collection of each began, on the clock of its backend, (E,).
        words: A row of `StateWords` a copy, (E, W).
        flow_matrix: Bytes by switch port and source host, (E, P, H); None where nobody counts them.
        probe_rtt_ns: `Snapshot.probe_rtt_ns` of each, (E, pairs); None where nothing is probed.
    """

    time_ns: npt.NDArray[np.int64]
    words: Words
    flow_matrix: npt.NDArray[np.float64] | None = None
    probe_rtt_ns: npt.NDArray[np.float64] | None = None

    @classmethod
    def of(cls, layout: StateWords, each: Sequence[Snapshot | None]) -> Snapshots:
        """Return the states of several copies.

        Args:
            layout: Of the rows.
            each: The states, at least one; zeros stand for None.
        """
        known = next(one for one in each if one is not None)
        made = cls(np.zeros(len(each), np.int64), np.zeros((len(each), layout.size), np.uint64))
        if known.flow_matrix is not None:
            made.flow_matrix = np.zeros((len(each), *known.flow_matrix.shape))
        if known.probe_rtt_ns is not None:
            made.probe_rtt_ns = np.zeros((len(each), *known.probe_rtt_ns.shape))
        for env, one in enumerate(each):
            if one is None:
                continue
            made.time_ns[env], made.words[env] = one.time_ns, layout.row_of(one)
            if made.flow_matrix is not None:
                made.flow_matrix[env] = one.flow_matrix
            if made.probe_rtt_ns is not None:
                made.probe_rtt_ns[env] = one.probe_rtt_ns
        return made

    def where(self, mask: npt.NDArray[np.bool_], other: Snapshots) -> Snapshots:
        """Return these states of the copies in a mask, (E,), and others' of the rest.

        Args:
            mask: Whose states are these.
            other: States of as many copies.
        """
        made = Snapshots(
            np.where(mask, self.time_ns, other.time_ns),
            np.where(mask[:, None], self.words, other.words),
        )
        if self.flow_matrix is not None and other.flow_matrix is not None:
            of_each = mask[:, None, None]
            made.flow_matrix = np.where(of_each, self.flow_matrix, other.flow_matrix)
        if self.probe_rtt_ns is not None and other.probe_rtt_ns is not None:
            made.probe_rtt_ns = np.where(mask[:, None], self.probe_rtt_ns, other.probe_rtt_ns)
        return made
