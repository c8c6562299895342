"""Scores from Python: the same runs as a suite's, for names, functions and models."""

from __future__ import annotations

import numpy as np
import pytest

import dcgym
from dcgym.errors import ConfigError
from dcgym.suites.evaluate import Evaluation
from dcgym.suites.reports.numbers import Spread, written
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


@pytest.mark.parametrize(
    ("spread", "expected"),
    [
        (Spread(399.7, 1.73e-13, 3, 3), ("399.700", "±0")),
        (Spread(1.23456, 0.0456, 3, 3), ("1.235", "±0.046")),
        (Spread(1234.56, 78.9, 3, 3), ("1235", "±79")),
        (Spread(20.0, 76.0, 3, 3), ("20", "0 to 96")),
        (Spread(0.98, 0.05, 3, 3), ("0.980", "±0.050")),
        (Spread(0.99995, 0.000048, 3, 3), ("1.000", "±<0.001")),
        (Spread(2.0, float("nan"), 1, 1), ("2.000", "")),
        (Spread(2.0, 0.5, 2, 3), ("2.00", "±0.50, 2 of 3 runs")),
        (Spread(float("nan"), float("nan"), 0, 3), ("-", "")),
    ],
)
def test_numbers_mean_what_they_show(spread, expected):
    assert written(spread, Column("m", "m")) == expected


def test_an_interval_ends_where_the_metric_does():
    jain = Column("jain", "Jain", high=1.0)
    assert written(Spread(0.98, 0.05, 3, 3), jain) == ("0.980", "0.930 to 1.000")
    assert Spread(0.98, 0.05, 3, 3).ends(jain) == (pytest.approx(0.93), 1.0)
    reward = Column("reward", "reward", low=None)
    assert written(Spread(0.1, 0.5, 3, 3), reward) == ("0.10", "±0.50")
