"""What the processes of emulated hosts may do with the machine.

They are root's processes in namespaces of their own. The emulator chooses once what they may do,
and leaves its choice in the environment, where its generators and the shell find it.
"""

from __future__ import annotations

import os

__all__ = ["HOST_ACCESS", "choose_access", "chosen_access"]

HOST_ACCESS = ("limited", "read-only", "full")
"""Without the capabilities and the system calls that reach beyond the network; moreover with files
to read only, but for the working folder and a /tmp of the host's own; everything that root may
do."""

HOST_ACCESS_VARIABLE = "DCGYM_HOST_ACCESS"


def choose_access(access: str) -> None:
    """Choose for this process and for those that it starts.

    Args:
        access: One of `HOST_ACCESS`.
    """
    os.environ[HOST_ACCESS_VARIABLE] = access


def chosen_access() -> str:
    """Return what was chosen, or the first of `HOST_ACCESS`."""
    return os.environ.get(HOST_ACCESS_VARIABLE, HOST_ACCESS[0])
