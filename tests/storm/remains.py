"""What the processes of a trial have put on the machine, and what of it is left.

Other programs may run meanwhile. A trial has a folder of its own for runs (`DCGYM_RUN_DIR`), which
all its processes know from their environment: it marks them. Temporary files go to a folder of its
own as well. Shared memory and System V objects are ours where they are new and no process of others
has them; control groups and congestion controls where a process or a run of ours had them.
"""

from __future__ import annotations

import os
import shutil
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dcgym.processes import end_processes
from tests.support.emulators import Machine, algorithms, all_pids, held_shared_memory, read_proc

__all__ = ["DEADLINE_S", "MARK", "Place", "Remains"]

MARK = "DCGYM_RUN_DIR"
NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE"}
# The kernel frees what was released when it has time to.
DEADLINE_S = 30.0
LOOK_S = 0.1
ROOT = Path(__file__).parents[2]
SHARED = Path("/dev/shm")
GROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Place:
    """The folders of a trial.

    Attributes:
        root: Holds all of them.
    """

    root: Path

    def __post_init__(self) -> None:
        shutil.rmtree(self.temporary, ignore_errors=True)  # Of a storm that was killed.
        for folder in (self.runs, self.temporary, self.work):
            folder.mkdir(parents=True)

    @property
    def runs(self) -> Path:
        """Records of emulators."""
        return self.root / "runs"

    @property
    def temporary(self) -> Path:
        """What the processes take for the machine's folder of temporary files.

        Its name is short: libraries have sockets in it.
        """
        return Path("/tmp", f"d{zlib.crc32(bytes(self.root)):08x}")

    @property
    def work(self) -> Path:
        """Their working folder; holds the files that a workload reads."""
        return self.root / "work"

    @property
    def out(self) -> Path:
        """The results, which the workload makes."""
        return self.work / "out"

    def environment(self) -> dict[str, str]:
        """Return the environment of the processes."""
        own = {
            MARK: str(self.runs),
            "TMPDIR": str(self.temporary),
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        kept = {
            name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
        }
        return kept | own


@dataclass
class Remains:
    """Looks for what is left of a trial.

    Attributes:
        place: The trial's folders.
        given: Files in the working folder that are not ours.
    """

    place: Place
    given: frozenset[str] = frozenset()
    _machine: Machine = field(init=False)
    _shared: set[str] = field(init=False)
    _ipc: set[str] = field(init=False)
    _mounts: set[str] = field(init=False)
    _groups: set[Path] = field(init=False, default_factory=set)
    _runs: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._machine = Machine(self.place.runs)
        self._shared, self._ipc, self._mounts = set(_shared()), set(_ipc()), set(_mounts())

    def processes(self) -> set[int]:
        """Return the processes of the trial, and note what they have that outlives them."""
        ours = self._machine.our_processes()
        for pid in ours:
            self._groups.update(_groups_of(pid))
        self._runs |= {path.stem.strip(".") for path in self.place.runs.iterdir()}
        return ours

    def in_kernel(self) -> dict[str, set[str]]:
        """Return what is left now beside files, by kind."""
        ours = self.processes()
        found = {what: set(map(str, left)) for what, left in self._machine.leftovers().items()}
        found.pop("runs", None)
        shared = set(_shared()) - self._shared
        if shared:
            others = [pid for pid in all_pids() if pid not in ours]
            shared -= set().union(*(held_shared_memory(pid) for pid in others))
        mine = {name for name in algorithms() if any(run in name for run in self._runs if run)}
        found |= {
            "shared memory": shared & set(_shared()),
            "System V": set(_ipc()) - self._ipc,
            "mounts": {one for one in set(_mounts()) - self._mounts if str(self.place.root) in one},
            "control groups": {str(path) for path in self._groups if path.is_dir()},
            "congestion controls": mine,
        }
        return {what: left for what, left in found.items() if left}

    def await_release(self) -> tuple[dict[str, set[str]], float]:
        """Wait until nothing is left beside files; return what stays, and the seconds it took."""
        begin_s = time.monotonic()
        while (left := self.in_kernel()) and time.monotonic() < begin_s + DEADLINE_S:
            time.sleep(LOOK_S)
        return left, time.monotonic() - begin_s

    def files(self, expected: frozenset[str] | None) -> list[str]:
        """Return the files that nobody wants.

        Args:
            expected: Results by their names in the folder of results; None for any.
        """
        found = [f"runs/{path.name}" for path in self.place.runs.iterdir()]
        found += [f"TMPDIR/{path.name}" for path in self.place.temporary.iterdir()]
        known = {*self.given, self.place.out.name}
        found += [path.name for path in self.place.work.iterdir() if path.name not in known]
        if expected is not None:
            found += [f"out/{name}" for name in sorted(names_in(self.place.out) - expected)]
        return found

    def end(self) -> None:
        """Kill what is left of the trial's processes."""
        end_processes(MARK, str(self.place.runs))

    def close(self) -> None:
        """End what is left of the trial, and remove its temporary files."""
        self.end()
        shutil.rmtree(self.place.temporary, ignore_errors=True)


def names_in(folder: Path) -> frozenset[str]:
    """Return the names of the files below a folder.

    Args:
        folder: The folder, which need not be there.
    """
    return frozenset(
        str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()
    )


def _shared() -> Iterator[str]:
    yield from (str(path) for path in SHARED.iterdir())


def _ipc() -> Iterator[str]:
    for kind in ("shm", "sem", "msg"):
        path = Path("/proc/sysvipc", kind)
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            yield f"{kind} {line.split()[1]}"


def _mounts() -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        yield line.split()[4]


def _groups_of(pid: int) -> set[Path]:
    """Return the control groups of a process that are not those of this one."""
    groups = set(read_proc(pid, "cgroup").decode().splitlines())
    found = set()
    for line in groups - set(read_proc(os.getpid(), "cgroup").decode().splitlines()):
        _, controllers, path = line.split(":", 2)
        for name in (controllers.removeprefix("name="), "unified", ""):
            if (folder := GROUPS / name / path.lstrip("/")).is_dir() and path != "/":
                found.add(folder)
    return found
