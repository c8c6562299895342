"""The environment's side of an emulator: start it, command it, make sure that it ends."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from dcgym.backends.emulation.session.calls import Calls
from dcgym.backends.emulation.session.runs import forget_run, record_run
from dcgym.backends.emulation.wire.channel import Channel
from dcgym.backends.emulation.wire.message import Message
from dcgym.backends.emulation.wire.messages import Failure, Started
from dcgym.errors import (
    BackendError,
    CommandError,
    ConfigError,
    DcgymError,
    FeatureNotSupported,
)
from dcgym.native import require
from dcgym.processes import module_environment, module_words

__all__ = ["EmulatorProcess", "has_ended", "is_initial_user_namespace", "pid_of"]

SERVER = "dcgym.backends.emulation.emulator.server"
# It takes a second; on a machine that is busy many times over, half a minute.
START_DEADLINE_S = 60.0
END_DEADLINE_S = 10.0
LOG_TAIL_BYTES = 2000


def has_ended(pidfd: int, deadline_s: float = 0.0) -> bool:
    """Tell whether a process has ended.

    Args:
        pidfd: The process.
        deadline_s: How long to wait for its end.
    """
    # Not select(2): it takes no descriptor above 1023, and a large network has more.
    waiting = select.poll()
    waiting.register(pidfd, select.POLLIN)
    return bool(waiting.poll(deadline_s * 1000))


def pid_of(pidfd: int) -> int:
    """Return the process of a pidfd as our own pid namespace numbers it; 0 if it is gone.

    Args:
        pidfd: The process.
    """
    for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "Pid":
            return max(int(value), 0)
    return 0


class EmulatorProcess:
    """One emulator: a process tree in its own namespaces that ends with this object.

    Killing the tree's first process ends all others (pid_namespaces(7)) and with them every
    interface, queue and BPF object, which only those processes and our descriptors keep alive.

    Raises:
        FeatureNotSupported: Not root, or the native parts are missing.
        BackendError: The emulator did not come up.
    """

    def __init__(self) -> None:
        if os.geteuid() != 0:
            raise FeatureNotSupported("emulation", "run as root (network namespaces and BPF)")
        if not is_initial_user_namespace():
            hint = "run as root of the machine; a user namespace (rootless) may not load BPF"
            raise FeatureNotSupported("emulation", hint)
        require()
        self.run_id = secrets.token_hex(3)
        ours, theirs = socket.socketpair()
        self._log_fd = os.memfd_create("dcgym-emulator-log", os.MFD_CLOEXEC)
        self._pidfd = -1
        # Guards the descriptors: a thread may look at them while another closes them.
        self._lock = threading.Lock()
        with theirs:
            self._process = self._spawn(theirs)
        self._channel = Channel(ours)
        self._calls = Calls(self._channel)
        try:
            record_run(self.run_id, self._process.pid)
            started = self._first_answer()
            if not isinstance(started, Started):
                raise BackendError(f"the emulator began with {type(started).__name__}")
            self._pidfd = started.first_process
        except BaseException:
            self.close()
            raise

    def _first_answer(self) -> Message:
        try:
            return self._channel.receive(time.monotonic() + START_DEADLINE_S).message()
        except BackendError as error:
            raise BackendError(f"{error}{self._log_tail()}") from None

    def _spawn(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        arguments = ["--channel-fd", str(theirs.fileno()), "--owner-pid", str(os.getpid())]
        arguments += ["--run-id", self.run_id]
        return subprocess.Popen(
            [*module_words(SERVER, "-X", "dcgym_emulator"), *arguments],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._log_fd,
            stderr=self._log_fd,
            # Ctrl-C belongs to the environment, which then closes the emulator itself.
            start_new_session=True,
            # It forks. NumPy's library would end its threads for that, and wait for them.
            env={**module_environment(), "OPENBLAS_NUM_THREADS": "1"},
        )

    def call(self, request: Message, deadline_s: float) -> Message:
        """Send a request and wait for its answer; any number of threads may do so at once.

        Args:
            request: The request; its descriptors stay the caller's.
            deadline_s: How long to wait.

        Raises:
            BackendError: No answer in time, a dead emulator, or a request that failed there.
        """
        try:
            answer = self._calls.call(request, time.monotonic() + deadline_s)
        except BackendError as error:
            if self.alive():
                raise
            raise BackendError(f"{error}{self._log_tail()}") from None
        if isinstance(answer, Failure):
            raise _error_from(answer)
        return answer

    @property
    def pidfd(self) -> int:
        """Descriptor that becomes readable when the emulator ends."""
        return self._pidfd

    def alive(self, patience_s: float = 0.0) -> bool:
        """Tell whether the emulator still runs.

        Args:
            patience_s: How long to wait for its end.
        """
        with self._lock:
            if self._pidfd >= 0:
                return not has_ended(self._pidfd, patience_s)
        return self._process.poll() is None

    def close(self) -> None:
        """Kill the tree and wait until nothing of it is left; a second call does nothing."""
        self._channel.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        self._process.wait(END_DEADLINE_S)
        # The first process of a pid namespace ends only after all others have.
        if self._pidfd >= 0 and not has_ended(self._pidfd, END_DEADLINE_S):
            raise BackendError(f"emulator {self.run_id} did not end within {END_DEADLINE_S} s")
        self._close_descriptors()
        forget_run(self.run_id)

    def let_go(self) -> None:
        """Close what a fork has inherited; the emulator goes on, as that of the parent."""
        self._channel.let_go()
        self._process.poll()  # It is no child of the fork, and nobody need be warned of it.
        # Other threads of the parent may have held the locks of before.
        self._lock, self._calls = threading.Lock(), Calls(self._channel)
        self._close_descriptors()

    def _close_descriptors(self) -> None:
        with self._lock:
            descriptors = self._pidfd, self._log_fd
            self._pidfd = self._log_fd = -1
            for descriptor in descriptors:
                if descriptor >= 0:
                    os.close(descriptor)

    def _log_tail(self) -> str:
        with self._lock:
            if self._log_fd < 0:
                return ""
            size = os.fstat(self._log_fd).st_size
            text = os.pread(self._log_fd, LOG_TAIL_BYTES, max(0, size - LOG_TAIL_BYTES))
        lines = text.decode(errors="replace").strip().splitlines()
        return f"; its last words: {lines[-1]}" if lines else ""


def is_initial_user_namespace() -> bool:
    """Tell whether this process is in the machine's own user namespace.

    That one alone maps every user to itself (user_namespaces(7)).
    """
    try:
        fields = Path("/proc/self/uid_map").read_text().split()
    except OSError:
        return True  # A kernel without user namespaces.
    return fields == ["0", "0", str(2**32 - 1)]


def _error_from(failure: Failure) -> DcgymError:
    """Make the error of the other side ours again."""
    kinds: dict[str, Callable[..., DcgymError]] = {
        "ConfigError": ConfigError,
        "FeatureNotSupported": FeatureNotSupported,
        "CommandError": CommandError,
    }
    kind = kinds.get(failure.kind)
    return kind(*failure.details) if kind else BackendError(failure.text)
