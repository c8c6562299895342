"""Networks whose episodes fail in one way each, until somebody heals them.

Workers know them by name, such as "tests.support.faulty:Hanging".
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from pathlib import Path

from dcgym.testing import FakeBackend

__all__ = [
    "FOLDER",
    "Allocating",
    "Crashing",
    "Full",
    "Hanging",
    "Killed",
    "Leaving",
    "Stuck",
    "heal",
]

FOLDER = "DCGYM_TEST_FAULTS"
"""Variable of the environment: folder of the file that heals them."""

FOREVER_S = 600.0
HELD_BYTES = 2**30


class _Faulty(FakeBackend):
    """Fails when it starts, unless it was healed."""

    def start(self) -> None:
        """Fail, or start."""
        if not (Path(os.environ[FOLDER]) / "healed").exists():
            self.fail()
        super().start()

    def fail(self) -> None:
        """Fail in its way."""
        raise NotImplementedError


class Crashing(_Faulty):
    """Raises what nobody expects."""

    def fail(self) -> None:
        """Raise."""
        raise KeyError("no such port")


class Full(_Faulty):
    """Finds no room on the disk."""

    def fail(self) -> None:
        """Say so, as the system does."""
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Hanging(_Faulty):
    """Waits for ever, as does a process that it has started in a session of its own."""

    def fail(self) -> None:
        """Wait."""
        subprocess.Popen(["sleep", str(FOREVER_S)], start_new_session=True)
        time.sleep(FOREVER_S)


class Stuck(_Faulty):
    """Waits for ever, and does not hear SIGTERM."""

    def fail(self) -> None:
        """Wait."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(FOREVER_S)


class Allocating(_Faulty):
    """Takes a gigabyte in a process of its own."""

    def fail(self) -> None:
        """Take it, and keep it."""
        code = f"held = bytearray(b'1') * {HELD_BYTES}; import time; time.sleep({FOREVER_S})"
        subprocess.run([os.environ["DCGYM_TEST_PYTHON"], "-c", code], check=True)


class Killed(_Faulty):
    """Is killed."""

    def fail(self) -> None:
        """Kill itself, as the kernel does where memory runs out."""
        os.kill(os.getpid(), signal.SIGKILL)


class Leaving(_Faulty):
    """Ends well, without a result."""

    def fail(self) -> None:
        """End."""
        os._exit(0)


def heal(folder: Path) -> None:
    """Let all run from now on."""
    (folder / "healed").touch()
