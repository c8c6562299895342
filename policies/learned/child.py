"""Processes that run a function of ours, and end together with all that they have started.

Whoever starts one knows its descendants by a word in their environment: services of a library may
leave the process group, and change their parent.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path

import cloudpickle

from dcgym.processes import END_DEADLINE_S, end_processes, module_environment
from dcgym.writing import open_output

__all__ = ["Child", "main"]

PROGRAM = "from dcgym.policies.learned.child import main; main()"
FAMILY_VARIABLE = "DCGYM_FAMILY"
STDERR_FD = 2


class Child:
    """A process of which nothing is left after `close`, nor some seconds after our own death.

    Attributes:
        pipe: Its other end is the first argument of the function.
        pid: The process.
    """

    def __init__(
        self, function: Callable[..., None], *arguments: object, log: Path | None = None
    ) -> None:
        """Start it; returns at once.

        Args:
            function: Called there with the pipe and the arguments.
            *arguments: What goes with it; functions of a script may be among them.
            log: File of what it prints; None for our own standard error.
        """
        self._family, self._owner_pid = secrets.token_hex(8), os.getpid()
        self.pipe, theirs = Pipe()
        with contextlib.ExitStack() as stack:
            stack.callback(theirs.close)
            # Standard output may be somebody's JSON; a notebook's sys.stderr is no file.
            output = STDERR_FD if log is None else stack.enter_context(open_output(log, "out_dir"))
            self._process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(theirs.fileno()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C is the owner's.
                start_new_session=True,
                env={
                    **module_environment(),
                    FAMILY_VARIABLE: self._family,
                    # Titles of processes, such as Ray's, leave the environment readable.
                    "SPT_NOENV": "1",
                },
            )
        self.pid = self._process.pid
        with contextlib.suppress(OSError):  # Who reads the pipe will see that it died.
            self.pipe.send_bytes(cloudpickle.dumps((function, arguments)))

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt there."""
        self._process.send_signal(signal.SIGINT)

    def hang_up(self) -> None:
        """Close the pipe; who has nothing else to do ends then."""
        self.pipe.close()

    def close(self, deadline_s: float = END_DEADLINE_S) -> int:
        """End it, and all that it has started; returns its exit code.

        A fork of the owner only closes its own end of the pipe.

        Args:
            deadline_s: How long it may take to end by itself.
        """
        self.hang_up()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(deadline_s)
        if os.getpid() == self._owner_pid:
            end_processes(FAMILY_VARIABLE, self._family)
        return self._process.wait()


def _end_with_owner(owner_pidfd: int) -> None:
    """End soon after the owner; what is under way may take longer than that."""
    wait([owner_pidfd])
    time.sleep(END_DEADLINE_S / 2)
    end_processes(FAMILY_VARIABLE, os.environ[FAMILY_VARIABLE], os.getpid())
    os._exit(1)


def main() -> None:
    """Run what the owner sends."""
    pipe_fd, owner = map(int, sys.argv[1:])
    owner_pidfd = os.pidfd_open(owner)
    if os.getppid() != owner:
        sys.exit(1)  # It died before we could watch it.
    threading.Thread(target=_end_with_owner, args=(owner_pidfd,), daemon=True).start()
    pipe = Connection(pipe_fd)
    try:
        function, arguments = pickle.loads(pipe.recv_bytes())
        function(pipe, *arguments)
    except EOFError:
        pass  # The owner has hung up.
    finally:
        # It may have died, and who else would do so.
        end_processes(FAMILY_VARIABLE, os.environ[FAMILY_VARIABLE], os.getpid())
