"""Suites of published studies: their numbers are those of the tables, and they can run."""

from __future__ import annotations

import pytest

from dcgym.envs.factory import make_session
from dcgym.suites import SUITES
from dcgym.suites.checks import check_suite

NAMES = (
    *("charon", "hlb", "capacity-step", "rate-sweep", "distr-lb-small", "distr-lb-simulation"),
    "iroko-dumbbell-10m",
)

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("name", NAMES)
def test_a_suite_can_run_and_quotes_what_it_measures(name: str) -> None:
    suite = SUITES.find(name)
    check_suite(suite)
    assert suite.shapes
    assert all(one.policy in suite.policies for one in suite.published)
    assert all(one.case in suite.case_names for one in suite.published)


def test_rates_are_the_published_ones() -> None:
    for name, rate in (("732-per-s", 731.534), ("2926-per-s", 2926.135)):
        pool = make_session(SUITES.find("rate-sweep").case(name).env).system.task().scenario
        assert sum(pool.rates_per_s) == pytest.approx(rate, rel=1e-3)
    pool = make_session(SUITES.find("distr-lb-small").case("I").env).system.task().scenario
    assert sum(pool.rates_per_s) == pytest.approx(796.315, rel=1e-3)
