"""Weights in whole numbers: what ratios they keep, whatever they are multiplied by."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcgym.native import require
from dcgym.tasks.balancing.actions import make_weight_map

pytestmark = pytest.mark.simulation

TOP = 2**24
SCALES = (1.0, 1 / 3, 1e-9, 7.3, math.pi * 1e12)


def fixed(weights: object) -> list[int]:
    found: list[int] = require("_simulation").fixed_weights(weights)
    assert all(1 <= one <= TOP for one in found)
    return found


def check_ratios(found: list[int], expected: list[int]) -> None:
    assert {Fraction(one, two) for one, two in zip(found, expected, strict=True)} == {
        Fraction(found[0], expected[0])
    }


def test_ratios_of_whole_numbers_are_kept_at_scales_far_from_one() -> None:
    for weights, scale in itertools.product(([1, 3], [1, 2, 3, 5, 7, 11, 13], [1, 10**6]), SCALES):
        check_ratios(fixed([weight * scale for weight in weights]), weights)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=64).filter(
        lambda ws: max(ws) * math.lcm(*(max(ws) // math.gcd(w, max(ws)) for w in ws)) <= TOP
    ),
    st.floats(1e-6, 1e6),
)
@settings(max_examples=200, deadline=None)
def test_any_whole_numbers_whose_multiple_fits_are_kept(weights: list[int], scale: float) -> None:
    check_ratios(fixed([weight * scale for weight in weights]), weights)


def test_ratios_survive_beside_a_weight_that_has_none() -> None:
    for other in (math.pi, math.sqrt(2) / 9):
        one, three, seven, rest = fixed([1.0, 3.0, 7.0, other])
        check_ratios([one, three, seven], [1, 3, 7])
        assert rest / one == pytest.approx(other, rel=2**-12)


def test_decimals_are_ratios_too() -> None:
    check_ratios(fixed([0.1, 0.25, 0.125, 1.5]), [4, 10, 5, 60])


def test_what_fits_nowhere_is_rounded_and_equal_weights_stay_equal() -> None:
    weights = np.random.default_rng(2).uniform(1 / 64, 1, 1000)
    weights[500:] = weights[:500]
    found = fixed(weights)
    assert found[:500] == found[500:]
    ratios = np.array(found) / max(found)
    np.testing.assert_allclose(ratios, weights / weights.max(), rtol=2**-12, atol=0)


@pytest.mark.parametrize("weights", [[1, 3], [2, 5], [1, 2, 3, 4], [3, 7, 7, 21]])
def test_continuous_actions_mean_ratios_in_spite_of_float32(weights: list[int]) -> None:
    actions = make_weight_map("continuous", len(weights))
    set_by_agent = actions.to_weights(actions.from_weights(np.array(weights, float)))
    check_ratios(fixed(set_by_agent), weights)


def test_discrete_actions_are_whole_numbers() -> None:
    levels = make_weight_map("discrete", 3).to_weights([0, 1, 2])
    check_ratios(fixed(levels), [2, 3, 4])
