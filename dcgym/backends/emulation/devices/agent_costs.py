"""What the agents of an emulated pod have sent, and what they cost."""

from __future__ import annotations

import mmap
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dcgym.backends.emulation.wire.device_messages import AGENT_DTYPE

__all__ = ["AgentCosts"]


class AgentCosts:
    """Reads the agents' counts, and the processor time that the kernel charged them with.

    Args:
        rows: Memory that the agents show their counts in.
        pids: The agents, in our own pid namespace; none without agents.

    Attributes:
        pids: The same.
    """

    def __init__(self, rows: mmap.mmap, pids: Sequence[int]) -> None:
        self._rows, self.pids = rows, list(pids)
        self.begin()

    def begin(self) -> None:
        """Count from now on."""
        self._began_ns, self._cpu_ns = time.monotonic_ns(), self._used_ns()

    def _used_ns(self) -> npt.NDArray[np.float64]:
        return np.array([_cpu_ns(pid) for pid in self.pids])

    def shares(self) -> npt.NDArray[np.float64]:
        """Return the share of a core that each agent took since `begin`; NaN for one that died."""
        passed_ns = max(time.monotonic_ns() - self._began_ns, 1)
        return (self._used_ns() - self._cpu_ns) / passed_ns

    def counts(self) -> tuple[int, int]:
        """Return the reports that were sent, and lost on purpose, since the agents were started."""
        rows = np.frombuffer(self._rows, AGENT_DTYPE)
        return int(rows["sent"].sum()), int(rows["lost"].sum())

    def figures(self) -> dict[str, float]:
        """Return the mean and the largest share of a core; nothing without agents."""
        if not self.pids:
            return {}
        shares = self.shares()
        return {
            "agent_cpu_share": float(np.mean(shares)),
            "agent_cpu_share_max": float(np.max(shares)),
        }


def _cpu_ns(pid: int) -> float:
    try:
        return float(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    except (OSError, IndexError, ValueError):
        return np.nan
