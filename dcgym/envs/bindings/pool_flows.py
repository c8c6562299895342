"""The flows of an episode on a server pool: how many it needs, and each to its end."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Pool
from dcgym.backends.records import OPEN_FLOWS
from dcgym.envs.values import Mask, TimeArray
from dcgym.tasks.balancing.protocol import NOTHING
from dcgym.tasks.balancing.task import BalancingTask
from dcgym.units import NS_PER_S

__all__ = ["are_under_way", "serve_out", "traffic_ns"]

# Of an episode in real time without a limit of its own; the slack is for agents that come late.
LONGEST_NS = 600 * NS_PER_S
LONGEST_FLOWS = 500_000
SLACK_NS = 30 * NS_PER_S


def traffic_ns(task: BalancingTask, max_steps: int | None) -> int:
    """Return how much traffic an episode in real time needs after its first observation.

    Args:
        task: The task.
        max_steps: Steps of the episode; None for no limit.
    """
    if max_steps is not None:
        return max_steps * task.interval_ns + task.settings.drain_ns + SLACK_NS
    longest_ns = LONGEST_FLOWS / sum(task.scenario.rates_per_s) * NS_PER_S
    return min(LONGEST_NS, round(longest_ns))


def are_under_way(flows: npt.NDArray[Any], before_ns: int) -> bool:
    """Tell whether one of some flows arrived before a time.

    Args:
        flows: Those that have not ended (`OPEN_FLOWS`).
        before_ns: The time, on their clock.
    """
    return bool((flows["arrival_ns"] < before_ns).any())


def serve_out(pool: Pool, mask: Mask, limit_ns: int, step_ns: int) -> TimeArray:
    """Let traffic go on until the flows that have arrived by now have ended.

    Others arrive meanwhile and share the servers with them: without those the last flows would be
    served sooner than those before.

    Args:
        pool: The pool.
        mask: Copies that go on, (E,).
        limit_ns: Time that it may take at most, for overload and servers that never answer.
        step_ns: Time between two looks.

    Returns:
        The time of each copy when this was called, (E,).
    """
    called_ns = pool.apply(NOTHING)
    ends_ns, waits = called_ns + limit_ns, mask
    while True:
        now_ns = pool.apply(NOTHING)
        waits = waits & (now_ns < ends_ns)
        for env in np.flatnonzero(waits).tolist():
            waits[env] = are_under_way(pool.records(OPEN_FLOWS, env), int(called_ns[env]))
        if not waits.any():
            return called_ns
        pool.advance(np.where(waits, np.minimum(now_ns + step_ns, ends_ns), now_ns))
