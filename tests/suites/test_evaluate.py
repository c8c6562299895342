"""Scores from Python: the same runs as a suite's, for names, functions and models."""

from __future__ import annotations

import numpy as np
import pytest

import dcgym
from dcgym.errors import ConfigError
from dcgym.suites.evaluate import Evaluation
from dcgym.suites.reports.numbers import Spread, written
from dcgym.suites.reports.plots import cell, error_lengths
from dcgym.tasks.common.layout import Column
from dcgym.testing import FakeBackend

ENV = "LoadBalancing-v1"
RIGHT = np.repeat([-1 / 6, 1 / 6], 4).astype(np.float32)


class Constant:
    """What a model of Stable-Baselines3 looks like."""

    def predict(self, observation, deterministic=False):
        assert deterministic
        return RIGHT, None


@pytest.mark.simulation
def test_a_model_a_function_and_a_name_meet_the_same_flows():
    options = {"seeds": (7, 8), "seconds": 20.0}
    model = dcgym.evaluate(ENV, Constant(), **options)
    function = dcgym.evaluate(ENV, lambda observation: RIGHT, name="mine", **options)
    assert [run["policy"] for run in model.records] == ["constant"] * 2
    assert [run["seed"] for run in function.records] == [7, 8]
    for one, other in zip(model.records, function.records, strict=True):
        assert one["metrics"] == other["metrics"]
    sed = dcgym.evaluate(ENV, "sed", **options)
    assert sed.mean("reward_mean") == 0.0 < model.mean("reward_mean")
    for found in (model, sed):
        assert (found.values("bound_us") <= found.values("fct_us_mean")).all()


@pytest.mark.simulation
def test_a_comparison_prints_metrics_downwards_within_a_terminal():
    found = dcgym.compare(ENV, {"right": lambda _: RIGHT, "stale": "sed"}, 3, seconds=30.0)
    lines = str(found).splitlines()
    assert lines[0].split() == ["policy", "right", "stale"]
    assert max(map(len, lines)) <= 80 and any(line.startswith("FCT mean, s") for line in lines)
    assert "<table" in found._repr_html_()
    with pytest.raises(ConfigError, match=r"^policy: value None .*right, stale"):
        found.mean("reward_mean")
    with pytest.raises(ConfigError, match=r"^metric: value 'fct'"):
        found.mean("fct", "right")


def test_many_policies_stand_in_several_blocks_of_eighty_columns():
    metrics = {"reward_mean": 0.123, "goodput_bps": 9_530_000.0, "rtt_us_p99": 201_300.0}
    names = [f"policy-of-a-long-name-{number}" for number in range(7)]
    records = [
        {"env": "dcgym/CongestionControl-v2", "policy": name, "seed": 0, "metrics": metrics}
        for name in names
    ]
    blocks = str(Evaluation(records)).split("\n\n")
    assert len(blocks) == 4
    assert [name for block in blocks for name in block.split("\n")[0].split()[1:]] == names
    assert all(len(line) <= 80 for block in blocks for line in block.split("\n"))
    assert all("9.53" in block for block in blocks)


@pytest.mark.simulation
def test_every_agent_has_a_policy_of_its_own():
    one = dcgym.evaluate(ENV, "hlb", 1, seconds=20.0)
    each = dcgym.evaluate(ENV, "hlb", 1, seconds=20.0, every_agent=True)
    assert "balancer" in one.records[0]["config"] and "balancer" not in each.records[0]["config"]
    assert one.mean("fct_us_mean") != each.mean("fct_us_mean")


def test_a_network_is_scored_too():
    env = {"env": "CongestionControl-v2", "backend": FakeBackend}
    found = dcgym.compare(env, ["fixed-share", "random"], 2, seconds=2.0, warmup=0.5)
    assert isinstance(found, Evaluation) and len(found.records) == 4
    assert found.mean("goodput_bps", "random") > 0


