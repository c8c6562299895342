"""The shell's process inside the namespaces of a running emulator: ``python -m`` this module.

`dcgym.backends.emulation.shell` starts it there.
"""

from __future__ import annotations

import argparse
import sys

from dcgym.backends.emulation.emulator.mininet_path import make_importable
from dcgym.errors import BackendError

__all__ = ["main"]


def main() -> int:
    """Run Mininet's command line, or one of its commands; returns the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--command")
    command = parser.parse_args().command
    make_importable()
    # Mininet can be imported only now.
    from dcgym.backends.emulation.emulator.mininet_cli import run_cli

    try:
        return run_cli(command)
    except BackendError as error:
        print(f"dcgym: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
