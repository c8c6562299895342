"""The contract suite over every network environment, on the real kernel."""

from __future__ import annotations

import contextlib
from typing import Any

import gymnasium as gym
import pytest

import dcgym
from dcgym.envs.factory import default_of
from dcgym.envs.registration import BUILT_IN
from dcgym.testing import check_contract, check_no_dead_feature

pytestmark = pytest.mark.emulation

FEATURES = ("backlog", "peak", "drops", "overlimits", "marks", "tx_rate", "rx_rate")
# Below the DCTCP flows, which are marked, datagrams overload the way to one host and are dropped.
OVERLOAD = {"mix": ["incast", {"name": "incast", "transport": "udp", "rate": "8Mbit"}]}
QUEUES = {"rate": "10Mbit", "queue": "60KB", "mark": "30KB"}
DUMBBELL, FAT_TREE = {"name": "dumbbell", **QUEUES}, {"name": "fat-tree", "k": 4, **QUEUES}
LEAF_SPINE = {"name": "leaf-spine", **QUEUES}
NETWORKS = {
    "dcgym/CongestionControl-v2": DUMBBELL,
    "dcgym/PathBalancing-v2": FAT_TREE,
    "dcgym/Joint-v2": LEAF_SPINE,
}
FLOWS = "dcgym/FlowControl-v1"


def make(env_id: str, topology: dict[str, Any]) -> gym.Env[Any, Any]:
    return dcgym.make_env(
        env=env_id,
        topology=topology,
        traffic=OVERLOAD,
        interval="20ms",
        features=(*FEATURES, *(f"d_{name}" for name in FEATURES), "flow_matrix", "probe_rtt"),
        probes=[["h2", "h1"]],
        congestion_control="dctcp",
        marking=True,
        preflight=False,
    )


def test_every_emulated_environment_is_here() -> None:
    emulated = {env_id for env_id in BUILT_IN if default_of(env_id, "backend") == "emulation"}
    assert emulated == {*NETWORKS, FLOWS}


def test_contract_of_steered_flows() -> None:
    # Features and traffic of its own: the flows that it steers are those of the plan.
    check_contract(
        lambda: dcgym.make_env(env=FLOWS, topology=DUMBBELL, interval="20ms", preflight=False),
        steps=12,
        is_shared=True,
    )


@pytest.mark.parametrize("env_id", NETWORKS)
def test_contract_and_no_feature_is_dead(env_id: str) -> None:
    """Both on one network; the other one, which the contract closes, is never started."""
    with contextlib.closing(make(env_id, NETWORKS[env_id])) as env:
        check_no_dead_feature(env, steps=60)
        envs = iter((env, make(env_id, NETWORKS[env_id])))
        check_contract(lambda: next(envs), steps=8, is_shared=True)
