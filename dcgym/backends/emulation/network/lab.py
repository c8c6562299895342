"""What can be done to a running network by hand: commands in hosts, pings, counters of drops."""

from __future__ import annotations

from collections.abc import Sequence

from dcgym.backends.emulation.session.process import EmulatorProcess
from dcgym.backends.emulation.session.session import EmulatorSession
from dcgym.backends.emulation.wire.messages import (
    DeadPorts,
    Done,
    Drops,
    LostPairs,
    PingAllPairs,
    ReadDeadPorts,
    ReadDrops,
    SendBurst,
    SetMarking,
)
from dcgym.traffic.generators.generator import GeneratorView

__all__ = ["NetworkLab"]

PING_DEADLINE_S = 120.0


class NetworkLab:
    """A workbench for tests, experiments and commands; no environment needs it.

    Args:
        session: The running emulator.
    """

    def __init__(self, session: EmulatorSession) -> None:
        self._session = session

    @property
    def process(self) -> EmulatorProcess:
        """The emulator's process."""
        return self._session.process

    @property
    def generator(self) -> GeneratorView:
        """The counters and records of the traffic generator."""
        return self._session.generator

    @property
    def generator_process(self) -> int:
        """The traffic generator as a pidfd, owned by the session."""
        return self._session.generator_process

    def execute(self, host: str, *argv: str, timeout_s: float = 10.0) -> str:
        """Run a command in a host's namespaces and return its output.

        Another thread may step the environment meanwhile: neither waits for the other.

        Args:
            host: Name of the host.
            *argv: The command and its arguments.
            timeout_s: How long it may take.

        Raises:
            CommandError: It failed or took too long.
        """
        return self._session.execute(host, argv, timeout_s)

    def ping_matrix(self) -> list[tuple[str, str]]:
        """Ping between all ordered pairs of hosts; returns those without an answer."""
        return list(self._session.call(PingAllPairs(), LostPairs, PING_DEADLINE_S).pairs)

    def drops(self) -> dict[str, int]:
        """Return what the fabric refused to forward, by reason."""
        return self._session.call(ReadDrops(), Drops).counts

    def dead_ports(self) -> list[str]:
        """Return the switch ports that the routes avoid now, by name."""
        return list(self._session.call(ReadDeadPorts(), DeadPorts).names)

    def set_marking(self, is_on: bool) -> None:
        """Switch the marking of all ports on or off."""
        self._session.call(SetMarking(is_on), Done)

    def burst(self, sources: Sequence[str], target: str, datagrams: int) -> None:
        """Hand datagrams for one host to the queues of others.

        Args:
            sources: Names of the senders.
            target: Name of the receiver.
            datagrams: How many each sender sends, each a full frame (`full_frame_bytes`).
        """
        self._session.call(SendBurst(tuple(sources), target, datagrams), Done)
