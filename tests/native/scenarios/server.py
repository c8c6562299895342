"""Run scenarios, each in a process forked from this one and in a network namespace of its own.

A line of stdin names a script and the files of its stdin, stdout and stderr; the answer is the
script's exit status. What all scripts import is imported once.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import runpy
import sys
import traceback

import network

from dcgym.native import require


def play(script: str, files: list[str]) -> int:
    """Run a script in this process, which ends with it."""
    for descriptor, path in enumerate(files):
        flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY
        os.dup2(os.open(path, flags), descriptor)
    # What the parent has read ahead is not the scenario's.
    sys.stdin = io.TextIOWrapper(io.FileIO(0), encoding="utf-8")
    if network.LIBC.unshare(network.CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")
    return 0


def main() -> None:
    require()
    for line in sys.stdin:
        script, *files = json.loads(line)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = play(script, files)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        _, code = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(code), flush=True)


main()
