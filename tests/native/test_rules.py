"""The rules of rules.h against a plain reference in Python, which has no ties to the C code."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dcgym.native import require
from dcgym.tasks.balancing.rules import RULES

pytestmark = pytest.mark.simulation

DRAWS = 4000
SIGNIFICANCE = 1e-4  # a wrong distribution is missed or a right one refused this rarely
WORD = 2**64
# Those that need nothing but what a balancer sees.
OWN_RULES = [n for n, rule in RULES.items() if rule.is_in_kernel and not rule.needs_messages]


def choose(rule: str, ongoing: list[int], weights: list[int], **options: Any) -> dict[str, Any]:
    n = len(ongoing)
    settings: dict[str, Any] = {
        "servers": list(range(n)),
        "scores": [(0, 0, 0)] * n,
        "random": 1,
        "turn": 0,
        "now_ns": 0,
    }
    settings |= options
    if "hashes" not in settings:
        settings["hashes"] = hashes(DRAWS)
    result: dict[str, Any] = require("_simulation").choose(
        RULES[rule].number, weights=weights, ongoing=ongoing, **settings
    )
    return result


def hashes(n: int, seed: int = 5) -> list[int]:
    return [int(x) for x in np.random.default_rng(seed).integers(0, WORD, n, np.uint64)]


def check_distribution(choices: list[int], expected: dict[int, float]) -> None:
    """Refuse a choice of probability 0, and frequencies that are not the expected ones."""
    counts = Counter(choices)
    assert set(counts) <= {server for server, p in expected.items() if p > 0}
    likely = {server: p for server, p in expected.items() if p > 0}
    if len(likely) > 1:
        observed = [counts[server] for server in likely]
        wanted = [p * len(choices) for p in likely.values()]
        assert stats.chisquare(observed, wanted).pvalue > SIGNIFICANCE


def least(
    ongoing: list[int], weights: list[int], among: list[int], own: Fraction = Fraction(1)
) -> dict[int, float]:
    delays = {i: (ongoing[i] + own) / weights[i] for i in among}
    best = [i for i in among if delays[i] == min(delays.values())]
    return {i: 1 / len(best) if i in best else 0.0 for i in among}


def least_of_two(ongoing: list[int], weights: list[int]) -> dict[int, float]:
    n = len(ongoing)
    chances = dict.fromkeys(range(n), 0.0)
    for a, b in product(range(n), repeat=2):
        if a != b:
            for i, p in least(ongoing, weights, [a, b]).items():
                chances[i] += p / (n * (n - 1))
    return chances


STATES = [list(state) for n in (1, 2, 3) for state in product(range(3), repeat=n)]
WEIGHTS = {1: [[7]], 2: [[1, 1], [1, 2]], 3: [[1, 1, 1], [1, 2, 3], [5, 1, 5]]}


@pytest.mark.parametrize("rule", ["lsq", "sed", "sed-half", "weighted"])
def test_least_delay_over_every_small_state(rule: str) -> None:
    for ongoing in STATES:
        for weights in WEIGHTS[len(ongoing)]:
            counted = [1] * len(ongoing) if rule == "lsq" else weights
            own = Fraction(1, 2) if rule == "sed-half" else Fraction(1)
            expected = least(ongoing, counted, list(range(len(ongoing))), own)
            found = choose(rule, ongoing, weights, hashes=hashes(600))["choices"]
            check_distribution(found, expected)


@pytest.mark.parametrize("rule", ["lsq2", "sed2", "weighted2"])
def test_two_choices_over_every_small_state(rule: str) -> None:
    for ongoing in STATES:
        if len(ongoing) > 1:
            for weights in WEIGHTS[len(ongoing)]:
                counted = [1] * len(ongoing) if rule == "lsq2" else weights
                found = choose(rule, ongoing, weights, hashes=hashes(600))["choices"]
                check_distribution(found, least_of_two(ongoing, counted))


@pytest.mark.parametrize("n", [2, 8, 64, 1000])
def test_ties_are_broken_uniformly(n: int) -> None:
    found = choose("sed", [3] * n, [5] * n, hashes=hashes(20 * max(n, 200)))["choices"]
    check_distribution(found, dict.fromkeys(range(n), 1 / n))


def test_equal_delays_of_unequal_servers_tie() -> None:
    # (1 + 1) / 1 = (3 + 1) / 2 = (5 + 1) / 3, exactly.
    found = choose("sed", [1, 3, 5, 2], [1, 2, 3, 1])["choices"]
    check_distribution(found, {0: 1 / 3, 1: 1 / 3, 2: 1 / 3, 3: 0.0})


def test_half_a_flow_breaks_the_tie_of_one_and_two_workers() -> None:
    # (0 + 1) / 1 = (1 + 1) / 2, but (0 + 1/2) / 1 < (1 + 1/2) / 2.
    assert set(choose("sed", [0, 1], [1, 2])["choices"]) == {0, 1}
    assert set(choose("sed-half", [0, 1], [1, 2])["choices"]) == {0}


def test_delays_are_compared_exactly_at_the_limits() -> None:
    top = 2**24
    for rule in ("sed", "sed-half"):
        assert set(choose(rule, [2**31, 2**31 - 1], [top, top])["choices"]) == {1}
    assert set(choose("sed", [top - 1, top - 2], [top, top - 1])["choices"]) == {0, 1}


@pytest.mark.parametrize(("rule", "shift"), [("sed", 0), ("sed-half", 1)])
@pytest.mark.parametrize("n", [1, 2, 7, 64, 1000])
def test_the_tree_of_the_simulation_chooses_as_the_loop_does(rule: str, shift: int, n: int) -> None:
    generator = np.random.default_rng(n)
    weights = [int(w) for w in generator.choice([1, 2, 3, 4, 6, 2**24], n)]
    changes = [(int(i), int(q)) for i, q in generator.integers((0, 0), (n, 4), (200, 2))]
    choices, left = require("_simulation").tree_choices(weights, shift, 7, changes)
    ongoing, random, expected = [0] * n, 7, []
    for position, queue in changes:
        ongoing[position] = queue
        found = choose(rule, ongoing, weights, random=random, hashes=[0])
        expected += found["choices"]
        random = found["random"]
    assert choices == expected and left == random


@pytest.mark.parametrize("rule", ["ecmp", "random"])
def test_uniform_rules(rule: str) -> None:
    found = choose(rule, [9, 0, 4, 0, 1], [1, 9, 1, 1, 1])["choices"]
    check_distribution(found, dict.fromkeys(range(5), 0.2))


@pytest.mark.parametrize("rule", ["ecmp", "wcmp", "awcmp"])
def test_hashed_rules_depend_on_the_hash_alone(rule: str) -> None:
    first = choose(rule, [0, 1, 2], [1, 2, 3], random=1)["choices"]
    assert choose(rule, [5, 0, 0], [1, 2, 3], random=2)["choices"] == first


def test_round_robin_takes_turns_and_goes_on_after_a_change() -> None:
    result = choose("round-robin", [0] * 3, [1] * 3, hashes=hashes(7))
    assert result["choices"] == [0, 1, 2, 0, 1, 2, 0]
    shrunk = choose(
        "round-robin", [0] * 3, [1, 1], servers=[0, 2], turn=result["turn"], hashes=hashes(3)
    )
    assert shrunk["choices"] == [2, 0, 2]


@pytest.mark.parametrize("rule", OWN_RULES)
def test_only_members_of_the_pool_get_flows(rule: str) -> None:
    found = choose(rule, [9, 0, 9, 0, 9], [1, 2, 3], servers=[0, 2, 4], hashes=hashes(300))
    assert set(found["choices"]) <= {0, 2, 4}
    empty = choose(rule, [0], [], servers=[], hashes=hashes(1))
    assert empty["choices"] == [require("_simulation").NO_SERVER]


@pytest.mark.parametrize("weights", [[1], [1, 1], [1, 3], [5, 2, 1, 1], [1, 100, 1], [7] * 64])
def test_alias_table_holds_the_weights(weights: list[int]) -> None:
    check_alias(weights)


def test_alias_table_of_random_weights() -> None:
    rng = np.random.default_rng(3)
    for n in (2, 17, 64, 1024):
        check_alias([int(w) for w in rng.integers(1, 2**24, n, endpoint=True)])


def check_alias(weights: list[int]) -> None:
    """Add up each server's chance over all columns: exact, no sampling."""
    columns = require("_simulation").alias_table(weights)
    chance = [Fraction(0)] * len(weights)
    for i, (threshold, other) in enumerate(columns):
        chance[i] += Fraction(threshold, 2**32)
        chance[other] += 1 - Fraction(threshold, 2**32)
    for found, weight in zip(chance, weights, strict=True):
        # Thresholds have 29 bits; n columns may each be short by one unit of them.
        exact = Fraction(weight * len(weights), sum(weights))
        assert abs(found - exact) <= Fraction(len(weights), 2**29)


