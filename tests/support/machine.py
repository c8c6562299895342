"""Whether the machine keeps up while a test measures: late timers, stolen time, other work.

Figures of a window, each with the most that it may be (`LIMITS`):

- ``late_share``: part of the time in which a timer that was due had not come. A process of
  real-time priority asks for one every millisecond, so that only the kernel and the host of a
  virtual machine can delay it.
- ``stolen_share``: part of the processors' time that the host of a virtual machine took
  (proc(5), ``steal``).
- ``other_share``: part of the processors' time that other processes took than this one and what
  it started.

A test whose emulation judges itself (`Machine.verdicts`) needs that verdict too.
"""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dcgym.backends.fidelity import judge
from dcgym.backends.records import Fidelity
from dcgym.errors import BackendError

__all__ = ["MACHINE"]

LIMITS: Mapping[str, tuple[float, str]] = {
    "late_share": (0.01, "timers were late {x:.1%} of the time"),
    "stolen_share": (0.02, "the machine's host took {x:.1%} of the processors' time"),
    "other_share": (0.10, "other work took {x:.1%} of the processors' time"),
}
# What a window may have of each in any case: processor time is counted in ticks of 10 ms.
SLACK_S = {"late_share": 0.001, "stolen_share": 0.02, "other_share": 0.05}
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
STOLEN = 7  # field of /proc/stat
KERNEL = 2  # parent of the kernel's own threads, whose work is that of our packets
SETTLE_S, LOOK_S = 1.0, 0.25
# Of a run's own figures, those that say what its links did: they are what tests measure.
OF_LINKS = ("rate_", "preflight_")


@dataclass(frozen=True)
class Reading:
    """Counters at one moment, in seconds."""

    time_s: float
    late_s: float
    stolen_s: float
    others_s: Mapping[int, float]

    def since(self, earlier: Reading) -> dict[str, float]:
        """Return the figures of the time between two readings, less what any window may have."""
        passed_s = max(self.time_s - earlier.time_s, 1e-3)
        processors_s = passed_s * (os.cpu_count() or 1)
        # A process that is new may be an orphan of ours.
        known = self.others_s.keys() & earlier.others_s.keys()
        other_s = sum(self.others_s[pid] - earlier.others_s[pid] for pid in known)
        took_s = {
            "late_share": (self.late_s - earlier.late_s, passed_s),
            "stolen_share": (self.stolen_s - earlier.stolen_s, processors_s),
            "other_share": (other_s, processors_s),
        }
        return {name: max(a - SLACK_S[name], 0) / b for name, (a, b) in took_s.items()}


class Machine:
    """Watches the machine from its first reading to the end of this process.

    Attributes:
        verdicts: How far emulations of the present test can be believed, which counts too.
        judged: Windows of the present test in which the machine kept up.
    """

    _began: Reading

    def __init__(self) -> None:
        self.verdicts: list[Callable[[], Fidelity]] = []
        self.judged = 0
        self._timer: tuple[subprocess.Popen[bytes], mmap.mmap] | None = None

    def read(self) -> Reading:
        """Read the counters."""
        if self._timer is None:
            self._timer = _start_timer()
        fields = [
            int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        ]
        return Reading(
            time_s=time.monotonic(),
            late_s=struct.unpack_from("q", self._timer[1])[0] / 1e9,
            stolen_s=fields[STOLEN] / TICKS_PER_S,
            others_s={pid: ticks / TICKS_PER_S for pid, ticks in _others_ticks().items()},
        )

    def begin(self) -> list[str]:
        """Begin a test once the machine has nothing else to do; say what it does otherwise."""
        self.verdicts.clear()
        self.judged = 0
        given_up_s = time.monotonic() + SETTLE_S
        while True:
            self._began = self.read()
            time.sleep(LOOK_S)
            reasons = self.reasons()
            if not reasons or time.monotonic() > given_up_s:
                return reasons

    def reasons(self, began: Reading | None = None) -> list[str]:
        """Say why what was measured since then cannot be judged; nothing where it can.

        Args:
            began: Begin of a window; without one it is that of the test.
        """
        found = [
            LIMITS[name][1].format(x=value)
            for name, value in self.read().since(began or self._began).items()
            if value > LIMITS[name][0]
        ]
        for verdict in self.verdicts:
            # One that died, or has had no episode yet, has no verdict.
            with suppress(BackendError):
                figures = verdict().figures
                own = {n: x for n, x in figures.items() if not n.startswith(OF_LINKS)}
                found += judge(own).reasons
        return found


def _others_ticks() -> dict[int, int]:
    """Return the processor time of each process that does not descend from this one.

    Children that ended count with the parent that waited for them, but not with this process's
    ancestors: orphans of ours come to one of them.
    """
    children: dict[int, list[int]] = {}
    parents: dict[int, int] = {}
    ticks: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        # A process may end between two looks.
        with suppress(OSError):
            words = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
            parents[int(name)] = int(words[1])
            children.setdefault(int(words[1]), []).append(int(name))
            ticks[int(name)] = [int(word) for word in words[11:15]]
    pid = os.getpid()
    while (pid := parents.get(pid, 0)) in ticks:
        ticks[pid] = ticks[pid][:2]
    found = [os.getpid(), KERNEL]
    while found:
        pid = found.pop()
        ticks.pop(pid, None)
        found += children.get(pid, [])
    return {pid: sum(each) for pid, each in ticks.items()}


def _start_timer() -> tuple[subprocess.Popen[bytes], mmap.mmap]:
    """Start the process that asks for timers; it ends with this one."""
    fd = os.memfd_create("late")
    os.ftruncate(fd, mmap.PAGESIZE)
    shared = mmap.mmap(fd, mmap.PAGESIZE)
    argv = [sys.executable, str(Path(__file__).with_name("timer.py")), str(fd), str(os.getpid())]
    process = subprocess.Popen(argv, pass_fds=(fd,), start_new_session=True)
    os.close(fd)
    return process, shared


MACHINE = Machine()
