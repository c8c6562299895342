"""KnapsackLB's parts by hand, its loop on servers with known curves, and in the twin."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.policies import make_policy
from dcgym.policies.balancing.curves import fit_curve, latencies_of, shrunk, stretch_of
from dcgym.policies.balancing.knapsack import (
    ROUNDS,
    KnapsackPolicy,
    explored_factors,
    least_cost_units,
    little_latency_s,
)
from dcgym.suites.balancing import pool_env
from dcgym.suites.evaluate import compare
from dcgym.suites.modern import modern_balancing
from dcgym.tasks.balancing import Scenario, ServerPool, Workload, server_group
from dcgym.tasks.balancing.actions import make_weight_map
from dcgym.traffic.http import Application, Stage
from dcgym.traffic.sizes import exponential


def test_littles_law_by_hand() -> None:
    # 4 flows under way, 20 end in 10 s: 2 s each. One that hangs has lasted at least 10 s.
    found = little_latency_s(np.array([4.0, 1.0, 0.0]), np.array([20.0, 0.0, 0.0]), 10.0)
    assert found[:2].tolist() == [2.0, 10.0] and np.isnan(found[2])


@pytest.mark.parametrize(
    ("latencies", "curve"),
    [
        ([1.0, 3.0, 9.0], [1.0, 0.0, 8.0]),  # 1 + 8 w^2
        ([2.0, 4.0, 6.0], [2.0, 4.0, 0.0]),  # 2 + 4 w
        ([3.0, 3.0, 3.0], [3.0, 0.0, 0.0]),
        # It falls: the constant of the least relative error, sum(1/l) / sum(1/l^2).
        ([4.0, 2.0, 1.0], [1.75 / 1.3125, 0.0, 0.0]),
    ],
)
def test_curves_do_not_fall(latencies: list[float], curve: list[float]) -> None:
    found = fit_curve(np.array([0.0, 0.5, 1.0]), np.array(latencies))
    assert found == pytest.approx(curve, abs=1e-9)


def test_the_knapsack_by_hand() -> None:
    # w (1 + 4 w) + v (2 + 4 v), v = 1 - w: least at w = 9/16.
    shares = np.arange(1, 17) / 16
    found = least_cost_units([shares * (1 + 4 * shares), shares * (2 + 4 * shares)], 16)
    assert found.tolist() == [9, 7]
    # The first may have no more than 4 units.
    bounded = [(shares * (1 + 4 * shares))[:4], shares * (2 + 4 * shares)]
    assert least_cost_units(bounded, 16).tolist() == [4, 12]


def test_the_dynamic_program_finds_what_trying_all_finds() -> None:
    generator = np.random.default_rng(5)
    for _ in range(20):
        # Neither convex nor rising: only trying all of them, or the program, is right.
        costs = [generator.uniform(0, 1, 6) for _ in range(4)]
        found = least_cost_units(costs, 11)
        assert found.sum() == 11 and found.min() >= 1
        all_sums = [
            sum(cost[count - 1] for cost, count in zip(costs, counts, strict=True))
            for counts in itertools.product(range(1, 7), repeat=4)
            if sum(counts) == 11
        ]
        mine = sum(cost[count - 1] for cost, count in zip(costs, found, strict=True))
        assert mine == pytest.approx(min(all_sums))


def test_a_stretch_by_hand() -> None:
    # 1 + 4 w is 5 at w = 1. Measured at w = 1/2, where 3 was expected: half as fast.
    assert stretch_of(np.array([1.0, 4.0, 0.0]), 0.5, 5.0) == 0.5
    # 1 + 8 w^2 is 3 at w = 1/2; measured at w = 1: twice as fast.
    assert stretch_of(np.array([1.0, 0.0, 8.0]), 1.0, 3.0) == pytest.approx(2.0)
    assert np.isnan(stretch_of(np.array([1.0, 4.0, 0.0]), 0.5, 0.9))


def test_a_difference_that_chance_explains_is_not_kept() -> None:
    own, common, shares = np.array([3.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0]), np.arange(6.0)
    # Twice (3 - 1) / (3 + 1) is 1: six squares over three numbers are 2. Of five times the noise
    # nothing is kept, of ten times a half.
    assert shrunk(own, common, shares, noise=0.4).tolist() == [1.0, 0.0, 0.0]
    assert shrunk(own, common, shares, noise=0.2).tolist() == [2.0, 0.0, 0.0]
    assert shrunk(own, common, shares, noise=0.0).tolist() == [3.0, 0.0, 0.0]
    curves = np.array([[1.0, 4.0, 0.0], [1.0, 0.0, 8.0]])
    assert latencies_of(curves, np.array([0.5, 0.5])).tolist() == [3.0, 3.0]


def run_on(
    policy: Any,
    curve: Callable[[float, np.ndarray[Any, Any]], Any],
    n: int,
    seconds: int,
    absent: int = 0,
) -> list[Any]:
    """Step servers that obey Little's law once a second, and return the shares of each second.

    The first `absent` of them are not in the pool.
    """
    is_there = np.arange(n) >= absent
    task = SimpleNamespace(
        configured_weights=np.ones(n), action_map=make_weight_map("continuous", n)
    )
    bound = policy.bind(task)
    shares, completed, found = np.full(n, 1 / n), np.zeros(n), []
    for second in range(seconds):
        rates = 100.0 * shares * is_there
        ongoing = rates * curve(second, shares)
        # Half-open entries, of flows that were turned away, have no latency.
        servers = {
            "ongoing": ongoing + 7.0,
            "flows": completed + ongoing,
            "completed": completed.copy(),
            "eligible": is_there,
        }
        action = bound.act(np.empty(0), {"time_s": float(second), "servers": servers})
        weights = task.action_map.to_weights(action)
        shares = weights / weights.sum()
        found.append(shares)
        completed = completed + 100.0 * shares * is_there
    return found


def test_every_server_is_explored_below_and_above_its_first_share() -> None:
    factors = np.array([explored_factors(number, 8) for number in range(ROUNDS)])
    assert (factors[0] == 1).all() and np.allclose(factors.sum(axis=1), 8)
    assert (factors.min(axis=0) == 0.5).all() and (factors.max(axis=0) == 1.2).all()
    # A quarter of them at a time.
    assert (factors == 0.5).sum(axis=1).tolist() == [0, 2, 2, 2, 2, 0, 0]


def test_the_loop_finds_the_best_shares_and_follows_a_change() -> None:
    def curve(second: float, shares: Any) -> Any:
        slower = 4.0 if second >= 60 else 1.0
        return np.array([1 + 4 * shares[0], slower * (2 + 4 * shares[1])])

    found = run_on(KnapsackPolicy(period_s=4.0), curve, n=2, seconds=160)
    explored = [shares[0] for shares in found[1 : 4 * ROUNDS : 4]]
    # Of two servers no quarter is left in rounds 3 and 4; 0.5 against 7/6 is 0.3 of both.
    assert explored == pytest.approx([0.5, 0.3, 0.7, 0.5, 0.5, 0.6, 0.4], abs=1e-6)
    # 1 + 4 w and 2 + 4 v: 9/16, on a grid of hundredths.
    assert found[50][0] == pytest.approx(9 / 16, abs=0.011)
    assert found[-1][0] > 0.65


def test_a_server_that_is_full_gets_no_more_while_others_are_explored() -> None:
    def curve(second: float, shares: Any) -> Any:
        return np.array([100.0 if shares[0] > 0.3 else 1.0, 1.0, 1.0])

    found = run_on(KnapsackPolicy(period_s=4.0), curve, n=3, seconds=60)
    assert found[1][0] == pytest.approx(1 / 3)
    # Known once the first round with half of its share has shown a latency of a hundredth.
    assert max(shares[0] for shares in found[9:]) < 0.3


def test_servers_that_are_away_do_not_hold_exploration_up() -> None:
    policy = KnapsackPolicy(period_s=4.0)
    run_on(policy, lambda second, shares: np.full(8, 0.2), n=8, seconds=40, absent=5)
    assert policy.curves is not None


def noisy(
    first_speed: float, generator: np.random.Generator
) -> Callable[[float, np.ndarray[Any, Any]], Any]:
    """Return eight servers at a load of 0.4, whose latencies are noisy; one has another speed."""
    speeds = np.array([first_speed] + [1.0] * 7)

    def curve(second: float, shares: Any) -> Any:
        used = np.minimum(8 * shares * 0.4 / speeds, 0.95)
        # The latency of each second is off by 70 % (one sigma), that of a round by 40 %.
        return 0.2 / speeds / (1 - used) * generator.gamma(2.0, 0.5, 8)

    return curve


def test_equal_servers_get_equal_shares_and_a_slow_one_is_found() -> None:
    generator = np.random.default_rng(1)
    for first_speed in (1.0, 0.5):
        off = []
        for _ in range(8):
            policy = KnapsackPolicy(period_s=4.0)
            found = run_on(policy, noisy(first_speed, generator), n=8, seconds=200)
            shares = 8 * np.mean(found[100:], axis=0)
            assert first_speed == 1.0 or shares[0] < 0.7
            equal = shares if first_speed == 1.0 else shares[1:]
            off.extend(np.abs(equal / equal.mean() - 1))
        # Within 5 % of even but for one server in twenty, and within 2 % in the mean.
        assert np.quantile(off, 0.95) < 0.05 and np.mean(off) < 0.02


def test_periods_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="period_s: value 0"):
        make_policy("knapsack", family="balancing", period_s=0)


@pytest.mark.simulation
def test_in_the_twin_it_learns_antagonists_that_nobody_configured() -> None:
    (case,) = [case for case in modern_balancing().cases if case.name == "standing-1.27"]
    policies = ["knapsack", "round-robin-weighted"]
    found = compare(case.env, policies, [1], seconds=60, warmup=40, every_agent=True)
    # Two servers of sixteen have half of their processors; both policies believe them equal.
    share, even = (found.mean("share_crowded", name) for name in policies)
    assert even == pytest.approx(1 / 8, abs=0.001) and share < 0.09
    slow, fast = (found.mean("fct_us_p99", name) for name in reversed(policies))
    assert fast < slow / 3


def split_mean(share: float) -> float:
    """Return the mean time at random with this share for the four slow servers, in theirs alone.

    M/M/1 servers, four of speed 1 and four of speed 4, with 16 of the 20 that they can do.
    """
    rates = np.array([share * 4, (1 - share) * 4])
    return float((rates / (np.array([1.0, 4.0]) - rates)).sum() / 4)


@pytest.mark.simulation
def test_in_the_twin_it_beats_weights_in_proportion_to_speed() -> None:
    assert split_mean(1 / 5) == pytest.approx(2.0) and split_mean(1 / 6) == pytest.approx(1.75)
    groups = (server_group("slow", 4, 1), server_group("fast", 4, 1, cpu_speed=4.0))
    application = Application("request", (Stage("cpu", exponential("100ms")),))
    scenario = Scenario("speeds", ServerPool(groups, backlog=1000), Workload((application,), 0.8))
    env = {**pool_env(scenario.to_dict(), "simulation"), "reward": "log_ongoing"}
    policies = ["knapsack", "round-robin-weighted"]
    found = compare(env, policies, seeds=range(1, 5), seconds=160, warmup=60, every_agent=True)
    # The shares of 16,000 flows are known to 2 %, which is 0.04 of these means: a random split by
    # what was learned is nearer to the best one than to the one in proportion.
    learned = [split_mean(share) for share in found.values("share_slow", "knapsack")]
    assert min(learned) >= 1.75 and max(learned) < 1.95 and np.mean(learned) < 1.875
    # Taking turns is better than chance: 1.2 in proportion, where 1 % is one standard error.
    mine, configured = (found.mean("fct_us_mean", policy) / 1e5 for policy in policies)
    assert mine < configured < 1.75