def test_weighted_sampling_follows_the_weights() -> None:
    weights = [1, 2, 3, 4, 10]
    found = choose("wcmp", [0] * 5, weights, hashes=hashes(20_000))["choices"]
    check_distribution(found, {i: w / 20 for i, w in enumerate(weights)})


def test_charons_worked_example() -> None:
    # Yao (2023), section 4.3: at time 8, g = 1, v = 2, t = 5 gives 0; g = 3, v = 1, t = 7 gives 2.
    native = require("_simulation")
    one, tick = native.SCORE_ONE, native.TICK_NS
    scores = [(1 * one, 2 * one, 5 * tick), (3 * one, 1 * one, 7 * tick)]
    result = choose("sapp", [0, 0], [1, 1], scores=scores, now_ns=8 * tick, hashes=[123])
    assert result["choices"] == [0]
    # The chosen server's forecast, 0, counts the new flow at once; the other keeps its report.
    assert result["scores"] == [(one, 2 * one, 8 * tick), scores[1]]


def test_charon_spreads_a_burst_before_any_report() -> None:
    counts = Counter(choose("sapp", [0] * 4, [1] * 4, hashes=hashes(400))["choices"])
    # Two choices of four keep the counts within a few flows of each other.
    assert max(counts.values()) - min(counts.values()) <= 4


