"""Which process of a trial is what, and which one is killed next."""

from __future__ import annotations

import os
import random
import re
import signal
from collections.abc import Iterable

from tests.support.emulators import read_proc, start_time

__all__ = ["kill_one", "kind_of"]

DRIVER = "driver"
# What a command line or a name says, in the order in which it is asked.
KINDS = (
    (r"dcgym-generator", "generator"),
    (r"dcgym-relay", "relay"),
    (r"dcgym-host", "host"),
    (r"raylet/raylet|/raylet\b", "raylet"),
    (r"gcs_server", "Ray's store"),
    (r"^ray::|default_worker\.py", "Ray worker"),
    (r"/ray/|ray_", "Ray service"),
    (r"learned\.child", "learner"),
    (r"suites\.forkserver", "worker"),
    (r"resource_tracker", "tracker"),
    (r"multiprocessing", "copy"),
    (r"ovs|nginx|iperf3|goben|curl|http\.server|ping", "program"),
)


def kind_of(pid: int, driver: int) -> str:
    """Say what a process is; empty for one that has ended.

    Args:
        pid: The process.
        driver: The command that was started.
    """
    if not start_time(pid):
        return ""
    if pid == driver:
        return DRIVER
    line = read_proc(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")
    name = read_proc(pid, "comm").decode(errors="replace").strip()
    depth = len((re.findall(rb"^NSpid:(.*)$", read_proc(pid, "status"), re.M) or [b""])[0].split())
    if "dcgym_emulator" in line:
        return ("emulator", "emulator", "emulator's first", "emulator's host")[min(depth, 3)]
    for pattern, kind in KINDS:
        if re.search(pattern, f"{name} {line}"):
            return kind
    return "copy" if depth == 1 and "python" in line else f"program {name}" if name else ""


def kill_one(drawn: random.Random, pids: Iterable[int], driver: int) -> str:
    """Kill a process, all kinds of them being as likely; return its kind, or nothing.

    Args:
        drawn: What chooses.
        pids: Those that may be killed.
        driver: The command that was started.
    """
    kinds: dict[str, list[int]] = {}
    for pid in sorted(pids):
        if kind := kind_of(pid, driver):
            kinds.setdefault(kind, []).append(pid)
    if not kinds:
        return ""
    kind = drawn.choice(sorted(kinds))
    try:
        os.kill(drawn.choice(kinds[kind]), signal.SIGKILL)
    except ProcessLookupError:
        return ""
    return kind
