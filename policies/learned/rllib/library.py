"""Ray, imported and started as training needs it."""

from __future__ import annotations

import importlib.util
import logging
import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dcgym.errors import BackendError, MissingDependency
from dcgym.policies.clusters import attach, set_ray_up
from dcgym.policies.learned.threads import limit_torch_threads
from dcgym.processes import end_processes

__all__ = [
    "CPUS_PER_RUNNER",
    "is_importable",
    "is_installed",
    "is_running",
    "require_rllib",
    "running_ray",
]

# An emulated environment mostly waits for real time to pass.
CPUS_PER_RUNNER = 0.1
OBJECT_STORE_BYTES = 200_000_000

# Some limits cannot be set: a raylet ends when its agents, which are Python, take 15 s to start.
START_TRIES = 5
START_PAUSE_S = 5.0
START_VARIABLE = "DCGYM_RAY"


def is_importable(name: str) -> bool:
    """Tell whether a library can be imported, without the seconds that this takes.

    Args:
        name: Its module.
    """
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:  # Forbidden by whoever set the module to None.
        return False


def is_installed() -> bool:
    """Tell whether RLlib can be imported, without the seconds that this takes."""
    return is_importable("ray") and is_importable("torch")


def is_running() -> bool:
    """Tell whether this process has started Ray."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def require_rllib() -> None:
    """Import the library, and let it compute on one core.

    Raises:
        MissingDependency: It is not installed.
    """
    set_ray_up()
    try:
        import ray  # noqa: F401
        import torch  # noqa: F401
        from ray.rllib.algorithms.ppo import PPOConfig  # noqa: F401
    except ImportError as error:
        raise MissingDependency("ray[rllib]", "rllib") from error
    limit_torch_threads()


@contextmanager
def running_ray(n_runners: int, address: str | None = None) -> Iterator[None]:
    """Keep a Ray running; one that runs already is used and left alone.

    Args:
        n_runners: Runners in processes of their own.
        address: Head of a cluster to attach to; None starts a Ray of this training.

    Raises:
        BackendError: Ray did not start.
        ConfigError: No cluster answers at the address.
    """
    import ray

    if address is not None:
        _, is_ours = attach(address, "rllib")
        try:
            yield
        finally:
            if is_ours:
                ray.shutdown()
        return
    if ray.is_initialized():
        yield
        return
    _start(
        # A cluster that this machine belongs to is for those who name it.
        address="local",
        # As many as the runners ask for: on one core Ray would wait for ever.
        num_cpus=max(2, os.cpu_count() or 1, round(n_runners * CPUS_PER_RUNNER) + 1),
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=OBJECT_STORE_BYTES,
    )
    try:
        yield
    finally:
        ray.shutdown()


def _start(**options: Any) -> None:
    """Start Ray, again where a busy machine was too slow for its limits.

    Args:
        **options: Arguments of `ray.init`.

    Raises:
        BackendError: It did not start.
    """
    import ray

    for tries in range(1, START_TRIES + 1):
        os.environ[START_VARIABLE] = word = secrets.token_hex(8)
        try:
            ray.init(**options)
            return
        except Exception as error:  # Ray's own is of no narrower class.
            ray.shutdown()
            # What had started by then is nobody's.
            end_processes(START_VARIABLE, word)
            if tries == START_TRIES:
                reason = str(error).partition("\n")[0]
                raise BackendError(f"Ray did not start in {tries} tries: {reason}") from error
            time.sleep(START_PAUSE_S)
        finally:
            del os.environ[START_VARIABLE]
