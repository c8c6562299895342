"""No rule leaves out a server for good that is as good as the others."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import pytest

from dcgym.backends.records import FLOWS, SUMMARY
from dcgym.backends.simulation import BalancingTwin
from dcgym.policies import env_overrides, make_policy
from dcgym.tasks.balancing import Event, Scenario, server_group
from dcgym.tasks.balancing.rules import RULES
from dcgym.traffic.sizes import exponential
from tests.support.pools import SECOND, pool, run

pytestmark = pytest.mark.simulation

SINCE_S = 20
"""When all is well again."""
JOINS, RETURNS, WAS_SLOW = 1, 2, 3
"""Servers: one that was not there, one that took no flows, one at a twentieth of its speed."""
HISTORY = (
    Event(0, "remove-server", JOINS),
    Event(10 * SECOND, "drain-server", RETURNS),
    Event(10 * SECOND, "capacity", WAS_SLOW, 0.05),
    Event(SINCE_S * SECOND, "add-server", (JOINS, RETURNS)),
    Event(SINCE_S * SECOND, "capacity", WAS_SLOW, 1.0),
)
SOON_S = 0.5
"""At 50 flows a second for each server: 25 of an even share. Chance leaves out none so long."""
AFTER_SLOWNESS_S = {
    # What a server owes takes the time that it was told to take.
    "sapp": 2.0,
    "wsapp": 2.0,
    # 200 probes of 150 a second, once the last of its slow requests has ended.
    "prequal": 3.0,
    # From a peak of seconds to the others' cost, a factor of e in ten seconds.
    "peak-ewma": 30.0,
    "c3-rank": 5.0 + SOON_S,
}


def servers(**changes: Any) -> Scenario:
    """Return eight single processors, requests of 10 ms, two balancers and half of the load."""
    settings: dict[str, Any] = {"latency_ns": (50_000, 100_000), "half_open_limit": 1024}
    settings |= {"load": 0.5, "balancers": 2} | changes
    group = server_group("a", settings.pop("count", 8), settings.pop("workers", 1))
    return pool(group, **settings)


def arrivals_s(twin: BalancingTwin, env: int = 0) -> list[npt.NDArray[np.float64]]:
    """Return when flows came to each server, in seconds after all was well again."""
    records = twin.records(FLOWS, env)
    since_s = records["arrival_ns"] / SECOND - SINCE_S
    is_late = since_s >= 0
    return [since_s[is_late & (records["server"] == server)] for server in range(twin.n_servers)]


def waited_s(rule: str, seconds: float = 60, **changes: Any) -> dict[int, float]:
    """Return how long each server with a history waited for its first flow; inf: to the end."""
    scenario = servers(events=HISTORY, **changes)
    twin = run(scenario, rule, seconds, envs=1, warm_up_ns=0, record_limit=10**6)
    found = arrivals_s(twin)
    return {server: min(found[server], default=np.inf) for server in (JOINS, RETURNS, WAS_SLOW)}


@pytest.mark.parametrize("rule", [*RULES])
def test_each_server_gets_a_flow_soon(rule: str) -> None:
    found = waited_s(rule, c3_reset_ns=5 * SECOND)
    assert found[JOINS] < SOON_S and found[RETURNS] < SOON_S
    assert found[WAS_SLOW] < AFTER_SLOWNESS_S.get(rule, 1.0)


def test_without_a_reset_the_ranking_of_c3_shuns_who_was_slow() -> None:
    assert waited_s("c3-rank", load=0.3)[WAS_SLOW] == np.inf
    assert waited_s("c3-rank", load=0.3, c3_reset_ns=5 * SECOND)[WAS_SLOW] < 5 + SOON_S


def loop_waited_s(name: str) -> dict[int, float]:
    """Return the same under a policy that sets weights, in steps of half a second."""
    scenario = servers(events=HISTORY, balancers=1, probe_interval_ns=SECOND // 2)
    env = gym.make("dcgym/LoadBalancing-v1", scenario=scenario, lead_in=0, **env_overrides(name))
    policy = make_policy(name, env)
    observation, info = env.reset(seed=0)
    first: dict[int, float] = dict.fromkeys((JOINS, RETURNS, WAS_SLOW), np.inf)
    before = np.zeros(8)
    while info["time_s"] < 60:
        observation, *_, info = env.step(policy.act(observation, info))
        came = info["servers"]["flows"] - before
        before = info["servers"]["flows"].copy()
        if info["time_s"] > SINCE_S:
            first |= {
                server: info["time_s"] - SINCE_S
                for server, waited_s in first.items()
                if came[server] and waited_s == np.inf
            }
    env.close()
    return first


@pytest.mark.parametrize("policy", ["awcmp", "wrr-utilisation", "knapsack"])
def test_weights_leave_out_nobody(policy: str) -> None:
    assert max(loop_waited_s(policy).values()) <= 2


def test_hlb_shuns_who_was_slow_since_its_reservoir_has_no_age() -> None:
    found = loop_waited_s("hlb")
    assert found.pop(WAS_SLOW) == np.inf and max(found.values()) <= 1


def test_who_joins_is_not_slower_for_ever_than_what_takes_a_millisecond() -> None:
    # All estimates decay from 30 ms: those of the others longer, and samples hold them up. Without
    # decay the first flow would come after 58 s.
    events = (Event(0, "remove-server", JOINS), Event(SINCE_S * SECOND, "add-server", JOINS))
    brief = servers(load=0.1, balancers=1, service=exponential("1ms"), events=events)
    twin = run(brief, "peak-ewma", SINCE_S + 15, envs=1, warm_up_ns=0, record_limit=10**6)
    assert min(arrivals_s(twin)[JOINS]) < 10


def test_who_joins_does_not_draw_all_flows_of_prequal() -> None:
    events = (Event(0, "remove-server", JOINS), Event(SINCE_S * SECOND, "add-server", JOINS))
    shape = {"count": 16, "workers": 4, "balancers": 4, "service": exponential("100ms")}
    scenario = servers(events=events, **shape)
    twin = run(scenario, "prequal", SINCE_S + 2, envs=16, warm_up_ns=0, record_limit=10**5)
    flows = [[(times < 0.1).sum() for times in arrivals_s(twin, env)] for env in range(16)]
    early = np.sum(flows, axis=0)
    # Its even share is 32 of 512; with a latency of 0 it had four times that.
    assert early.sum() > 400 and early[JOINS] < 2 * early.sum() / 16


def test_prequal_uses_all_of_equal_servers() -> None:
    twin = run(servers(count=16, balancers=4), "prequal", 60, envs=4)
    shares = np.array([twin.records(SUMMARY, env).server_flows for env in range(4)])
    assert (shares / shares.mean(axis=1, keepdims=True)).min() > 0.4
