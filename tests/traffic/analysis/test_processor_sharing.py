"""Processor sharing: small cases by hand, and M/G/1-PS against its formula."""

from __future__ import annotations

import re

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.traffic.analysis.processor_sharing import sharing_times


@pytest.mark.parametrize(
    ("arrivals", "work", "times"),
    [
        ([5.0], [3.0], [3.0]),
        # All at once: the k-th shortest waits for what the others have had so far.
        ([0, 0, 0], [1, 2, 3], [3, 5, 6]),
        # Alone for 1, then both at half the speed, then alone for what is left.
        ([0, 1], [2, 2], [3, 3]),
        ([0, 1], [4, 1], [5, 2]),
        # Idle between them, and given out of order.
        ([10, 0], [1, 2], [1, 2]),
    ],
)
def test_what_arithmetic_by_hand_says(
    arrivals: list[float], work: list[float], times: list[float]
) -> None:
    assert sharing_times(arrivals, work) == pytest.approx(times)


def test_the_server_is_never_idle_while_there_is_work() -> None:
    rng = np.random.default_rng(3)
    arrivals = rng.uniform(0, 50, 400)
    work = rng.exponential(1.0, 400)
    ends = arrivals + sharing_times(arrivals, work)
    # More work than time: one busy period from near the beginning on.
    assert ends.max() == pytest.approx(arrivals.min() + work.sum(), rel=0.01)


@pytest.mark.parametrize("load", [0.3, 0.7])
@pytest.mark.parametrize("sizes", ["constant", "exponential", "lognormal"])
def test_mean_slowdown_is_that_of_m_g_1_ps_for_any_sizes(load: float, sizes: str) -> None:
    rng = np.random.default_rng(1)
    n = 200_000
    arrivals = np.cumsum(rng.exponential(1 / load, n))
    work = {
        "constant": np.ones(n),
        "exponential": rng.exponential(1.0, n),
        "lognormal": rng.lognormal(-0.125, 0.5, n),
    }[sizes]
    slowdown = sharing_times(arrivals, work) / work
    assert slowdown.mean() == pytest.approx(1 / (1 - load), rel=0.03)
    # Long and short jobs alike.
    is_long = work >= np.median(work)
    assert slowdown[is_long].mean() == pytest.approx(1 / (1 - load), rel=0.04)


@pytest.mark.parametrize(
    ("arrivals", "work", "field"),
    [
        ([0.0, 1.0], [1.0], "work"),
        ([0.0, 1.0], [1.0, 0.0], "work[1]"),
        ([0.0, 1.0], [1.0, np.nan], "work[1]"),
        ([0.0, np.inf], [1.0, 1.0], "arrivals[1]"),
    ],
)
def test_work_that_is_no_work_is_refused(
    arrivals: list[float], work: list[float], field: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(field)}: value"):
        sharing_times(arrivals, work)
