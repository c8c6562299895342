"""One description of a distribution, and the two ways in which it is written and sampled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.traffic.sizes import (
    DISTRIBUTION_KINDS,
    Distribution,
    Draws,
    constant,
    empirical,
    exponential,
    lognormal,
    pareto,
    read_distribution,
    read_durations,
    uniform,
)

DESCRIBED = (
    constant("5ms"),
    exponential("5ms"),
    uniform("2ms", "8ms"),
    lognormal("5ms", "4ms"),
    pareto("5ms", 4.5),
    empirical([(1e6, 0.0), (2e6, 0.3), (6e6, 0.9), (8e6, 1.0)]),
    Distribution("erlang", 5_000_000, 4),
    Distribution("hyperexponential", 5_000_000, 1.5),
)
COUNT = 100_000


def test_every_kind_is_described() -> None:
    assert tuple(one.kind for one in DESCRIBED) == DISTRIBUTION_KINDS


@pytest.mark.parametrize("described", DESCRIBED, ids=lambda one: one.kind)
def test_the_sampler_has_the_mean_and_the_variation_of_the_description(
    described: Distribution,
) -> None:
    drawn = described.sampler().quantile(Draws(5).uniform(COUNT))
    std = described.mean_ns * math.sqrt(described.squared_variation)
    assert described.sampler().mean == pytest.approx(described.mean_ns, rel=1e-12)
    assert drawn.mean() == pytest.approx(described.mean_ns, abs=4 * std / math.sqrt(COUNT) + 1e-6)
    # The fourth moment of a Pareto with tail index 4.5 is barely finite: a wide tolerance.
    assert drawn.std() == pytest.approx(std, rel=0.1, abs=1e-6)
    u = np.linspace(0.01, 0.99, 50)
    if described.kind != "constant":
        assert described.sampler().cdf(described.sampler().quantile(u)) == pytest.approx(u)


@pytest.mark.parametrize("described", DESCRIBED, ids=lambda one: one.kind)
def test_data_is_read_back_and_may_stand_for_a_duration(described: Distribution) -> None:
    data = described.to_dict()
    assert Distribution.from_dict(data) == described == read_distribution(data, "time")
    assert read_distribution(described, "time") == described
    assert read_durations(data, "think") == described.sampler() == read_durations(described, "t")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("5ms", DESCRIBED[0]),
        ({"name": "constant", "value": "5ms"}, DESCRIBED[0]),
        ({"name": "exponential", "mean": "5ms"}, DESCRIBED[1]),
        ({"name": "uniform", "min": "2ms", "max": "8ms"}, DESCRIBED[2]),
        ({"name": "pareto", "min": 0.0035, "shape": 3.5}, pareto("4.9ms", 3.5)),
    ],
)
def test_what_traffic_writes_is_the_same_distribution(
    written: object, expected: Distribution
) -> None:
    assert read_distribution(written, "time") == expected


def test_lognormal_by_sigma_is_one_by_its_variation() -> None:
    read = read_distribution({"name": "lognormal", "mean": "5ms", "sigma": 0.7}, "time")
    assert (read.kind, read.mean_ns) == ("lognormal", 5_000_000)
    assert read.shape == pytest.approx(math.sqrt(math.exp(0.7**2) - 1))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"name": "pareto", "min": "1ms", "shape": 2, "max": "9ms"}, "time: value"),
        ({"name": "pareto", "min": "1ms", "shape": 0.9}, "a finite mean"),
        ({"name": "web-search"}, r"time\.name: value 'web-search'"),
        ({"name": "lognormal", "mean": "1ms", "sigma": 5}, r"time\.shape"),
        ({"kind": "gamma", "mean_ns": 5}, r"distribution\.kind: value 'gamma'"),
        ("2h", r"time\.mean_ns"),
    ],
)
def test_what_cannot_be_described_is_refused(written: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_distribution(written, "time")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (("exponential", 0), r"distribution\.mean_ns: value 0"),
        (("pareto", 5, 1.0), "above 1"),
        (("lognormal", 5), "standard deviation"),
        (("erlang", 5, 2.5), r"distribution\.shape: value 2\.5"),
        (("empirical", 5, None, ((1.0, 0.5), (9.0, 1.0))), r"mean_ns: value 5"),
        (("exponential", 5, None, ((1.0, 1.0),)), r"distribution\.points"),
    ],
)
def test_fields_of_a_description_fit_each_other(fields: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Distribution(*fields)
