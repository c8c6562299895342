"""Networks that leave notes in a folder, for tests of what runs where, and what ends beneath it."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from dcgym.testing import FakeBackend

__all__ = [
    "GATE_FOLDER",
    "ForgettingBackend",
    "GatedBackend",
    "LonelyBackend",
    "ParricidalBackend",
    "TaskKillingBackend",
    "alive",
    "open_gate",
    "parent_of",
    "waiting",
]

GATE_FOLDER = "DCGYM_TEST_GATE"
DEADLINE_S = 120.0
LOOK_S = 0.05


class GatedBackend(FakeBackend):
    """Leaves a note of each start, and goes on once the gate is open."""

    def start(self) -> None:
        """Wait at the gate.

        Raises:
            TimeoutError: Nobody opened it.
        """
        folder = Path(os.environ[GATE_FOLDER])
        (folder / f"start-{os.getpid()}").touch()
        deadline_s = time.monotonic() + DEADLINE_S
        while not (folder / "open").exists():
            if time.monotonic() > deadline_s:
                raise TimeoutError("the gate stays closed")
            time.sleep(LOOK_S)
        super().start()


class ForgettingBackend(FakeBackend):
    """Removes modules, as what imports a package anew does."""

    def start(self) -> None:
        """Remove them."""
        for name in [name for name in sys.modules if name.startswith("gymnasium.")]:
            del sys.modules[name]
        super().start()


class LonelyBackend(FakeBackend):
    """Refuses to be there twice."""

    _place: Path | None = None

    def start(self) -> None:
        """Take the place.

        Raises:
            FileExistsError: Another one has it.
        """
        if self._place is None:
            place = Path(os.environ[GATE_FOLDER], "taken")
            place.mkdir()
            self._place = place
        super().start()

    def close(self) -> None:
        """Leave the place."""
        super().close()
        if self._place is not None:
            self._place.rmdir()
            self._place = None


class ParricidalBackend(FakeBackend):
    """Kills the process that its own was forked from, as a machine's lack of memory may."""

    def start(self) -> None:
        """Leave a note, and kill."""
        folder = Path(os.environ[GATE_FOLDER])
        (folder / f"start-{os.getpid()}").touch()
        os.kill(self.victim(), signal.SIGKILL)
        time.sleep(DEADLINE_S)

    def victim(self) -> int:
        """Return the number of the process that is killed."""
        return os.getppid()


class TaskKillingBackend(ParricidalBackend):
    """Kills the process that has its run as a task, which has started the other one."""

    def victim(self) -> int:
        """Return the number of the process that is killed."""
        return parent_of(os.getppid())


def parent_of(pid: int) -> int:
    """Return the number of a process's parent.

    Args:
        pid: The process.
    """
    return int(Path(f"/proc/{pid}/status").read_text().partition("PPid:")[2].split()[0])


def waiting(folder: Path) -> int:
    """Return how many episodes have come to the gate so far."""
    return len(list(folder.glob("start-*")))


def alive(folder: Path) -> int:
    """Return how many of the processes that came to the gate have not ended."""
    pids = (path.name.removeprefix("start-") for path in folder.glob("start-*"))
    return sum(_runs(pid) for pid in pids)


def open_gate(folder: Path) -> None:
    """Let all go on."""
    (folder / "open").touch()


def _runs(pid: str) -> bool:
    try:
        # Behind the name in brackets comes the state, "Z" once it ended: man 5 proc.
        state = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
