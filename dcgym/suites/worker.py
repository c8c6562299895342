"""What a worker process of a suite does: one run or one training, told on its standard input.

``python -m dcgym.suites.worker`` reads a request (`dcgym.suites.work`) as JSON, reports progress as
lines on standard output, and ends with its parent. What other packages add is known here where an
entry point names it (`dcgym.registry`).
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import signal
import sys

from dcgym.errors import BackendError, DcgymError
from dcgym.suites.faults import is_full
from dcgym.suites.work import FULL_STATUS, from_request, perform

__all__ = ["end_with_parent", "main"]

PR_SET_PDEATHSIG = 1


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


def main() -> None:
    """Read a request, do it, and end."""
    # What it reports is read as UTF-8, whatever the locale.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    read = json.load(sys.stdin)
    end_with_parent(read["parent"])
    try:
        perform(from_request(read), _report)
    except (DcgymError, OSError) as error:
        # A log on a full disk takes nothing any more.
        with contextlib.suppress(OSError):
            # What can be done about it is not for this process to say.
            print(error.fact if isinstance(error, BackendError) else error, file=sys.stderr)
        sys.exit(FULL_STATUS if is_full(error) else 1)
    # Learning libraries leave threads behind that would hold the process for seconds.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _report(fraction: float, note: str = "") -> None:
    print(f"progress {fraction:.4f} {note}", flush=True)


if __name__ == "__main__":
    main()
