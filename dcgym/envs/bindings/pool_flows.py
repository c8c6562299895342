"""The flows of an episode on a server pool: how many it needs, and each to its end."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Capabilities, Pool
from dcgym.backends.records import OPEN_FLOWS
from dcgym.config import check_int
from dcgym.envs.values import Mask, TimeArray
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.protocol import NOTHING
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.tasks.balancing.task import BalancingTask
from dcgym.units import NS_PER_S

__all__ = ["are_under_way", "check_scenario", "serve_out", "traffic_ns"]

# Of an episode in real time without a limit of its own; the slack is for agents that come late.
LONGEST_NS = 600 * NS_PER_S
LONGEST_FLOWS = 500_000
SLACK_NS = 30 * NS_PER_S


def check_scenario(can: Capabilities, scenario: Scenario) -> None:
    """Refuse traffic and servers that a backend cannot have.

    Args:
        can: What the backend can do.
        scenario: The pool and its traffic.

    Raises:
        ConfigError: Users wait for their flows, resources beyond the first have a limit, or there
            are several virtual addresses or too many servers.
    """
    if (n_vips := len(scenario.pool.vips)) > 1 and not can.vips:
        raise ConfigError("scenario.vips", n_vips, "one virtual address, with this backend")
    workload = scenario.workload
    if workload.is_closed_loop and not can.closed_loops:
        allowed = "open arrivals, with this backend"
        raise ConfigError("scenario.arrivals", workload.arrivals.name, allowed)
    for group in scenario.pool.groups:
        for one in group.resources:
            if one.limit is not None and not can.stage_limits:
                raise ConfigError(f"server.{one.name}_limit", one.limit, "None, with this backend")
    if can.largest_hosts is not None:
        check_int("scenario.groups", scenario.n_servers, 1, can.largest_hosts)


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


def are_under_way(flows: npt.NDArray[np.void], before_ns: int) -> bool:
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
