"""Ray, imported and started as training needs it."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from dcgym.errors import MissingDependency
from dcgym.policies.clusters import attach
from dcgym.policies.learned.threads import limit_torch_threads

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
    # Ray's usage report calls a server of its makers: not from a benchmark, unless asked for.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray's workers have a niceness of 15: beside anything else a runner would get a thirtieth of a
    # core, and act late on what passes in real time.
    os.environ.setdefault("RAY_worker_niceness", "0")
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
    ray.init(
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