def test_charon_ignores_a_clock_that_runs_backwards() -> None:
    one = require("_simulation").SCORE_ONE
    scores = [(5 * one, one, 10**12), (4 * one, 0, 0)]
    result = choose("sapp", [0, 0], [1, 1], scores=scores, now_ns=1, hashes=[7])
    assert result["choices"] == [1]


def test_charon_forgets_after_a_long_silence_without_overflow() -> None:
    one = require("_simulation").SCORE_ONE
    scores = [(1000 * one, 2**35, 0), (one, 0, 0)]
    result = choose("sapp", [0, 0], [1, 1], scores=scores, now_ns=2**63 - 1, hashes=[7])
    assert result["choices"] == [0]
    assert result["scores"][0][0] == one


def test_wsapp_draws_candidates_by_weight() -> None:
    # With scores that never differ the first of two draws by weight wins.
    weights = [1, 3]
    one = require("_simulation").SCORE_ONE
    counts = Counter(
        choose("wsapp", [0, 0], weights, hashes=[h], scores=[(one, 0, 0)] * 2)["choices"][0]
        for h in hashes(DRAWS)
    )
    assert stats.chisquare([counts[0], counts[1]], [DRAWS / 4, 3 * DRAWS / 4]).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("rule", [name for name in RULES if name not in OWN_RULES])
def test_rules_that_need_more_than_a_balancer_sees_choose_nobody(rule: str) -> None:
    found = choose(rule, [0, 0], [1, 1], hashes=[1])["choices"]
    assert found == [require("_simulation").NO_SERVER]


def test_numbers_of_the_rules_are_those_of_saved_results() -> None:
    saved = {"ecmp": 0, "sed": 7, "wsapp": 13, "oracle": 16, "least-request": 21, "c3-rank": 27}
    assert {name: RULES[name].number for name in saved} == saved
