"""A share of a processor for some processes, so that the machine's cores do not decide."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from pathlib import Path

from dcgym.config import check_range
from dcgym.errors import FeatureNotSupported

GROUPS = Path("/sys/fs/cgroup")
LONGEST_PERIOD_US, PERIOD_US = 1_000_000, 10_000
# The kernel grants no less in a period.
LEAST_QUOTA_US = 1_000
END_S, POLL_S = 2.0, 0.01

_numbers = itertools.count()


class CpuQuota:
    """A control group of its own that may use so much of a processor.

    It goes with `close`, or at the end of a `with` block; what is in it then runs on unlimited, in
    the group above. A process that is killed leaves it behind, without limiting anything.

    Args:
        cores: Processors that its processes may use together, on average over a period of 10 ms,
            or the shortest longer one in which this is a millisecond; 0.001 to 1024.

    Raises:
        ConfigError: `cores` is out of range.
        FeatureNotSupported: No group with a quota can be made.
    """

    def __init__(self, cores: float) -> None:
        check_range("cores", cores, LEAST_QUOTA_US / LONGEST_PERIOD_US, 1024)
        period_us = max(PERIOD_US, round(LEAST_QUOTA_US / cores))
        quota_us = max(LEAST_QUOTA_US, round(cores * period_us))
        if (GROUPS / "cpu").is_dir():
            parent = GROUPS / "cpu"
            limits = {"cpu.cfs_period_us": f"{period_us}", "cpu.cfs_quota_us": f"{quota_us}"}
        else:
            parent, limits = GROUPS, {"cpu.max": f"{quota_us} {period_us}"}
        self._above = parent / "cgroup.procs"
        self._folder = parent / f"dcgym-{os.getpid()}-{next(_numbers)}"
        try:
            if parent == GROUPS and "cpu" not in _controllers():
                raise OSError(f"no controller of processors in {GROUPS}")
            self._folder.mkdir()
            for name, value in limits.items():
                (self._folder / name).write_text(value)
        except OSError as error:
            self.close()
            hint = f"a writable control group with the cpu controller ({error})"
            raise FeatureNotSupported("a quota of processor time", hint) from error

    def add(self, *pids: int) -> None:
        """Limit processes, and those that they start from now on.

        Args:
            pids: Their numbers, as this process sees them.

        Raises:
            ProcessLookupError: One has ended.
        """
        for pid in pids:
            (self._folder / "cgroup.procs").write_text(f"{pid}")

    def close(self) -> None:
        """Remove the group; a second call does nothing.

        Raises:
            OSError: Its processes start others faster than these can be moved.
        """
        deadline_s = time.monotonic() + END_S
        while self._folder.is_dir():
            try:
                for pid in (self._folder / "cgroup.procs").read_text().split():
                    with contextlib.suppress(ProcessLookupError):
                        self._above.write_text(pid)
                self._folder.rmdir()
            except OSError:
                # A process that ends stays for a moment.
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(POLL_S)

    def __enter__(self) -> CpuQuota:
        """Return the quota."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the group."""
        self.close()


def _controllers() -> list[str]:
    """Return what groups directly below the first one may limit (cgroups of version 2)."""
    path = GROUPS / "cgroup.subtree_control"
    return path.read_text().split() if path.exists() else []
