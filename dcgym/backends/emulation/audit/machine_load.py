"""How busy the machine is: processor time, pressure, and packets lost before any queue of ours.

Counters of the whole machine as proc(5) and Documentation/accounting/psi.rst describe them; what
else runs on it counts too, because it takes the same processors.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MachineLoad"]

_STAT = Path("/proc/stat")
_PRESSURE = Path("/proc/pressure/cpu")
_SOFTNET = Path("/proc/net/softnet_stat")
_IDLE_FIELDS = (3, 4)  # idle, iowait
_WORK_FIELDS = 8  # guest times are part of user times


@dataclass(frozen=True)
class MachineLoad:
    """Counters at one moment; differences of two say what happened between.

    Attributes:
        time_us: CLOCK_MONOTONIC.
        cpu_ticks: Processor time of all processors, idle time included.
        idle_ticks: Of it, the idle time.
        pressure_us: Time in which some runnable task waited for a processor; NaN if not counted.
        packets: Packets that network soft interrupts handled.
        dropped: Packets they lost because a processor's backlog was full.
        squeezed: Times they stopped with work left.
        waited_us: Time that the watched process was ready to run and did not; NaN if not counted.
        turns: Times that it was given a processor; NaN if not counted.
    """

    time_us: float
    cpu_ticks: float
    idle_ticks: float
    pressure_us: float
    packets: int
    dropped: int
    squeezed: int
    waited_us: float
    turns: float

    @classmethod
    def read(cls, time_ns: int, pid: int = 0) -> MachineLoad:
        """Read the counters.

        Args:
            time_ns: CLOCK_MONOTONIC now.
            pid: Process whose waiting is watched; 0 for none.
        """
        fields = [int(field) for field in _STAT.read_text().split("\n", 1)[0].split()[1:]]
        rows = [line.split() for line in _SOFTNET.read_text().splitlines()]
        packets, dropped, squeezed = (sum(int(row[i], 16) for row in rows) for i in range(3))
        waited_us, turns = _waits(pid)
        return cls(
            time_us=time_ns / 1e3,
            cpu_ticks=float(sum(fields[:_WORK_FIELDS])),
            idle_ticks=float(sum(fields[i] for i in _IDLE_FIELDS)),
            pressure_us=_pressure_us(),
            packets=packets,
            dropped=dropped,
            squeezed=squeezed,
            waited_us=waited_us,
            turns=turns,
        )

    def since(self, earlier: MachineLoad) -> dict[str, float]:
        """Return what happened since an earlier reading: shares of the time, means, counts."""
        passed_us = max(self.time_us - earlier.time_us, 1.0)
        ticks = self.cpu_ticks - earlier.cpu_ticks
        return {
            "cpu_idle_share": (self.idle_ticks - earlier.idle_ticks) / ticks if ticks else math.nan,
            "cpu_pressure_share": (self.pressure_us - earlier.pressure_us) / passed_us,
            "generator_wait_us": (self.waited_us - earlier.waited_us)
            / max(self.turns - earlier.turns, 1.0),
            "softirq_dropped": float((self.dropped - earlier.dropped) % 2**32),
            "softirq_squeezed": float((self.squeezed - earlier.squeezed) % 2**32),
        }


def _pressure_us() -> float:
    try:
        some = _PRESSURE.read_text().splitlines()[0]
    except (OSError, IndexError):
        return math.nan  # a kernel without CONFIG_PSI
    return float(some.rpartition("total=")[2])


def _waits(pid: int) -> tuple[float, float]:
    """Sum time waited (us) and turns over the threads: a process's file counts only its first."""
    if not pid:
        return math.nan, math.nan
    waited_ns = turns = 0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            words = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()
            waited_ns, turns = waited_ns + int(words[1]), turns + int(words[2])
    except (OSError, IndexError):
        return math.nan, math.nan
    return waited_ns / 1e3, float(turns)
