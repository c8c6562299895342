"""Balancing rewards against values worked out by hand, and the potential-game claim measured."""

from types import SimpleNamespace

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.tasks.balancing.rewards import BALANCING_REWARDS, vbf
from dcgym.tasks.common.rewards import Reward
from dcgym.tasks.common.statistics import jain_index

EVEN = np.array([2.0, 2.0, 2.0, 2.0])
ONE_SERVER = np.array([8.0, 0.0, 0.0, 0.0])


def inputs_of(durations, drains=None, own=None):
    drains = durations if drains is None else drains
    own = np.zeros_like(drains) if own is None else own
    none = np.zeros(np.shape(durations)[:-1])
    return SimpleNamespace(
        durations_s=durations,
        drains_s=drains,
        own_drains_s=own,
        tracked=none,
        shadow_tracked=none,
        rate_per_s=1.0,
        completions_p90_s=2 * durations,
        part_in_service=np.isfinite(durations).mean(axis=-1),
    )


def terms(*loads, **more_loads):
    inputs = inputs_of(*loads, **more_loads)
    return {name: Reward(name, BALANCING_REWARDS).terms(inputs)[name] for name in BALANCING_REWARDS}


def test_even_loads_score_highest_in_every_fairness_term():
    even, uneven = terms(EVEN), terms(np.array([1.0, 2.0, 3.0, 2.0]))
    for name in ("vbf", "log_vbf", "vbf_log_vbf", "pbf", "jain", "cv"):
        assert even[name] > uneven[name], name
    assert even["vbf"] == 0 and even["pbf"] == 1 and even["jain"] == 1 and even["cv"] == 0
    assert even["log_vbf"] == pytest.approx(6 * np.log(10))


def test_values_of_one_loaded_server():
    values = terms(ONE_SERVER)
    # Mean 2, squares 64 / 4 = 16, variance 12.
    assert values["vbf"] == pytest.approx(-12)
    assert values["log_vbf"] == pytest.approx(-np.log(12 + 1e-6))
    assert values["vbf_log_vbf"] == pytest.approx(-12 - np.log(12 + 1e-6))
    assert values["pbf"] == 0
    assert values["makespan"] == -8
    assert values["log_makespan"] == pytest.approx(-np.log(8.001))
    # Twice the durations are what was sampled as the tail of completion times.
    assert values["tail_completion"] == -16
    assert values["jain"] == 0.25
    assert values["cv"] == pytest.approx(-np.sqrt(12) / 2)


def test_servers_cost_what_part_of_them_takes_flows():
    assert terms(EVEN)["in_service"] == -1
    assert terms(np.array([1.0, np.nan, np.nan, 2.0]))["in_service"] == -0.5


def test_defaults_count_the_flows_under_way():
    flows, of_sed = np.array([0.0, 3.0, 30.0]), np.array([0.0, 9.0, 10.0])
    inputs = SimpleNamespace(tracked=flows, shadow_tracked=of_sed, rate_per_s=5.0)
    gain = Reward("gain_over_sed", BALANCING_REWARDS).terms(inputs)["gain_over_sed"]
    # Little's law: 6 flows fewer at 5 flows a second are 1.2 s each.
    assert gain.tolist() == [0.0, 1.2, -4.0]
    log = Reward("log_ongoing", BALANCING_REWARDS).terms(inputs)["log_ongoing"]
    assert log.tolist() == pytest.approx([0.0, -np.log(4), -np.log(31)])


def test_pbf_is_the_product_of_ratios_not_the_ratio_of_the_product():
    assert terms(np.array([1.0, 2.0, 4.0]))["pbf"] == pytest.approx(1 / 4 * 1 / 2)


def test_no_samples_count_as_even():
    values = terms(np.zeros(4))
    assert values["pbf"] == values["jain"] == 1
    assert values["vbf"] == values["cv"] == values["makespan"] == 0


def test_servers_that_take_no_flows_are_left_out():
    without = terms(np.array([1.0, 2.0, 3.0]), own=np.array([0.5, 0.5, 0.0]))
    gone = np.array([1.0, np.nan, 2.0, 3.0])
    inputs = inputs_of(gone, gone, np.array([0.5, 9.0, 0.5, 0.0]))
    for name in BALANCING_REWARDS:
        if name == "in_service":
            continue
        assert Reward(name, BALANCING_REWARDS).terms(inputs)[name] == pytest.approx(
            without[name]
        ), name


def test_leading_axes_are_environments_and_balancers():
    loads = np.random.default_rng(0).exponential(size=(3, 2, 5))
    for name, values in terms(loads).items():
        assert values.shape == (3, 2)
        assert values[1, 0] == pytest.approx(terms(loads[1, 0])[name])


def test_jain_lies_between_one_nth_and_one():
    loads = np.random.default_rng(1).exponential(size=(1000, 8))
    values = jain_index(loads)
    assert (values >= 1 / 8).all() and (values <= 1).all()


def unilateral_moves(n_balancers, moves=4000, n_servers=8):
    """Yield the loads of all balancers before and after balancer 0 redraws its own."""
    generator = np.random.default_rng(2)
    before = generator.exponential(size=(moves, n_balancers, n_servers))
    after = before.copy()
    after[:, 0] = generator.exponential(size=(moves, n_servers))
    return before, after


@pytest.mark.parametrize("n_balancers", [2, 4, 8])
def test_difference_reward_is_an_exact_potential_game(n_balancers):
    before, after = unilateral_moves(n_balancers)
    reward = [
        terms(loads[:, 0], loads.sum(axis=1), loads[:, 0])["difference"]
        for loads in (before, after)
    ]
    potential = [vbf(loads.sum(axis=1)) for loads in (before, after)]
    np.testing.assert_allclose(reward[1] - reward[0], potential[1] - potential[0], atol=1e-12)


def test_local_vbf_is_no_potential_game_and_gets_worse_with_more_balancers():
    # The published lemma says that these correlations are 1. With two balancers, moving (1, 0)
    # to (0, 1) against (1, 0) leaves the local value alone and lifts the global one by 1.
    assert vbf(np.array([1.0, 0.0])) == vbf(np.array([0.0, 1.0]))
    assert vbf(np.array([1.0, 1.0])) - vbf(np.array([2.0, 0.0])) == 1
    correlations = []
    for n_balancers in (2, 4, 8):
        before, after = unilateral_moves(n_balancers)
        local = vbf(after[:, 0]) - vbf(before[:, 0])
        true = vbf(after.sum(axis=1)) - vbf(before.sum(axis=1))
        correlations.append(np.corrcoef(local, true)[0, 1])
    assert correlations == sorted(correlations, reverse=True)
    assert correlations == pytest.approx([0.80, 0.62, 0.45], abs=0.05)


def test_terms_are_weighted_and_checked():
    reward = Reward({"vbf": 2.0, "makespan": 0.5}, BALANCING_REWARDS)
    inputs = inputs_of(ONE_SERVER, ONE_SERVER, ONE_SERVER)
    assert {name: float(value) for name, value in reward.terms(inputs).items()} == pytest.approx(
        {"vbf": -24, "makespan": -4}
    )
    with pytest.raises(ConfigError, match="vbf"):
        Reward("vfb", BALANCING_REWARDS)
