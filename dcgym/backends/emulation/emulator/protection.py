"""Keeps what runs in the emulator's namespaces from the machine's devices and kernel settings.

Its processes are root's. Their mount namespace shows them the network's part of /proc/sys to write,
and devices that are nobody's; the rest is there to read, or not at all.
"""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

from dcgym.errors import BackendError

__all__ = ["protect_machine"]

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8  # linux/mount.h
MS_REMOUNT, MS_BIND, MS_REC = 32, 4096, 16384

DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "net/tun")
NETWORK_SETTINGS = "/proc/sys/net"
KERNEL_FILES = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")

_libc = ctypes.CDLL(None, use_errno=True)


def protect_machine() -> None:
    """Change the mounts of this process's own mount namespace.

    Raises:
        BackendError: The kernel refused one.
    """
    _bind("/dev", MS_NODEV | MS_NOSUID)
    for name in DEVICES:
        if Path("/dev", name).exists():
            _bind(f"/dev/{name}")
    # Terminals and shared memory of their own.
    _mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "ptmxmode=0666,mode=620")
    _mount("/dev/pts/ptmx", "/dev/ptmx", "", MS_BIND)
    if Path("/dev/shm").is_dir():
        _mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV)
    for path in KERNEL_FILES:
        if Path(path).exists():
            _bind(path, MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    _bind(NETWORK_SETTINGS)


def _bind(path: str, flags: int = 0) -> None:
    """Make a mount of a file or folder on itself, with these flags alone."""
    _mount(path, path, "", MS_BIND | MS_REC)
    _mount("", path, "", MS_REMOUNT | MS_BIND | flags)


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    words = (source.encode(), target.encode(), kind.encode())
    if _libc.mount(*words, flags, options.encode()) != 0:
        number = ctypes.get_errno()
        raise BackendError(f"mount on {target}: {errno.errorcode[number]}, {os.strerror(number)}")
