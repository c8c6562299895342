"""What a worker of a suite does: one run or one training, told on its standard input.

It reports progress as lines on standard output, and ends with its parent. What other packages add
is known here where an entry point names it (`dcgym.registry`).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import time

from dcgym.errors import BackendError, DcgymError
from dcgym.suites.faults import is_full
from dcgym.suites.work import FULL_STATUS, Work, from_request, perform

__all__ = ["end_with_parent", "work"]

PR_SET_PDEATHSIG = 1
QUIET_S = 0.5


def end_with_parent(parent: int) -> None:
    """Make the kernel end this process when its parent ends, however that happens.

    Args:
        parent: Process id of the parent.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    libc.prctl.restype = ctypes.c_int
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    # The parent may have ended before the call; then no signal would ever come.
    if os.getppid() != parent:
        sys.exit(1)


def work() -> Work:
    """Read a request as JSON, do it, and return it; end the process where it fails."""
    try:
        spec = from_request(json.load(sys.stdin))
        perform(spec, _Reports())
    except (DcgymError, OSError) as error:
        # A log on a full disk takes nothing any more.
        with contextlib.suppress(OSError):
            # What can be done about it is not for this process to say.
            print(error.fact if isinstance(error, BackendError) else error, file=sys.stderr)
        sys.exit(FULL_STATUS if is_full(error) else 1)
    sys.stdout.flush()
    sys.stderr.flush()
    return spec


class _Reports:
    """Says how far it is, but not more often than anybody reads."""

    _note, _said_s = "", 0.0

    def __call__(self, fraction: float, note: str = "") -> None:
        now_s = time.monotonic()
        if note != self._note or now_s - self._said_s >= QUIET_S:
            self._note, self._said_s = note, now_s
            print(f"progress {fraction:.4f} {note}", flush=True)