def test_bad_input_is_one_line():
    with pytest.raises(ConfigError, match=r"^seconds"):
        dcgym.evaluate(ENV, "sed", seconds=0)
    with pytest.raises(ConfigError, match=r"^seeds"):
        dcgym.evaluate(ENV, "sed", 0)
    with pytest.raises(ConfigError, match=r"^policy: value 3"):
        dcgym.evaluate(ENV, 3)
    with pytest.raises(ConfigError, match=r"for congestion environments"):
        dcgym.evaluate(ENV, "dctcp")
    with pytest.raises(ConfigError, match=r"dcgym train --algo ppo"):
        dcgym.evaluate(ENV, "ppo")


def spread(mean, low, high, measured=3, runs=3):
    return Spread(mean, low, high, measured, runs)


NAN = float("nan")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (spread(399.7, 399.7 - 1.73e-13, 399.7 + 1.73e-13), ("399.700", "±0")),
        (spread(1.23456, 1.18896, 1.28016), ("1.235", "±0.046")),
        (spread(1234.56, 1155.66, 1313.46), ("1235", "±79")),
        (spread(20.0, -56.0, 96.0), ("20", "0 to 96")),
        (spread(0.98, 0.93, 1.03), ("0.980", "±0.050")),
        (spread(0.99995, 0.999902, 0.999998), ("1.000", "±<0.001")),
        (spread(2.0, NAN, NAN, 1, 1), ("2.000", "")),
        (spread(2.0, 1.5, 2.5, 2), ("2.00", "±0.50, 2 of 3 runs")),
        (spread(NAN, NAN, NAN, 0), ("-", "")),
        # Of two sides the wider one decides how much is known.
        (spread(1.23456, 1.18, 1.36), ("1.23", "-0.05/+0.13")),
        (spread(1.23456, 1.11, 1.29), ("1.23", "-0.12/+0.06")),
        (spread(1.23456, 1.111, 1.362), ("1.23", "-0.12/+0.13")),
        (spread(1.23456, 1.111, 1.357), ("1.23", "±0.12")),
        (spread(20.0, 19.7, 55.0), ("20", "-<1/+35")),
        (spread(1.0, 0.9, 1.4, 5, 6), ("1.00", "-0.10/+0.40, 5 of 6 runs")),
        (spread(1.0, -0.1, 4.0), ("1.0", "0.0 to 4.0")),
    ],
)
def test_numbers_mean_what_they_show(found, expected):
    assert written(found, Column("m", "m")) == expected


def test_an_interval_ends_where_the_metric_does():
    jain = Column("jain", "Jain", high=1.0)
    assert written(spread(0.98, 0.93, 1.03), jain) == ("0.980", "0.930 to 1.000")
    assert spread(0.98, 0.93, 1.03).ends(jain) == (0.93, 1.0)
    assert spread(0.98, NAN, NAN, 1, 1).ends(jain) == (0.98, 0.98)
    reward = Column("reward", "reward", low=None)
    assert written(spread(0.1, -0.4, 0.6), reward) == ("0.10", "±0.50")
    assert written(spread(0.1, -0.4, 1.1), reward) == ("0.1", "-0.5/+1.0")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (spread(2.0, 1.5, 2.5, 2), "2.00 ±0.50, 2 of 3 runs"),
        (spread(1.0, 0.9, 1.4), "1.00 -0.10/+0.40"),
        (spread(20.0, -56.0, 96.0), "20 (0 to 96)"),
        (spread(2.0, NAN, NAN, 1, 2), "2.000 (1 of 2 runs)"),
    ],
)
def test_what_a_mean_alone_does_not_tell_stands_in_brackets(found, expected):
    assert cell(found, Column("m", "m")).text == expected


def test_bars_are_as_long_as_the_sides_of_the_interval():
    found = [spread(1.0, 0.75, 3.0), spread(1.0, -1.0, 2.0), spread(1.0, NAN, NAN, 1, 1)]
    assert error_lengths(found, Column("m", "m")) == [[0.25, 1.0, 0.0], [2.0, 1.0, 0.0]]
