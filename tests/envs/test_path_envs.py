"""The environments that weigh paths, against a test double: order, meaning, bounds, errors."""

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import dcgym
from dcgym.errors import ConfigError
from dcgym.policies import POLICIES, make_policy
from dcgym.testing import FakeBackend, check_contract
from dcgym.topologies import Link, Topology, next_hop_groups
from dcgym.traffic import Flow, Plan

PATHS, JOINT = "dcgym/PathBalancing-v2", "dcgym/Joint-v2"
MBIT = 1_000_000
QUEUE, MARK = 400_000, 30_000


def two_spines(slow_mbit=100, leaves=2):
    """Leaves of two hosts each below a spine of 100 Mbit/s and one that may be slower."""
    hosts = [f"h{n + 1}" for n in range(2 * leaves)]
    edge = [f"s{n + 1}" for n in range(leaves)]
    links = [Link(h, edge[n // 2], 100 * MBIT, QUEUE, MARK) for n, h in enumerate(hosts)]
    for spine, rate in (("s8", 100), ("s9", slow_mbit)):
        links += [Link(leaf, spine, rate * MBIT, QUEUE, MARK) for leaf in edge]
    roles = [(h, "host") for h in hosts] + [(s, "switch") for s in (*edge, "s8", "s9")]
    return Topology.build("two-spines", roles, links)


CROSSING = Plan(
    "crossing",
    0,
    tuple(Flow(a, b, "udp", rate_bps=40 * MBIT) for a, b in (("h1", "h3"), ("h2", "h4"))),
)


def make(env_id=PATHS, **config):
    return dcgym.make_env({"env": env_id, "backend": FakeBackend, **config})


def play(policy, env, steps=20):
    observation, info = env.reset(seed=0)
    policy.bind(env)
    goodputs = []
    for _ in range(steps):
        action = policy.act(observation, info)
        assert env.action_space.contains(action), action
        observation, *_, info = env.step(action)
        goodputs.append(info["metrics"]["goodput_bps"])
    return np.mean(goodputs[5:]), info


@pytest.mark.parametrize("env_id", [PATHS, JOINT])
@pytest.mark.parametrize(
    "config",
    [
        {"traffic": "stride-8", "interval": "7ms", "marking": True},
        {
            "topology": {"name": "leaf-spine"},
            "reward": {"uplink_load": 1, "uplink_balance": 2},
            "action": "softmax",
            "observe": "all",
            "features": ("peak", "drops", "flow_matrix"),
        },
    ],
)
def test_contract(env_id, config):
    if env_id == JOINT and "action" in config:
        config = {**config, "weighting": config["action"], "action": "tanh"}
    check_contract(lambda: make(env_id, **config), steps=8)


@pytest.mark.parametrize("env_id", [PATHS, JOINT])
def test_gymnasium_checker_passes(env_id):
    check_env(gym.make(env_id, backend=FakeBackend).unwrapped, skip_render_check=True)


def test_k4_has_sixteen_groups_of_two_uplinks():
    env = make().unwrapped
    assert env.action_space.shape == (32,)
    # Four features of 32 uplinks, then the weights.
    assert env.observation_space.shape == (32 * 4 + 32,)
    assert make(observe="all").observation_space.shape == (80 * 4 + 32,)
    groups = env.task.uplinks.groups
    assert [group.switch for group in groups] == [f"s{n}" for n in range(1, 17)]
    assert all([port.number for port in group.ports] == [3, 4] for group in groups)
    assert env.task.uplinks.labels[:3] == [
        "s1-eth3>h3.weight",
        "s1-eth4>h3.weight",
        "s2-eth3>h1.weight",
    ]


def test_joint_action_is_rates_and_weights():
    env = make(JOINT)
    assert {name: part.shape for name, part in env.action_space.items()} == {
        "rates": (16,),
        "weights": (32,),
    }
    # Every port by default: rates act on queues anywhere.
    assert env.observation_space.shape == (80 * 4 + 16 + 32,)


def test_all_weight_on_one_uplink_moves_everything_there():
    env = make(topology=two_spines(), traffic=CROSSING, features=("tx_rate",))
    env.reset(seed=0)
    # s1 to s8 and s9, then s2's; only s1 sends data upwards.
    observation, *_, info = env.step(np.array([0, 1, 1, 1], np.float32))
    assert info["uplink_loads"] == pytest.approx([0, 0.8, 0, 0], abs=1e-6)
    assert observation == pytest.approx([0, 0.8, 0, 0, 0, 1, 0.5, 0.5], abs=1e-6)
    assert info["metrics"]["uplink_imbalance"] == pytest.approx(2.0)
    assert info["metrics"]["uplink_jain"] == pytest.approx(0.5)
    observation, *_, info = env.step(np.array([0.3, 0.3, 0, 0], np.float32))
    assert info["uplink_loads"] == pytest.approx([0.4, 0.4, 0, 0], abs=1e-6)
    assert info["path_weights"] == pytest.approx([0.5] * 4)
    assert info["metrics"]["uplink_jain"] == pytest.approx(1.0)
    assert info["metrics"]["uplink_load_max"] == pytest.approx(0.4, abs=1e-6)


def test_joint_applies_both_parts_before_the_interval():
    env = make(JOINT, topology=two_spines(), traffic=CROSSING, reward="goodput")
    env.reset(seed=0)
    rates = np.array([0.1, 0.1, 1, 1], np.float32)
    weights = np.array([0, 1, 0, 1], np.float32)
    _, reward, *_, info = env.step({"rates": rates, "weights": weights})
    assert info["uplink_loads"] == pytest.approx([0, 0.2, 0, 0], abs=1e-6)
    # Two senders at 10 Mbit/s, over four hosts of 100 Mbit/s.
    assert reward == pytest.approx(20 / 400, rel=1e-3)
    assert info["rate_shares"] == pytest.approx(rates)


def test_reset_goes_back_to_even_weights():
    env = make(topology=two_spines(), traffic=CROSSING)
    env.reset(seed=0)
    env.step(np.array([0, 1, 0, 1], np.float32))
    observation, info = env.reset(seed=0)
    assert info["path_weights"] == pytest.approx([0.5] * 4)
    assert observation[-4:] == pytest.approx([0.5] * 4)
    *_, info = env.step(env.unwrapped.task.weight_map.from_shares(np.ones(4)))
    assert info["uplink_loads"] == pytest.approx([0.4, 0.4, 0, 0], abs=1e-6)


@pytest.mark.parametrize("name", ["direct", "softmax"])
def test_weight_map_inverts(name):
    weights = make(topology=two_spines(), action=name).unwrapped.task.weight_map
    shares = np.array([0.25, 0.75, 0.9, 0.1])
    assert weights.space.contains(weights.from_shares(shares))
    assert weights.to_shares(weights.from_shares(shares)) == pytest.approx(shares, abs=1e-6)
    one = weights.to_shares(weights.from_shares(np.array([0.0, 1.0, 0.0, 0.0])))
    assert one == pytest.approx([0, 1, 0.5, 0.5], abs=1e-3)


def test_softmax_is_the_ratio_of_exponentials():
    weights = make(topology=two_spines(), action="softmax").unwrapped.task.weight_map
    shares = weights.to_shares(np.array([1.0, 0.0, 4.0, -4.0]))
    assert shares == pytest.approx([np.e / (np.e + 1), 1 / (np.e + 1), 0.99966, 0.00034], abs=1e-5)


@pytest.mark.parametrize("family, env_id", [("paths", PATHS), ("joint", JOINT)])
def test_every_policy_acts_within_the_space(family, env_id):
    names = POLICIES.find(family).names()
    # Joint policies are all pairs of two lists: here each one acts in one pair.
    parts = [list(dict.fromkeys(part)) for part in zip(*(n.split("+") for n in names), strict=True)]
    n_pairs = max(map(len, parts))
    chosen = ["+".join(part[i % len(part)] for part in parts) for i in range(n_pairs)]
    assert set(chosen) <= set(names)
    for name in chosen:
        policy = make_policy(name, family=family)
        assert policy.name == name
        play(policy, make(env_id, topology=two_spines(), **policy.env_overrides()), steps=6)


def test_environments_go_by_their_short_names():
    assert make("PathBalancing-v2").spec.id == PATHS
    with pytest.raises(ConfigError, match="allowed: dcgym/Joint-v2, whose"):
        make("Joint-v9")


def test_names_belong_to_their_environments():
    assert make_policy("ecmp", make()).name == "ecmp"
    assert type(make_policy("random", make())) is not type(make_policy("random"))
    with pytest.raises(ConfigError, match="least-loaded"):
        make_policy("cubic", make())


def test_wcmp_weighs_by_the_capacity_behind_each_port():
    _, info = play(make_policy("wcmp"), make(topology=two_spines(25), traffic=CROSSING))
    assert info["path_weights"] == pytest.approx([0.8, 0.2] * 2)


def test_wcmp_sees_a_slow_link_behind_the_next_switch():
    # s8 reaches s2 at a tenth of what s1 reaches s8 with.
    whole = two_spines()
    links = [
        Link(
            link.a,
            link.b,
            10 * MBIT if (link.a, link.b) == ("s2", "s8") else link.rate_bps,
            QUEUE,
            MARK,
        )
        for link in whole.links
    ]
    topology = Topology(whole.name, whole.nodes, tuple(links))
    _, info = play(make_policy("wcmp"), make(topology=topology, traffic=CROSSING), steps=6)
    assert info["path_weights"][:2] == pytest.approx([10 / 110, 100 / 110])


def test_wcmp_is_even_on_a_fat_tree():
    _, info = play(make_policy("wcmp"), make(), steps=6)
    assert info["path_weights"] == pytest.approx([0.5] * 32)


def test_wcmp_beats_ecmp_over_unequal_spines():
    plan = Plan(
        "full",
        0,
        tuple(Flow(a, b, "udp", rate_bps=60 * MBIT) for a, b in (("h1", "h3"), ("h2", "h4"))),
    )
    goodput = {
        name: play(make_policy(name, family="paths"), make(topology=two_spines(25), traffic=plan))[
            0
        ]
        for name in ("ecmp", "wcmp")
    }
    # 120 Mbit/s over 100 and 25: evenly split, the slow spine passes 25 of its 60.
    assert goodput["ecmp"] == pytest.approx(50 * MBIT, rel=0.02)
    assert goodput["wcmp"] == pytest.approx(120 * MBIT, rel=0.02)


def test_least_loaded_leaves_and_returns_at_different_loads():
    policy = make_policy("least-loaded", family="paths", hysteresis=0.2, smoothing=1.0)
    one_group = SimpleNamespace(members=np.arange(2), sizes=np.array([2]))
    policy.bind(SimpleNamespace(uplinks=one_group))
    seen = [
        policy.weights({"uplink_loads": np.array([0.5, load])}).tolist()
        for load in (0.5, 0.65, 0.75, 0.65, 0.58, 0.2)
    ]
    # Out above 0.2 more than the least; back within 0.1; the other one leaves in its turn.
    assert seen == [[1, 1], [1, 1], [1, 0], [1, 0], [1, 1], [0, 1]]


@pytest.mark.parametrize(
    ("config", "line"),
    [
        (
            {"backend": "emulation", "switch": "ovs"},
            "backend: .* that weighs paths; .*",
        ),
        ({"topology": "dumbbell"}, "topology: value 'dumbbell' .* with equal-cost paths"),
        # Of the emulation, and checked before there is any network.
        ({"backend": "emulation", "flow_table": -1}, "flow_table: value -1 .* of 0 or more"),
    ],
)
def test_wrong_field_is_one_clear_line(config, line):
    with pytest.raises(ConfigError, match=f"^{line}$"):
        make(**config)


def test_wrong_joint_actions_are_refused():
    env = make(JOINT, topology=two_spines(), traffic=CROSSING).unwrapped
    env.reset(seed=0)
    ones = {"rates": np.ones(4), "weights": np.ones(4)}
    for action in ({"rates": np.ones(4)}, {**ones, "x": 1}, np.ones(8)):
        with pytest.raises(ConfigError, match=r"^action"):
            env.step(action)


def test_groups_of_a_fat_tree_cover_every_host_once():
    topology = dcgym.topologies.make_topology("fat-tree")
    groups = next_hop_groups(topology)
    for switch in topology.switches:
        own = [host for group in groups if group.switch == switch.name for host in group.hosts]
        assert sorted(own) == sorted(host.name for host in topology.hosts)
    for group in groups:
        numbers = tuple(port.number for port in group.ports)
        assert all(topology.next_hops(group.switch, host) == numbers for host in group.hosts)
