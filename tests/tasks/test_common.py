"""What all tasks share: rewards over any registry, statistics over axes, events, actions."""

from __future__ import annotations

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.registry import REGISTRIES, Registry
from dcgym.tasks.common.actions import read_action
from dcgym.tasks.common.events import (
    TimedEvent,
    check_order,
    count_due,
    find_named,
    find_numbered,
    read_time_ns,
)
from dcgym.tasks.common.rewards import Reward
from dcgym.tasks.common.statistics import gini_coefficient, jain_index, variance

SECOND = 10**9


def test_a_reward_sums_the_terms_of_its_registry() -> None:
    terms: Registry[object] = Registry("terms of a test", "reward")
    try:
        terms.add("double", lambda x: 2.0 * x)
        terms.add("minus", lambda x: -x)
        reward: Reward[float, float] = Reward({"double": 0.5, "minus": 3}, terms)  # type: ignore[arg-type]
        assert reward.terms(4.0) == {"double": 4.0, "minus": -12.0}
        assert Reward(["double", "minus"], terms).weights == {"double": 1.0, "minus": 1.0}  # type: ignore[arg-type,var-annotated]
        with pytest.raises(ConfigError, match="double"):
            Reward("duble", terms)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="finite"):
            Reward({"double": float("nan")}, terms)  # type: ignore[arg-type]
    finally:
        del REGISTRIES["terms of a test"]


def test_statistics_take_the_last_axis_and_leave_nan_out() -> None:
    loads = np.random.default_rng(0).exponential(size=(3, 2, 5))
    for statistic in (jain_index, gini_coefficient, variance):
        assert statistic(loads).shape == (3, 2)
        assert statistic(loads)[1, 0] == pytest.approx(float(statistic(loads[1, 0])))
    gone = np.array([1.0, np.nan, 3.0])
    assert jain_index(gone) == pytest.approx(16 / (2 * 10))
    assert variance(gone) == 1.0
    assert jain_index(np.zeros((2, 0))).tolist() == [1.0, 1.0]


def test_gini_of_hand_worked_shares() -> None:
    shares = np.array([[0.0, 0.5, 0.5, 1.0], [0.0, 0.0, 0.0, 0.0], [2.0, 2.0, 2.0, 2.0]])
    assert gini_coefficient(shares).tolist() == [0.375, 0.0, 0.0]


def test_events_are_read_ordered_and_counted() -> None:
    assert read_time_ns({"at": "2s"}) == read_time_ns({"at_ns": 2 * SECOND}) == 2 * SECOND
    assert read_time_ns({"at_ns": "500ms"}) == SECOND // 2
    wrong: tuple[tuple[dict[str, object], str], ...] = (
        ({}, "either at or at_ns"),
        ({"at": 1, "at_ns": 1}, "either at or at_ns"),
        ({"at_ns": -1}, r"event\.at_ns: value -1"),
        ({"at": None}, r"event\.at: value None"),
    )
    for entry, message in wrong:
        with pytest.raises(ConfigError, match=message):
            read_time_ns(entry)
    events = [TimedEvent(time_s * SECOND, "down") for time_s in (1, 1, 4)]
    check_order(events)
    assert [count_due(events, time_s * SECOND) for time_s in (0, 1, 3, 4)] == [0, 2, 2, 3]
    with pytest.raises(ConfigError, match=r"^events\[2\].at: value '1s'.*4s or later"):
        check_order([*events[1:], events[0]])


def test_targets_by_name_and_number() -> None:
    names = ["weak", "weak", "strong"]
    assert find_named("t", "weak", names) == (0, 1)
    assert find_named("t", "all", names) == (0, 1, 2)
    with pytest.raises(ConfigError, match="strong"):
        find_named("t", "strnog", names)
    assert find_numbered("t", 1, 3, "server") == (1,)
    assert find_numbered("t", (0, 2), 3, "server") == (0, 2)
    for target, message in (("one", "the number of a server"), (3, "0 to 2"), ((0, 3), "0 to 2")):
        with pytest.raises(ConfigError, match=f"t: value .*{message}"):
            find_numbered("t", target, 3, "server")


def test_an_action_has_finite_numbers_of_its_shape() -> None:
    assert read_action([1, 2], (2,)).tolist() == [1.0, 2.0]
    assert read_action(np.ones((3, 4, 2)), (2,), is_batch=True).shape == (3, 4, 2)
    for action in ([1, np.nan], [1, 2, 3], [[1, 2]], "up", 1.0, None):
        with pytest.raises(ConfigError, match="action"):
            read_action(action, (2,))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"action: value 1\.0"):
        read_action(1.0, (2,), is_batch=True)
