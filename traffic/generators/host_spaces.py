"""The spaces of emulated hosts: processes that see those of their own host alone.

Beside its network namespace a host has a pid namespace and a mount namespace. A process of
``dcgym-host`` holds all three: its number stands in the path of the network namespace,
``/proc/PID/ns/net``, by which a host is known, and the others lie beside.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dcgym.errors import BackendError
from dcgym.native import program_path
from dcgym.traffic.generators.host_access import chosen_access

__all__ = ["HostSpaces", "children_in", "host_words", "join_namespace", "start_in_host"]

START_DEADLINE_S = 30.0
END_DEADLINE_S = 5.0

_libc = ctypes.CDLL(None, use_errno=True)
_libc.setns.argtypes = (ctypes.c_int, ctypes.c_int)
_libc.setns.restype = ctypes.c_int


class HostSpaces:
    """Spaces that end with this object, or with this process, and all processes in them too.

    Attributes:
        networks: File of the network namespace of each.
    """

    def __init__(self, networks: Sequence[str], *, nested: bool = False) -> None:
        """Make them.

        Args:
            networks: File of the network namespace of each.
            nested: Whether to make each in the space that the network namespace belongs to, whose
                processes see those of the new one too.

        Raises:
            BackendError: They cannot be made.
            FeatureNotSupported: The program is not built.
        """
        way = ["nest"] if nested else ["hold", chosen_access()]
        self._process = subprocess.Popen(
            [str(program_path("dcgym-host")), *way, *networks],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        with self._process.stdout as numbers:
            # All lines come at once.
            waiting = select.poll()
            waiting.register(numbers, select.POLLIN)
            is_told = bool(waiting.poll(START_DEADLINE_S * 1000))
            rows = [numbers.readline() for _ in networks] if is_told else []
        if not is_told or not all(rows):
            self.close()
            raise BackendError("the hosts' namespaces cannot be made")
        self.networks = [f"/proc/{int(row)}/ns/net" for row in rows]

    def end(self) -> None:
        """Kill all processes in them; those that others have started must be waited for."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def has_ended(self) -> bool:
        """Tell whether the last process in them has ended, after `end`."""
        return self._process.poll() is not None

    def close(self) -> None:
        """Kill all processes in them, and wait for their end."""
        self.end()
        try:
            self._process.wait(END_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def host_words(network: str) -> list[str]:
    """Return the words that, before a command, run it in a host, with what it may do.

    The process ends with the thread that starts it, has a session of its own, and keeps the folder
    it is started in, if its host has one of that name.

    Args:
        network: File of the host's network namespace.

    Raises:
        FeatureNotSupported: The program is not built.
    """
    return [str(program_path("dcgym-host")), "run", chosen_access(), network]


@contextlib.contextmanager
def children_in(network: str) -> Iterator[None]:
    """Let the processes that this thread starts be of a host's pid namespace.

    A process cannot change its own (pid_namespaces(7)). This way its number, its exit code and its
    signals are those of a child.

    Args:
        network: File of the host's network namespace.

    Raises:
        OSError: The host has ended.
    """
    home = os.open("/proc/thread-self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        join_namespace(str(Path(network).with_name("pid_for_children")))
        yield
    finally:
        join_namespace(home)
        os.close(home)


def start_in_host(network: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a command in a host.

    Args:
        network: File of the host's network namespace.
        argv: The command.
        options: Of `subprocess.Popen`.

    Raises:
        FeatureNotSupported: The program that enters the host is not built.
        OSError: The host has ended.
    """
    with children_in(network):
        return subprocess.Popen([*host_words(network), *argv], **options)


def join_namespace(namespace: int | str) -> None:
    """Let this thread join a namespace.

    Args:
        namespace: A descriptor of it, or its file.

    Raises:
        OSError: It cannot be joined.
    """
    if isinstance(namespace, str):
        fd = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            join_namespace(fd)
        finally:
            os.close(fd)
    # `os` has it from Python 3.12 on.
    elif _libc.setns(namespace, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")
