"""What a task on a server pool may ask of a backend."""

from __future__ import annotations

from dcgym.backends.base import Capabilities
from dcgym.config import check_in, check_int
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.task import BalancingTask

__all__ = ["check_pool"]


def check_pool(task: BalancingTask, can: Capabilities) -> None:
    """Refuse what a backend cannot do.

    Args:
        task: The task.
        can: What the backend can do.

    Raises:
        ConfigError: It cannot run a rule, or so many servers; or nobody said when to drain.
    """
    settings = task.settings
    check_in("rule", settings.rule, can.rules)
    for rule in task.rules:
        check_in("others", rule, can.rules)
    if can.largest_hosts is not None:
        check_int("scenario.groups", task.n_servers, 1, can.largest_hosts)
    if settings.drain_ns and settings.max_steps is None:
        raise ConfigError("drain", settings.drain, "0s, or with max_steps, after which to drain")
