"""The states of several copies of a network, as rows of words that NumPy takes at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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

__all__ = ["Fields", "StateWords"]

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
