"""Memory and processors."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from dcgym.cli.doctor.check import Check

__all__ = ["check_resources"]


def check_resources() -> list[Check]:
    """Look at memory and processors."""
    match = re.search(r"^MemAvailable:\s*(\d+)", Path("/proc/meminfo").read_text(), re.M)
    free_bytes = int(match.group(1)) * 1024 if match else 0
    shared = shutil.disk_usage("/dev/shm").free if Path("/dev/shm").exists() else 0
    cores = len(os.sched_getaffinity(0))
    return [
        Check(
            "resources",
            "free memory",
            free_bytes >= 2**30,
            f"{free_bytes / 2**30:.1f} GiB",
            False,
            "large networks and PPO may run out of memory",
            "1 GiB for emulation, 4 GiB with PPO",
        ),
        Check(
            "resources",
            "shared memory",
            shared >= 2**26,
            f"{shared / 2**20:.0f} MiB",
            False,
            "PPO's workers may fail to start",
            "a larger /dev/shm (docker: --shm-size=2g)",
        ),
        Check(
            "resources",
            "cores",
            cores >= 2,
            str(cores),
            False,
            "the emulation may miss its deadlines; runs say so",
            "2 cores or more",
        ),
    ]
