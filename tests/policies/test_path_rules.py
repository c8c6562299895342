"""HULA's paths by hand, and policies that ask for a path rule."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dcgym
from dcgym.errors import ConfigError
from dcgym.policies import env_overrides, make_policy
from dcgym.tasks.network.path_rules import PATH_RULES, read_path_rule
from dcgym.tasks.network.uplinks import Uplinks
from dcgym.testing import FakeBackend
from dcgym.topologies import Topology, make_topology

MILLISECOND = 1_000_000


def bound(topology: Topology, smoothing: float = 1.0) -> tuple[Any, Uplinks]:
    """Return HULA in front of a network, and the ports that it weighs."""
    uplinks = Uplinks(topology)
    labels = [f"port{row}.tx_rate" for row in range(len(topology.switch_ports))]
    shares = SimpleNamespace(from_shares=np.asarray)
    told = {"uplinks": uplinks, "observation_labels": labels, "weight_map": shares}
    task = SimpleNamespace(topology=topology, **told)
    return make_policy("hula", family="paths", smoothing=smoothing).bind(task), uplinks


def loads(topology: Topology, busy: dict[tuple[str, str], float]) -> np.ndarray[Any, Any]:
    """Return the utilisation of every port: of those named by both ends, else 0."""
    return np.array([busy.get((port.node, port.peer), 0.0) for port in topology.switch_ports])


def weights_of(policy: Any, uplinks: Uplinks, switch: str, seen: Any) -> list[float]:
    weights = policy.act(seen, {})
    mine = [label.startswith(f"{switch}-") for label in uplinks.labels]
    return [float(weight) for weight in weights[mine]]


def test_a_busy_link_behind_the_spine_counts_as_much_as_one_before_it() -> None:
    """Leaves s1, s2, s3; spines s4, s5: s4 is idle from s1, but busy towards s3."""
    topology = make_topology({"name": "leaf-spine", "leaves": 3, "spines": 2, "hosts_per_leaf": 2})
    policy, uplinks = bound(topology)
    seen = loads(topology, {("s4", "s3"): 0.8, ("s1", "s5"): 0.3})
    # Of s1: both hosts of s2 by s4 (0 against 0.3), both of s3 by s5 (0.8 against 0.3).
    assert weights_of(policy, uplinks, "s1", seen) == [2.0, 2.0]
    # Of s2: towards s1 both are idle and share; towards s3 s5 is.
    assert weights_of(policy, uplinks, "s2", seen) == [1.0, 3.0]


def test_the_way_through_a_fat_tree_is_the_best_of_its_branches() -> None:
    """An aggregation switch is as good as the better one of its core links."""
    topology = make_topology({"name": "fat-tree", "k": 4})
    policy, uplinks = bound(topology)
    aggregation = [port.peer for port in topology.ports("s1")[2:]]
    cores = [port.peer for port in topology.ports(aggregation[0])[2:]]
    half = loads(topology, {(aggregation[0], cores[0]): 0.9})
    assert weights_of(policy, uplinks, "s1", half) == [7.0, 7.0]
    both = loads(topology, {(aggregation[0], core): 0.9 for core in cores})
    # The two hosts of the own pod are reached without the core.
    assert weights_of(policy, uplinks, "s1", both) == [1.0, 13.0]


def test_the_estimate_halves_what_is_over() -> None:
    """U = bytes + U (1 - dt / tau), tau of two intervals: 0.8 becomes 0.4, 0.2, 0.1."""
    topology = make_topology({"name": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 2})
    policy, uplinks = bound(topology, 0.5)
    busy = loads(topology, {("s1", "s3"): 0.8, ("s1", "s4"): 0.05})
    after = loads(topology, {("s1", "s4"): 0.05})
    seen = [weights_of(policy, uplinks, "s1", one) for one in (busy, after, after, after, after)]
    # 0.4, 0.2, 0.1, 0.05, 0.025 against 0.025, 0.0375, 0.04375, 0.046875, 0.0484375.
    assert seen == [[0.0, 2.0]] * 4 + [[2.0, 0.0]]


def test_hula_refuses_an_observation_without_every_port() -> None:
    env = dcgym.make_env(env="PathBalancing-v2", backend=FakeBackend)
    with pytest.raises(ConfigError, match=r"observe.*tx_rate"):
        make_policy("hula", env)
    env = dcgym.make_env(
        env="PathBalancing-v2", backend=FakeBackend, **env_overrides("hula", "paths")
    )
    make_policy("hula", env)


@pytest.mark.parametrize("name", ["letflow", "spray", "drill", "plb", "flowbender"])
def test_a_rule_by_its_name_asks_for_it_with_equal_weights(name: str) -> None:
    assert env_overrides(name, "paths") == {"path_rule": name}
    task = SimpleNamespace(uplinks=SimpleNamespace(members=np.arange(3)))
    policy: Any = make_policy(name, family="paths").bind(task)
    assert policy.weights({}).tolist() == [1.0, 1.0, 1.0]


def test_rules_have_the_numbers_of_their_papers() -> None:
    letflow = read_path_rule("letflow", 100, 0)
    assert (letflow.flow_entries, letflow.flowlet_gap_ns) == (100, MILLISECOND // 2)
    assert read_path_rule("letflow", 100, "50us").flowlet_gap_ns == 50_000
    # Those that choose for each packet remember no flow.
    assert [read_path_rule(name, 100, 0).flow_entries for name in PATH_RULES] == [
        *(100, 100, 0, 0, 100, 100),
    ]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"path_rule": "conga"}, "path_rule.*letflow"),
        ({"path_rule": "letflow", "flow_table": 0}, "flow_table.*1 or more"),
        ({"flowlet_gap": "500us"}, "flowlet_gap.*letflow"),
        ({"path_rule": "spray", "flowlet_gap": "500us"}, "flowlet_gap.*letflow"),
        ({"path_rule": "drill", "switch": "ovs"}, "ovs"),
        ({"path_rule": "plb", "switch": "ovs"}, "ovs"),
    ],
)
def test_what_cannot_be_is_one_clear_line(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        dcgym.make_env(**{"env": "PathBalancing-v2", "backend": FakeBackend, **config})
    assert "\n" not in str(caught.value)
