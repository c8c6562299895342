"""Clusters of Ray that are there already, for runs of suites and for trainings."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from types import ModuleType
from typing import Any

from dcgym.errors import ConfigError, MissingDependency

__all__ = ["EMULATION", "attach", "check_address", "set_ray_up"]

EMULATION = "emulation"
"""Resource of a machine: how many emulations it runs at the same time."""

HEAD = "the head of a running Ray cluster as host:port, such as 10.0.0.1:6379"
CONNECT_S = 5.0
ATTACH_S = 180.0  # It takes 3 s on an idle machine.

# Ray's settings, unless somebody has others.
SETTINGS = {
    # Its usage report calls a server of its makers: not from a benchmark, unless asked for.
    "RAY_USAGE_STATS_ENABLED": "0",
    # Its workers have a niceness of 15: beside anything else a runner would get a thirtieth of a
    # core, and act late on what passes in real time.
    "RAY_worker_niceness": "0",
    # It gives up what takes half a minute or one, and takes longer on a busy machine.
    "RAY_gcs_server_port_wait_time_s": "300",
    "RAY_gcs_server_request_timeout_seconds": "300",
    "RAY_worker_register_timeout_seconds": "600",
    # Its processes have titles, which would make their environment unreadable.
    "SPT_NOENV": "1",
}


def set_ray_up() -> None:
    """Set Ray's environment variables that nobody has set; before it is imported."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)


def check_address(address: object) -> tuple[str, int]:
    """Return host and port of an address.

    Args:
        address: Such as 10.0.0.1:6379.

    Raises:
        ConfigError: It is none.
    """
    host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if not (host and port.isascii() and port.isdigit() and int(port) < 2**16) or "/" in host:
        raise ConfigError("address", address, HEAD)
    return host.strip("[]"), int(port)


def attach(address: str, extra: str) -> tuple[ModuleType, bool]:
    """Return Ray, attached to a cluster, and whether that was done here.

    Args:
        address: Its head, as host:port. The machine that calls is one of the cluster.
        extra: Extra of this package that brings Ray.

    Raises:
        ConfigError: Nobody answers there in time, or this machine is not one of it.
        MissingDependency: Ray is not installed.
    """
    set_ray_up()
    host, port = check_address(address)
    try:
        import ray
    except ImportError as error:
        raise MissingDependency("ray", extra) from error
    if ray.is_initialized():
        return ray, False
    try:
        socket.create_connection((host, port), CONNECT_S).close()
    except OSError as error:
        reason = f"{HEAD}; nobody answers within {CONNECT_S:g} s ({error.strerror or error})"
        raise ConfigError("address", address, reason) from error
    options: dict[str, Any] = {
        "address": address,
        "log_to_driver": False,
        "logging_level": logging.ERROR,
    }
    _try_apart(address, f"import ray; ray.init(**{options!r})")
    ray.init(**options)
    return ray, True


def _try_apart(address: str, program: str) -> None:
    """Attach in a process of its own: Ray ends the process that it cannot attach."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ATTACH_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        reason = f"no answer within {ATTACH_S:g} s"
    else:
        if done.returncode == 0:
            return
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        reason = lines[-1][:200] if lines else f"ended with status {done.returncode}"
    allowed = "the head of a cluster of this version of Ray, on one of whose machines you call"
    raise ConfigError("address", address, f"{allowed} ({reason})")
