"""One running emulator: its process, what was made of its descriptors, its death and its end."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TypeVar
from weakref import WeakSet

# NumPy imports this in the first call of some functions, such as `unique`, which takes 0.1 s: real
# traffic would run meanwhile, and nobody decide.
import numpy.ma  # noqa: F401

from dcgym.backends.base import ANEW
from dcgym.backends.emulation.session.process import EmulatorProcess, pid_of
from dcgym.backends.emulation.wire.message import Message
from dcgym.backends.emulation.wire.messages import Execute, Output
from dcgym.errors import BackendError
from dcgym.traffic.generators.generator import GeneratorView

__all__ = ["STALE_NS", "EmulatorSession"]

STALE_NS = 2_000_000_000
"""A producer of telemetry that gave no sign of life for so long is perhaps hung."""

# Where the machine's host takes the processors away, all are silent together: whoever looks first
# when they come back would find the others hung. A process that only waits for its turn speaks in
# this time.
PATIENCE_S = 3.0
POLL_S = 0.005
# What an emulator that is killed takes to end, once the first of its processes has.
_END_PATIENCE_S = 1.0

# A request takes milliseconds; on a machine that is busy many times over, ten seconds and more. An
# emulator that dies is noticed at once.
DEADLINE_S = 60.0

_Answer = TypeVar("_Answer", bound=Message)


class EmulatorSession:
    """An emulator from its start to its end, for networks and for pools.

    It begins with construction. It ends with `close`, with the object, or when a call finds the
    emulator dead. It then releases, in this order: what `at_end` was told, descriptors, processes.
    A fork of the process that made it finds it closed, while the emulator goes on.

    Attributes:
        process: The emulator's process tree.
        generator: Counters of the traffic generator, once `follow_generator` was called.
        generator_process: The traffic generator, as a pidfd.
        generator_pid: Its number in our own pid namespace.
        is_closed: Whether it has ended.

    Raises:
        FeatureNotSupported: Not root, or the native parts are missing.
        BackendError: The emulator did not come up.
    """

    generator: GeneratorView
    generator_process: int = -1
    generator_pid: int = 0

    def __init__(self) -> None:
        self.is_closed = False
        # A handler of signals may close it amid its own end.
        self._ending = threading.RLock()
        # An object of select.poll(2) takes one thread at a time.
        self._looking = threading.Lock()
        # No callback may refer to this object: the end of its last user must be its own end.
        self._releases = ExitStack()
        self._descriptors: list[int] = []
        self.process = EmulatorProcess()
        self._releases.callback(self.process.close)
        self._releases.callback(_close_all, self._descriptors)
        _SESSIONS.add(self)
        self._lives = select.poll()
        self._lives.register(self.process.pidfd, select.POLLIN)
        self._watched: dict[int, str] = {}

    def call(
        self, request: Message, expected: type[_Answer], deadline_s: float = DEADLINE_S
    ) -> _Answer:
        """Send a request and return its answer, whose descriptors the session owns.

        Args:
            request: The request; its descriptors stay the caller's.
            expected: What answers it.
            deadline_s: How long to wait.

        Raises:
            BackendError: No answer in time, a dead emulator (which is closed then), or a request
                that failed there.
        """
        try:
            answer = self.process.call(request, deadline_s)
        except BackendError:
            if self.death():
                self.close()
            raise
        self._keep(answer.descriptors())
        if not isinstance(answer, expected):
            raise BackendError(f"{type(request).__name__} was answered by {type(answer).__name__}")
        return answer

    def _keep(self, descriptors: list[int]) -> None:
        with self._ending:
            self._descriptors += descriptors
            if self.is_closed:
                _close_all(self._descriptors)
                raise BackendError("the emulator is closed")

    def execute(self, host: str, argv: Sequence[str], timeout_s: float) -> str:
        """Run a command in a host's namespaces and return its output.

        It may run in a thread of its own. So it closes nothing of a dead emulator, whose memory
        another thread may be reading: the next call of another kind does.

        Args:
            host: Name of the host.
            argv: The command and its arguments.
            timeout_s: How long it may take.

        Raises:
            CommandError: It failed or took too long.
            BackendError: The emulator is dead or closed, or did not answer.
        """
        # A command that takes too long is told so by the emulator. The request waits there until
        # what came before it is done.
        answer = self.process.call(Execute(host, tuple(argv), timeout_s), timeout_s + DEADLINE_S)
        assert isinstance(answer, Output)
        return answer.text

    def at_end(self, release: Callable[[], object]) -> None:
        """Call this when the session ends, before what was registered earlier.

        Args:
            release: Must not refer to the session, which would then outlive its users.
        """
        self._releases.callback(release)

    def own(self, descriptor: int) -> int:
        """Close a descriptor with the session; returns it."""
        self._descriptors.append(descriptor)
        return descriptor

    def follow_generator(self, memory: int, process: int) -> None:
        """Watch the traffic generator too, from now on.

        Args:
            memory: Descriptor of the memory that it shows its counters in.
            process: The generator, as a pidfd.
        """
        self.generator = GeneratorView(memory)
        self.generator_process, self.generator_pid = process, pid_of(process)
        self.at_end(self.generator.close)
        self.watch(process, "traffic generator")

    def watch(self, process: int, name: str) -> None:
        """End the session, at the next call, if a process of the emulator has died.

        Args:
            process: The process, as a pidfd.
            name: What to call it.
        """
        self._watched[process] = name
        self._lives.register(process, select.POLLIN)

    def death(self) -> str:
        """Say what of the emulator has died, if anything."""
        if self.is_closed:
            return "the emulator is closed"
        # One call for all that is watched, since every snapshot and every action begins here.
        with self._looking:
            ended = self._lives.poll(0)
        if not ended:
            return ""
        # The first process of a pid namespace ends after all others: its death shows in theirs.
        if not self.process.alive(_END_PATIENCE_S):
            return "the emulator died"
        names = [self._watched[fd] for fd, _ in ended if fd in self._watched]
        return f"the emulator's {names[0]} died" if names else ""

    def check_alive(self) -> None:
        """End the session if something of it has died.

        Raises:
            BackendError: It has.
        """
        if death := self.death():
            self.close()
            raise BackendError(death, ANEW)

    def check_generator(self) -> int:
        """End the session if the traffic generator hangs.

        Returns:
            How long it was silent, in ns.

        Raises:
            BackendError: It hangs.
        """
        generator = self.generator
        return self.check_heartbeat(lambda: generator.heartbeat_ns, "traffic generator")

    def check_heartbeat(self, heartbeat_ns: Callable[[], int], name: str) -> int:
        """End the session if a process of the emulator hangs.

        Args:
            heartbeat_ns: Reads the time of its last sign of life (CLOCK_MONOTONIC).
            name: What to call it.

        Returns:
            How long it was silent, in ns.

        Raises:
            BackendError: It was silent for `STALE_NS`, and remained so for `PATIENCE_S` more.
        """
        silent_ns = time.monotonic_ns() - heartbeat_ns()
        if silent_ns > STALE_NS and not _speaks(heartbeat_ns):
            self.close()
            total_s = silent_ns / 1e9 + PATIENCE_S
            raise BackendError(f"the {name} was silent for {total_s:.1f} s", ANEW)
        return silent_ns

    def close(self) -> None:
        """End the emulator and release everything; a second call waits until that is done."""
        with self._ending:
            self.is_closed = True
            self._releases.close()

    def let_go(self) -> None:
        """Close the descriptors that a fork has inherited, and leave all else to the parent."""
        self.is_closed = True
        # Other threads of the parent may have held the locks of before.
        self._ending, self._looking = threading.RLock(), threading.Lock()
        self._releases.pop_all()
        _close_all(self._descriptors)
        self.process.let_go()

    def __del__(self) -> None:
        self.close()


_SESSIONS: WeakSet[EmulatorSession] = WeakSet()


def _let_go_in_fork() -> None:
    # Those too that another thread of the parent was closing.
    for session in list(_SESSIONS):
        session.let_go()


# A fork that lives on would keep the kernel's objects of an emulation that its parent has ended.
os.register_at_fork(after_in_child=_let_go_in_fork)


def _speaks(heartbeat_ns: Callable[[], int]) -> bool:
    before_ns, deadline = heartbeat_ns(), time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if heartbeat_ns() != before_ns:
            return True
        time.sleep(POLL_S)
    return False


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())
