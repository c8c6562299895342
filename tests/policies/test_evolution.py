"""CMA-ES beside what its papers say."""

import numpy as np
import pytest

from dcgym.policies.learned.plain.evolution import MOST_FULL, Evolution


def minimise(evolution, loss, target, most):
    """Return the evaluations until the loss of the mean is below a target."""
    for generation in range(most // evolution.population):
        if loss(evolution.mean) < target:
            return generation * evolution.population
        candidates = evolution.ask()
        evolution.tell(candidates, np.array([loss(one) for one in candidates]))
    return most


def ellipsoid(condition, n):
    scales = condition ** (np.arange(n) / (n - 1))
    return lambda x: float(scales @ x**2)


def rosenbrock(x):
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


def test_constants_are_those_of_the_tutorial():
    # Table 1 for n = 10: 10 candidates, 5 parents.
    one = Evolution(np.zeros(10), 1.0, 0)
    assert one.population == 10 and len(one._weights) == 5
    assert one._mu == pytest.approx(3.167, abs=1e-3)
    assert one._c_sigma == pytest.approx((3.1673 + 2) / (10 + 3.1673 + 5), abs=1e-4)
    assert one._c_1 == pytest.approx(2 / (11.3**2 + 3.1673), abs=1e-6)
    assert one._length == pytest.approx(np.sqrt(10) * (1 - 1 / 40 + 1 / 2100))


@pytest.mark.parametrize(
    ("loss", "start", "most"),
    [
        (lambda x: float(x @ x), 1.0, 2_500),
        (ellipsoid(1e6, 10), 1.0, 8_000),
        (rosenbrock, 0.0, 10_000),
    ],
    ids=["sphere", "ellipsoid", "rosenbrock"],
)
def test_standard_functions_are_minimised(loss, start, most):
    evolution = Evolution(np.full(10, start), 0.5, seed=3)
    # Hansen's own figures for n = 10 and 1e-9 are about 1800, 5900 and 6000 evaluations.
    assert minimise(evolution, loss, 1e-9, most) < most


def test_many_parameters_adapt_their_variances_alone():
    n = MOST_FULL + 1
    evolution = Evolution(np.ones(n), 0.5, seed=0)
    assert evolution.covariance.shape == (n,)
    assert minimise(evolution, lambda x: float(x @ x), 1.0, 20_000) < 20_000


def test_only_the_order_of_losses_counts_and_seeds_repeat():
    first, second, other = (Evolution(np.zeros(5), 0.3, seed) for seed in (7, 7, 8))
    for _ in range(10):
        candidates = first.ask()
        np.testing.assert_array_equal(candidates, second.ask())
        losses = (candidates**2).sum(axis=1)
        first.tell(candidates, losses)
        second.tell(second.ask(), np.exp(losses) - 40)
    np.testing.assert_array_equal(first.mean, second.mean)
    assert not np.array_equal(first.ask(), other.ask())


def test_a_restored_state_goes_on_bit_for_bit():
    first, second = Evolution(np.zeros(5), 0.3, 7), Evolution(np.ones(5), 0.9, 1)
    first.tell(first.ask(), np.arange(first.population))
    second.restore(first.state())
    for one in (first, second):
        one.tell(one.ask(), (one.ask() ** 2).sum(axis=1))
    np.testing.assert_array_equal(first.ask(), second.ask())
    with pytest.raises(ValueError, match="shape"):
        Evolution(np.zeros(6), 0.3, 7).restore(first.state())
