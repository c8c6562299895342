"""The agents of a pod's devices, one process each in its network. Runs in the emulator."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dcgym.errors import BackendError
from dcgym.traffic.generators.host_spaces import start_in_host

__all__ = ["AgentPlace", "DeviceAgents"]

PROGRAM = Path(__file__).with_name("agent_program.py")
START_DEADLINE_S = 20.0
# Shares of a period that agents are apart: their golden section spreads any number of them.
_PHASE = 0.618034


@dataclass(frozen=True)
class AgentPlace:
    """Where an agent runs, and for which device.

    Attributes:
        namespace: File of the device's network namespace.
        interface: Its interface.
        server: Number of its server.
        device: Its position there.
    """

    namespace: str
    interface: str
    server: int
    device: int


class DeviceAgents:
    """One agent a device.

    Args:
        places: The devices, in the order of their rows.
        settings: `AgentSettings`, and how to reach the balancer, as plain data.
        rows_fd: The stations' rows.
        shown_fd: Memory that the agents show their counts in.

    Attributes:
        pidfds: The processes.

    Raises:
        BackendError: One did not start.
    """

    def __init__(
        self,
        places: Sequence[AgentPlace],
        settings: Mapping[str, object],
        rows_fd: int,
        shown_fd: int,
    ) -> None:
        shared = {**settings, "rows_fd": rows_fd, "shown_fd": shown_fd, "n_rows": len(places)}
        self._processes = [
            self._start(number, place, shared) for number, place in enumerate(places)
        ]
        for process, place in zip(self._processes, places, strict=True):
            _await_ready(process, place)
        self.pidfds = [os.pidfd_open(process.pid) for process in self._processes]

    def _start(
        self, number: int, place: AgentPlace, shared: Mapping[str, object]
    ) -> subprocess.Popen[bytes]:
        own = {
            "number": number,
            "server": place.server,
            "device": place.device,
            "interface": place.interface,
            "seed": number,
            "phase": number * _PHASE % 1,
        }
        # Neither site packages nor the environment's: it starts in a fraction of the time.
        program = [sys.executable, "-I", "-S", str(PROGRAM), json.dumps({**shared, **own})]
        fds = (int(str(shared["rows_fd"])), int(str(shared["shown_fd"])))
        return start_in_host(
            place.namespace,
            program,
            pass_fds=fds,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd="/",
        )

    def begin(self) -> None:
        """Let all forget what they saw, and speak."""
        for process in self._processes:
            process.send_signal(signal.SIGUSR1)
            process.send_signal(signal.SIGCONT)

    def silence(self, number: int, is_silent: bool) -> None:
        """Stop an agent, or let it go on.

        Args:
            number: Of its station.
            is_silent: Whether it stops.
        """
        self._processes[number].send_signal(signal.SIGSTOP if is_silent else signal.SIGCONT)


def _await_ready(process: subprocess.Popen[bytes], place: AgentPlace) -> None:
    assert process.stdout is not None
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    if not poll.poll(START_DEADLINE_S * 1000) or process.stdout.readline() != b"ready\n":
        process.kill()
        where = f"of device {place.device} of server {place.server}"
        raise BackendError(f"the agent {where} did not start")
