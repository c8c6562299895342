"""Clusters of Ray that are there already, for runs of suites and for trainings."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from dcgym.errors import ConfigError, MissingDependency

__all__ = [
    "ATTACH_S",
    "CLIENT",
    "EMULATION",
    "attach",
    "check_address",
    "check_cluster",
    "connect",
    "refusal",
    "set_ray_up",
]

EMULATION = "emulation"
"""Resource of a machine: how many emulations it runs at the same time."""

ATTACH_S = 180.0
"""Within this time a cluster answers; it takes 3 s on an idle machine."""

CLIENT = "ray://"
"""What the address of a head's server begins with, for machines that are not of the cluster."""

AUTO = "auto"
HEAD = "auto, or the head of a running Ray cluster as host:port, such as 10.0.0.1:6379"
CONNECT_S = 5.0

# Ray's settings, unless somebody has others.
SETTINGS = {
    # Its usage report calls a server of its makers: not from a benchmark, unless asked for.
    "RAY_USAGE_STATS_ENABLED": "0",
    # Its workers have a niceness of 15: beside anything else a runner would get a thirtieth of a
    # core, and act late on what passes in real time.
    "RAY_worker_niceness": "0",
    # A run whose memory Ray's own monitor ends is repeated for ever by default.
    "RAY_task_oom_retries": "2",
    # It gives up what takes half a minute or one, and takes longer on a busy machine.
    "RAY_gcs_server_port_wait_time_s": "300",
    "RAY_gcs_server_request_timeout_seconds": "300",
    "RAY_worker_register_timeout_seconds": "600",
    # Its processes have titles, which would make their environment unreadable.
    "SPT_NOENV": "1",
}

OPTIONS: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}


def set_ray_up() -> None:
    """Set Ray's environment variables that nobody has set; before it is imported."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)


def check_address(address: object, is_from_outside: bool = False) -> tuple[str, int] | None:
    """Return host and port of an address; None for "auto", which Ray looks up.

    Args:
        address: Such as 10.0.0.1:6379.
        is_from_outside: Whether it may be that of the server for machines outside the cluster,
            such as ray://10.0.0.1:10001.

    Raises:
        ConfigError: It is none.
    """
    if address == AUTO:
        return None
    text = address if isinstance(address, str) else ""
    host, _, port = text.removeprefix(CLIENT if is_from_outside else "").rpartition(":")
    if not (host and port.isascii() and port.isdigit() and int(port) < 2**16) or "/" in host:
        allowed = f"{HEAD}{f', or {CLIENT}host:port from outside of it' if is_from_outside else ''}"
        raise ConfigError("address", address, allowed)
    return host.strip("[]"), int(port)


def check_cluster(address: str, extra: str) -> None:
    """Refuse a cluster that nobody answers for, before something is started.

    Args:
        address: As `connect` takes it.
        extra: Extra of this package that brings Ray.

    Raises:
        ConfigError: It is no address, or nobody answers there in time.
        MissingDependency: Ray, or what its client needs, is not installed.
    """
    place = check_address(address, True)
    for module in ("ray", "grpc") if address.startswith(CLIENT) else ("ray",):
        if find_spec(module) is None:
            raise MissingDependency({"grpc": "grpcio"}.get(module, module), extra)
    if place is None:
        return
    try:
        socket.create_connection(place, CONNECT_S).close()
    except OSError as error:
        reason = f"{HEAD}; nobody answers within {CONNECT_S:g} s ({error.strerror or error})"
        raise ConfigError("address", address, reason) from error


def attach(address: str, extra: str) -> tuple[ModuleType, bool]:
    """Return Ray, attached to a cluster, and whether that was done here.

    Args:
        address: "auto", or its head as host:port. The machine that calls is one of the cluster.
        extra: Extra of this package that brings Ray.

    Raises:
        ConfigError: Nobody answers there in time, or this machine is not one of it.
        MissingDependency: Ray is not installed.
    """
    check_address(address)
    set_ray_up()
    try:
        import ray
    except ImportError as error:
        raise MissingDependency("ray", extra) from error
    if ray.is_initialized():
        return ray, False
    check_cluster(address, extra)
    _try_apart(address)
    ray.init(address=address, **OPTIONS)
    return ray, True


def connect(address: str, package: Path | None = None) -> ModuleType:
    """Return Ray, attached to a cluster. It may end the process instead.

    Args:
        address: "auto", its head as host:port, or ray://host:port from outside of it.
        package: A zip that each machine unpacks; its processes start in that folder, and import
            from there before anywhere else. None where they import what they have.

    Raises:
        ConfigError: It is no cluster of this version of Ray, or this machine is not one of it.
    """
    set_ray_up()
    import ray

    try:
        environment = None if package is None else {"working_dir": str(package)}
        ray.init(address=address, runtime_env=environment, **OPTIONS)
    except Exception as error:  # Ray's own are of many classes.
        raise refusal(address, str(error)) from error
    module: ModuleType = ray
    return module


def refusal(address: str, said: str) -> ConfigError:
    """Return the error for an address that Ray could not attach to.

    Args:
        address: The address.
        said: What Ray wrote; the last line is the reason.
    """
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    allowed = "the head of a cluster of this version of Ray, on one of whose machines you call"
    if address.startswith(CLIENT):
        allowed = "the client server of a cluster of this version of Ray"
    reason = lines[-1][:200] if lines else "it said nothing"
    return ConfigError("address", address, f"{allowed} ({reason})")


def _try_apart(address: str) -> None:
    """Attach in a process of its own: Ray ends the process that it cannot attach."""
    program = f"import ray; ray.init(**{ {'address': address, **OPTIONS}!r})"
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
    except subprocess.TimeoutExpired as error:
        raise refusal(address, f"no answer within {ATTACH_S:g} s") from error
    if done.returncode != 0:
        raise refusal(address, done.stderr)
