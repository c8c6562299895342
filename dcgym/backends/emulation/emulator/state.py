"""What an emulator runs: the network and the traffic generator that its parts share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dcgym.errors import BackendError
from dcgym.traffic.generators.generator import Generator

if TYPE_CHECKING:
    # Mininet can be imported only once it was looked for.
    from dcgym.backends.emulation.emulator.network import EmulatedNetwork

__all__ = ["EmulatorState"]


class EmulatorState:
    """The network and the generator, once they are built."""

    def __init__(self) -> None:
        self._network: EmulatedNetwork | None = None
        self._generator: Generator | None = None

    def begin(
        self, network: EmulatedNetwork, kind: str = "native", probes: Sequence[tuple[str, str]] = ()
    ) -> Generator:
        """Take a built network, and start the traffic generator of its hosts.

        Args:
            network: The network.
            kind: What sends the flows.
            probes: Pairs of hosts whose round trips are measured.
        """
        names = [host.name for host in network.topology.hosts]
        addresses = [network.topology.ip(name) for name in names]
        hosts = list(zip(range(len(names)), network.spaces.networks, addresses, strict=True))
        self._generator = Generator(hosts, names, probes=probes, kind=kind)
        self._network = network
        return self._generator

    @property
    def network(self) -> EmulatedNetwork:
        """The built network.

        Raises:
            BackendError: It is not built.
        """
        if self._network is None:
            raise BackendError("the network is not built")
        return self._network

    @property
    def generator(self) -> Generator:
        """The traffic generator of the built network.

        Raises:
            BackendError: It is not built.
        """
        if self._generator is None:
            raise BackendError("the network is not built")
        return self._generator
