"""Rules that serve servers in turn or look for idle ones, against published and worked examples."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tests.native.test_rules import (
    check_distribution,
    choose,
    hashes,
    least_of_two,
)

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("rule", ["round-robin-weighted", "round-robin-learned"])
def test_nginx_own_example_of_smooth_round_robin(rule: str) -> None:
    # "a: 5, b: 1, c: 1" gives a a b a c a a (the message of nginx's commit of May 2012).
    result = choose(rule, [0, 0, 0], [5, 1, 1], hashes=hashes(14))
    assert result["choices"] == [0, 0, 1, 0, 2, 0, 0] * 2
    assert [credit for credit, _ in result["turns"]] == [0, 0, 0]
    # Its states after each choice, from the same message.
    states = [(-2, 1, 1), (-4, 2, 2), (1, -4, 3), (-1, -3, 4), (4, -2, -2)]
    for count, state in enumerate(states, 1):
        after = choose(rule, [0, 0, 0], [5, 1, 1], hashes=hashes(count))
        assert tuple(credit for credit, _ in after["turns"]) == state


def test_smooth_round_robin_goes_on_in_a_smaller_pool() -> None:
    before = choose("round-robin-weighted", [0] * 3, [5, 1, 1], hashes=hashes(3))
    after = choose(
        *("round-robin-weighted", [0] * 3, [5, 1]),
        servers=[0, 2],
        turns=before["turns"],
        hashes=hashes(600),
    )
    # Credits 1, -4, 3 stay; of the two that are left the shares are 5 : 1 from here on.
    assert after["choices"][:3] == [0, 0, 2]
    assert abs(Counter(after["choices"])[2] - 100) <= 1


@pytest.mark.parametrize("weights", [[1, 2, 3, 4, 10], [2**24, 1], [3] * 64])
def test_smooth_round_robin_is_exact_over_a_round(weights: list[int]) -> None:
    rounds = sum(weights) if sum(weights) < 10_000 else 10_000
    counts = Counter(
        choose("round-robin-weighted", [0] * len(weights), weights, hashes=hashes(rounds))[
            "choices"
        ]
    )
    for server, weight in enumerate(weights):
        assert abs(counts[server] - Fraction(rounds * weight, sum(weights))) < 1


def test_least_request_of_equal_weights_is_two_choices() -> None:
    for ongoing in product(range(3), repeat=3):
        found = choose("least-request", list(ongoing), [7, 7, 7], hashes=hashes(600))["choices"]
        check_distribution(found, least_of_two(list(ongoing), [1, 1, 1]))


@pytest.mark.parametrize(
    ("ongoing", "weights"), [([0, 0, 0], [1, 2, 5]), ([3, 0, 1], [4, 1, 2]), ([9, 0], [2**24, 1])]
)
def test_least_request_serves_in_proportion_to_weight_over_flows(
    ongoing: list[int], weights: list[int]
) -> None:
    # Envoy: weight / (active requests + 1)^bias, bias 1; the counts stand still here.
    effective = [Fraction(w, q + 1) for q, w in zip(ongoing, weights, strict=True)]
    counts = Counter(choose("least-request", ongoing, weights, hashes=hashes(8000))["choices"])
    for server, share in enumerate(effective):
        # The deadlines begin together, which costs each server one turn at most.
        assert abs(counts[server] - 8000 * share / sum(effective)) <= 2


def test_deadlines_of_least_request_by_hand() -> None:
    # Weights 2 : 1, no flows: turns of 1/2 and 1, the first of two at the same time first.
    unit = 2**40
    result = choose("least-request", [0, 0], [2, 1], hashes=hashes(6))
    assert result["choices"] == [0, 1, 0, 0, 1, 0]
    assert [deadline for _, deadline in result["turns"]] == [2 * unit, 2 * unit]
    assert result["clock"] == 3 * unit // 2
    # A flow at the first makes its next turn come as late as the second's.
    after = choose("least-request", [1, 0], [2, 1], hashes=hashes(4))
    assert after["choices"] == [0, 1, 0, 1]


def test_a_server_that_was_away_gets_one_flow_at_once_and_no_burst() -> None:
    weights, long_ago = [3, 1, 1], [(0, 10**15), (0, 10**15 + 1), (0, 5)]
    found = choose(
        "least-request", [0] * 3, weights, turns=long_ago, clock=10**15, hashes=hashes(9)
    )
    assert found["choices"][0] == 2 and Counter(found["choices"])[2] <= 2


def test_balanced_routing_draws_two_by_weight_and_takes_the_emptier() -> None:
    weights, ongoing = [1, 2, 5], [0, 1, 1]
    chances = dict.fromkeys(range(3), 0.0)
    for a, b in product(range(3), repeat=2):
        winner = b if ongoing[b] < ongoing[a] else a
        chances[winner] += weights[a] * weights[b] / sum(weights) ** 2
    found = choose("br", ongoing, weights, hashes=hashes(8000))["choices"]
    check_distribution(found, chances)


def test_balanced_routing_of_equal_queues_follows_the_weights() -> None:
    found = choose("br", [4] * 4, [1, 2, 3, 10], hashes=hashes(8000))["choices"]
    check_distribution(found, {i: w / 16 for i, w in enumerate([1, 2, 3, 10])})


@pytest.mark.parametrize(
    ("ongoing", "idle"), [([0, 1, 0, 5], [0, 2]), ([1, 1, 3, 2], [0, 1, 2, 3]), ([1, 0, 1, 1], [1])]
)
def test_an_idle_server_is_taken_while_there_is_one(ongoing: list[int], idle: list[int]) -> None:
    found = choose("jiq-own", ongoing, [1, 9, 1, 1])["choices"]
    check_distribution(found, {i: 1 / len(idle) if i in idle else 0.0 for i in range(4)})


def test_idle_servers_of_a_large_pool_are_alike() -> None:
    ongoing = [int(q) for q in np.random.default_rng(3).integers(0, 3, 1000)]
    idle = [i for i, q in enumerate(ongoing) if q == 0]
    found = choose("jiq-own", ongoing, [1] * 1000, hashes=hashes(20 * len(idle)))["choices"]
    check_distribution(found, {i: 1 / len(idle) for i in idle})
