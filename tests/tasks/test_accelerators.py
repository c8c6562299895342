"""Accelerator balancing without a backend: pools, weights, Algorithm 1, what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.tasks.accelerators import POOL_PRESETS, AcceleratorPool, make_pool_of_devices
from dcgym.tasks.accelerators.presets import accelerator_pool
from dcgym.tasks.accelerators.rewards import ACCELERATOR_REWARDS, AcceleratorInputs, Thresholds
from dcgym.tasks.accelerators.settings import AcceleratorBalancingSettings
from dcgym.tasks.accelerators.task import AcceleratorTask

MICRO = {"preset": "p4mite-micro", "gflop": 4.0, "threshold": "1s"}


@pytest.mark.parametrize("name", POOL_PRESETS.names())
def test_a_preset_is_plain_data(name: str) -> None:
    pool = make_pool_of_devices(name)
    assert AcceleratorPool.from_dict(json.loads(json.dumps(pool.to_dict()))) == pool


@pytest.mark.parametrize("servers", [1, 256])
@pytest.mark.parametrize("accelerators", [0, 1, 2])
def test_capacities_are_those_that_were_measured(servers: int, accelerators: int) -> None:
    spec = {"preset": "accelerator-pool", "servers": servers, "accelerators": accelerators}
    pool = make_pool_of_devices(spec)
    assert pool.capacities_per_s.shape == (servers, 1 + accelerators)
    assert pool.server_capacity_per_s == pytest.approx(18.2 * servers, rel=1e-6)
    # 18.2 of KNN's 24 requests a second are the host's 75 %; a NIC is a fifth of a host.
    assert pool.capacities_per_s[:, 1:] == pytest.approx(3.64, rel=1e-6)


def test_work_over_speed_is_a_service_time() -> None:
    pool = make_pool_of_devices(MICRO)
    host, nic = pool.groups[0].devices
    # One core of 9.1 GFLOP/s, or of 1.1: 440 ms, and 3.6 s.
    assert pool.mean_service_ns(host) == pytest.approx(4 / 9.1 * 1e9)
    assert pool.mean_service_ns(nic) == pytest.approx(4 / 1.1 * 1e9)
    assert pool.capacities_per_s == pytest.approx(np.array([[22.75, 4.4]]))
    assert pool.agents.threshold_of("micro") == 10**9


def test_a_variant_changes_the_agents_alone() -> None:
    pool = make_pool_of_devices({"preset": "p4hauler-2", "agents": {"rate_per_s": 20}})
    assert (pool.agents.period_ns, pool.agents.window) == (50_000_000, 20)
    assert pool.groups == make_pool_of_devices("p4hauler-2").groups


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ("p4wise-63", "scenario"),
        ({"preset": "p4wise-64", "cores": 3}, "preset p4wise-64 field"),
        ({"preset": "p4wise-64", "accelerators": 8}, "accelerators"),
        ({"preset": "accelerator-pool", "application": "bitcoin"}, "application"),
        ({"preset": "accelerator-pool", "servers": 1025}, "group.count"),
        ({"preset": "p4wise-64", "agents": {"rate_per_s": 201}}, "agents.rate_per_s"),
        ({"preset": "p4wise-64", "agents": {"kind": "event"}}, "agents.threshold_ns"),
        ({"preset": "p4wise-64", "ring_slots": 7}, "pool.ring_slots"),
        ({"preset": "p4wise-64", "connection_table": "cells"}, "pool.connection_table"),
        ({"preset": "p4wise-64", "connection_table": {"cells": -1}}, "connection_table.cells"),
        ({"preset": "p4wise-64", "connection_table": {"cell": 1}}, "connection_table field"),
        (
            {
                "preset": "p4wise-64",
                "events": [{"at": "1s", "kind": "device-failure", "device": 3}],
            },
            "event.device",
        ),
        ({"name": "x", "groups": [], "applications": []}, "pool.groups"),
        (
            {
                "groups": [{"name": "a", "count": 1, "devices": [{"kind": "cpu"}] * 9}],
                "applications": [{"name": "b"}],
            },
            "group.devices",
        ),
        (
            {
                "groups": [{"name": "a", "count": 1, "devices": [{"kind": "cpu"}]}],
                "applications": [{"name": "b"}],
            },
            "device cpu.service",
        ),
    ],
)
def test_what_is_not_allowed_is_said_in_a_line(spec: object, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_pool_of_devices(spec)  # type: ignore[arg-type]
    assert caught.value.field == field and "\n" not in str(caught.value)


def test_rules_need_the_agents_that_serve_them() -> None:
    with pytest.raises(ConfigError, match="kind event: p4mite needs its reports of busy"):
        AcceleratorTask(AcceleratorBalancingSettings(device_rule="p4mite"))
    with pytest.raises(ConfigError, match="kind periodic: lur needs its reports of load"):
        AcceleratorTask(AcceleratorBalancingSettings(device_rule="lur", agents={"kind": "none"}))
    agents = {"kind": "event", "threshold_ns": "300ms"}
    AcceleratorTask(AcceleratorBalancingSettings(device_rule="p4mite", agents=agents))


def test_actions_lead_to_weights() -> None:
    task = AcceleratorTask(AcceleratorBalancingSettings(weights=(6, 0)))
    now = np.array([[6.0, 0, 0], [6.0, 3, 3], [6.0, 6, 6]])
    # Down stops at 0, up at w_max; the processors keep theirs.
    assert task.weights_of([0, 0, 0], now).tolist() == [[6, 0, 0], [6, 2, 2], [6, 5, 5]]
    assert task.weights_of([2, 1, 2], now).tolist() == [[6, 1, 1], [6, 3, 3], [6, 6, 6]]
    with pytest.raises(ConfigError, match="action"):
        task.weights_of([3, 0, 0], now)
    levels = AcceleratorTask(AcceleratorBalancingSettings(action="levels"))
    # Nothing for anybody is all for the processors.
    assert levels.weights_of([[0, 0, 0], [1, 0, 2], [6, 6, 6]], now)[:2].tolist() == [
        [1, 0, 0],
        [1, 0, 2],
    ]
    real = AcceleratorTask(AcceleratorBalancingSettings(action="weights"))
    given = np.array([[-1.0, -1, -1], [1, 0, -1], [1, 1, 1]], np.float32)
    assert real.weights_of(given, now).tolist() == [[1, 0, 0], [1, 0.5, 0], [1, 1, 1]]
    assert levels.weights_of([levels.action_of([6, 1, 1])] * 3, now)[0].tolist() == [6, 1, 1]


def test_algorithm_1_by_hand() -> None:
    cases = (
        # p99 s, offered, utilisation, processors only, all devices, reward
        (0.5, 0.7, 0.7, True, False, 10),  # the processors alone, and fast
        (1.5, 0.9, 0.9, True, False, -1),  # the processors alone, and slow
        (0.5, 1.1, 0.9, True, False, -10),  # more than they can serve
        (0.5, 0.7, 0.7, False, True, 10),  # all devices, fast, busy processors
        (0.5, 0.5, 0.5, False, True, -1),  # all devices without need
        (0.5, 0.7, 0.7, False, False, -1),  # one accelerator of two
        (np.nan, 0.0, 0.0, True, False, -1),  # nothing came back
    )
    columns = [np.array(column) for column in zip(*cases, strict=True)]
    inputs = AcceleratorInputs(
        mean_s=columns[0],
        p99_s=columns[0],
        best_p99_s=np.full(len(cases), 0.25),
        arrivals=np.ones(len(cases)),
        failed_share=np.zeros(len(cases)),
        offered_max=columns[1],
        processor_utilisation=columns[2],
        processors_only=columns[3].astype(bool),
        all_devices=columns[4].astype(bool),
        thresholds=Thresholds(1.0, 0.6, 10.0),
    )
    assert ACCELERATOR_REWARDS["p4wise"](inputs).tolist() == list(columns[5])
    assert ACCELERATOR_REWARDS["p99"](inputs)[:2].tolist() == [-0.5, -1.5]
    # Requests came and none was answered: the worst there is.
    assert ACCELERATOR_REWARDS["p99"](inputs)[-1] == -100
    assert ACCELERATOR_REWARDS["regret"](inputs)[:2].tolist() == [-1, -5]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"settle": "10s"}, "settle"),
        ({"interval": "2s", "settle": "2s"}, "settle"),
        ({"loads": (1.0, 0.5)}, "loads"),
        ({"weights": (0, 0)}, "weights"),
        ({"device_rule": "sed"}, "device_rule"),
        ({"most_weight": 0}, "most_weight"),
        ({"interval": None}, "interval"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, object], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        AcceleratorBalancingSettings(**arguments)  # type: ignore[arg-type]
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("interval", "settle_ns"), [("2001ms", 2 * 10**9), ("2s", 4 * 10**8), ("1s", 2 * 10**8)]
)
def test_the_default_settle_gives_way_to_the_interval(interval: str, settle_ns: int) -> None:
    assert AcceleratorBalancingSettings(interval=interval).settle_ns == settle_ns


@pytest.mark.parametrize(("later", "expected"), [(0, 1), (1, 1), (2, 2), (7, 7)])
def test_as_many_accelerators_as_come_later(later: int, expected: int) -> None:
    (group,) = accelerator_pool(later=later).groups
    assert [one.present for one in group.devices[1:]].count(False) == later
    assert len(group.devices) == 1 + expected
    with pytest.raises(ConfigError, match=r"^later: value 2"):
        accelerator_pool(accelerators=1, later=2)


def test_the_reward_regret_needs_the_search() -> None:
    with pytest.raises(ConfigError, match="oracle"):
        AcceleratorTask(AcceleratorBalancingSettings(reward="regret"))
