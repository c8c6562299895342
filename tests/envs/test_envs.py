"""The environment against a test double: order, time, errors, spaces."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import dcgym
from dcgym.backends.records import CONGESTION_CONTROL
from dcgym.errors import BackendError, ConfigError
from dcgym.testing import FakeBackend, check_contract, check_no_dead_feature
from dcgym.topologies import make_topology

FEATURES = ("backlog", "d_backlog", "peak", "drops", "overlimits", "marks", "tx_rate", "rx_rate")
OPEN = np.ones(4, np.float32)
CHOKED = np.full(4, 0.01, np.float32)


def make(**config):
    return dcgym.make_env({"backend": FakeBackend, **config})


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"action": "tanh", "features": (*FEATURES, "flow_matrix")},
        {
            "traffic": "pairs-udp",
            "interval": "7ms",
            "marking": True,
            "reward": {"goodput": 1, "queue": 0.5},
        },
        {"topology": {"name": "fat-tree", "k": 4}, "traffic": "incast"},
    ],
)
def test_contract(config):
    check_contract(lambda: make(**config))


def test_contract_on_one_environment():
    check_contract(make, is_shared=True)


def test_dead_feature_is_found():
    check_no_dead_feature(make(features=("backlog", "d_tx_rate"), traffic="pairs-udp"))
    env = make(features=("backlog", "marks"), traffic="pairs-udp")
    with pytest.raises(AssertionError, match=r"never changed under load: \['port.marks'\]"):
        check_no_dead_feature(env)


def test_gymnasium_checker_passes():
    env = gym.make("dcgym/CongestionControl-v2", backend=FakeBackend)
    check_env(env.unwrapped, skip_render_check=True)


def test_dumbbell_observation_has_six_ports_of_two_features_and_four_rates():
    env = make()
    assert env.observation_space.shape == (6 * 2 + 4,)
    assert env.action_space.shape == (4,)


def test_reward_belongs_to_the_action_just_given():
    env = make(reward="goodput", traffic="pairs-udp")
    env.reset(seed=0)
    _, open_reward, *_ = env.step(OPEN)
    _, choked_reward, *_, info = env.step(CHOKED)
    assert open_reward == pytest.approx(0.25)
    # Two senders at 1 % of 10 Mbit/s, over four hosts' 40 Mbit/s.
    assert choked_reward == pytest.approx(0.2e6 / 40e6)
    assert info["metrics"]["goodput_bps"] == pytest.approx(0.2e6, rel=1e-3)
    assert info["rate_shares"] == pytest.approx(CHOKED)


def test_queue_grows_by_the_known_excess():
    env = make(traffic="pairs-udp")
    env.reset(seed=0)
    observation, *_, info = env.step(OPEN)
    # 20 Mbit/s into 10 Mbit/s for 50 ms leave 62500 bytes of the 400000.
    assert info["metrics"]["queue_bytes"] == pytest.approx(62_500)
    assert observation.max(where=np.arange(16) < 12, initial=0) == pytest.approx(0.15625)


def test_reset_in_place_forgets_the_queue():
    env = make(traffic="pairs-udp")
    env.reset(seed=0)
    for _ in range(10):
        env.step(OPEN)
    observation, info = env.reset(seed=0)
    assert observation[:12].tolist() == [0.0] * 12
    assert info["metrics"]["queue_bytes"] == 0 and info["metrics"]["drops"] == 0


def test_same_seed_gives_the_same_plan_and_episode():
    runs = []
    for _ in range(2):
        env = make(traffic="random-bijection", topology={"name": "fat-tree", "k": 4})
        env.reset(seed=7)
        step = env.step(np.ones(16, np.float32))
        runs.append((env.unwrapped.task.plan, step[0].tolist(), step[1]))
    assert runs[0] == runs[1]


def test_deadlines_stay_on_the_grid_while_the_agent_is_quick():
    backend = FakeBackend()
    env = make(backend=backend)
    env.reset(seed=0)
    start_ns = backend.now_ns
    for step in range(1, 6):
        backend.pause(0.004)
        *_, info = env.step(OPEN)
        assert not info["is_restarted"]
        assert info["action_latency_us"] == pytest.approx(4000)
        assert backend.now_ns == start_ns + step * 50_000_000


def test_dead_backend_raises_and_the_next_reset_rebuilds():
    backends = []

    def build(topology):
        backends.append(FakeBackend(topology, fail_at_step=None if backends else 2))
        return backends[-1]

    env = make(backend=build)
    env.reset(seed=0)
    env.step(OPEN)
    with pytest.raises(BackendError):
        env.step(OPEN)
    with pytest.raises(BackendError, match="reset"):
        env.unwrapped.step(OPEN)
    env.reset(seed=0)
    env.step(OPEN)
    assert len(backends) == 2 and not backends[0].is_running


def test_finished_plan_terminates_and_max_steps_truncates():
    env = make(traffic={"name": "pairs", "duration": "120ms"})
    env.reset(seed=0)
    assert [env.step(OPEN)[2] for _ in range(3)] == [False, False, True]
    env = make(max_steps=2)
    env.reset(seed=0)
    assert [env.step(OPEN)[3] for _ in range(2)] == [False, True]


def test_construction_starts_nothing_and_close_is_idempotent():
    backend = FakeBackend()
    env = gym.make("dcgym/CongestionControl-v2", backend=backend)
    assert not backend.is_running
    env.reset()
    env.close()
    env.close()
    assert not backend.is_running
    env.reset()
    assert backend.is_running


def test_environments_share_no_settings():
    make(interval="10ms", features=("peak",), floor=0.2)
    task = make().unwrapped.task
    assert task.interval_ns == 50_000_000 and task.features.names == ("backlog", "d_backlog")


def test_tanh_action_follows_equation_4_1_and_inverts():
    rates = make(action="tanh", floor=0.1).unwrapped.task.rate_map
    shares = rates.to_shares(np.array([0.0, 1.0, -4.0, 4.0]))
    assert shares[0] == pytest.approx(0.55)
    assert shares[1] == pytest.approx((np.tanh(1) + 1) / 2 * 0.9 + 0.1)
    assert shares[2] >= 0.1 and shares[3] <= 1
    back = rates.to_shares(rates.from_shares(np.array([0.3, 0.5, 0.1, 1.0])))
    assert back == pytest.approx([0.3, 0.5, 0.1, 1.0], abs=1e-3)


# Kinds of mistakes in what environments have in common, which one reader takes for all of them.
@pytest.mark.parametrize(
    ("field", "value", "line"),
    [
        ("interval", "soon", "interval: value 'soon' .* a duration of 0 or more such as 50ms"),
        ("floor", 0, "floor: value 0 .* a number above 0 and below 1"),
        ("max_steps", 0, "max_steps: value 0 .* a whole number of 1 or more"),
        ("marking", "yes", "marking: value 'yes' .* True, False"),
        (
            "backend",
            3,
            "backend: value 3 .* a name, or a function that makes a Network of a topology",
        ),
        ("features", ("backlogs",), "features: value 'backlogs' .* did you mean 'backlog'"),
        # A term of another task is none of this one's.
        ("reward", "overprovision", "reward: value 'overprovision' .* delivery, joint_queue"),
        ("congestion_control", {"h9": "cubic"}, "congestion_control field: value 'h9' .* h1, h2"),
        ("topology", "dumbell", "topology: value 'dumbell' .* did you mean 'dumbbell'"),
        ("intervall", "50ms", "config field: value 'intervall' .* did you mean 'interval'"),
        (
            "env",
            "CongestionControl-v9",
            "env: .*allowed: dcgym/CongestionControl-v2, whose results",
        ),
    ],
)
def test_a_wrong_field_is_one_clear_line(field, value, line):
    with pytest.raises(ConfigError, match=f"^{line}") as caught:
        make(**{field: value})
    assert "\n" not in str(caught.value)


@pytest.mark.simulation
@pytest.mark.parametrize("name", ["CongestionControl-v2", "PathBalancing-v2", "FlowControl-v1"])
def test_the_twin_takes_what_asks_for_nothing(name):
    asked = {"preflight": False, "host_access": "read-only", "switch": "ebpf", "threads": 1}
    env = dcgym.make_env(env=name, backend="simulation", generator="native", **asked)
    env.reset(seed=1)
    env.close()
    with pytest.raises(
        ConfigError, match=r"^host_access: value 'full' .* limited or read-only, or"
    ):
        dcgym.make_env(env=name, backend="simulation", host_access="full")


@pytest.mark.parametrize(
    ("topology", "line"),
    [
        (
            {"delay": "1.5s"},
            r"delay_ns of link h1-s1: value 1500000000 .* 0 to 1000000000 ",
        ),
        ({"delay": {"time": 0, "jitter": 2}}, r"jitter_ns of link h1-s1: value 2000000000 "),
        ({"delay": "1ms", "rate": "10Gbit"}, r"rate_bps of link h1-s1: value 10000000000 "),
        (
            {"delay": "1s", "rate": "1Gbit", "hosts": 64},
            r"delay_ns of all links: value ",
        ),
    ],
)
def test_the_emulation_refuses_links_beyond_what_it_can_delay(topology, line):
    with pytest.raises(ConfigError, match=r"^" + line):
        dcgym.make_env({"topology": {"name": "dumbbell", **topology}, "backend": "emulation"})


@pytest.mark.parametrize("delay", ["1ms", {"time": 0, "loss": 0.1}])
def test_open_vswitch_has_no_links_that_delay(delay):
    config = {"topology": {"name": "dumbbell", "delay": delay}, "backend": "emulation"}
    with pytest.raises(ConfigError, match=r" of link h1-s1: value .* 0 with the switch ovs"):
        dcgym.make_env({**config, "switch": "ovs"})


def test_wrong_actions_are_refused():
    env = gym.make("dcgym/CongestionControl-v2", backend=FakeBackend())
    env.reset()
    for action in ([1, 1, 1], [1, 1, 1, np.nan], [np.inf] * 4):
        with pytest.raises(ConfigError, match=r"^action"):
            env.step(np.array(action, np.float32))


def test_make_env_reads_yaml(tmp_path):
    path = tmp_path / "env.yaml"
    path.write_text("interval: 20ms\ntopology: {name: dumbbell, hosts: 6}\nmax_steps: 3\n")
    env = dcgym.make_env(path, backend=FakeBackend)
    assert env.unwrapped.task.interval_ns == 20_000_000
    assert env.action_space.shape == (6,)
    assert env.spec.max_episode_steps == 3


def test_congestion_control_may_differ_by_host():
    backend = FakeBackend(make_topology("dumbbell"))
    env = make(backend=backend, congestion_control={"h1": "dctcp"})
    env.reset()
    expected = {"h1": "dctcp", "h2": "cubic", "h3": "cubic", "h4": "cubic"}
    assert backend.records(CONGESTION_CONTROL, 0) == expected


def test_rendered_frame_shows_the_full_queue_in_red():
    pytest.importorskip("PIL")
    env = make(render_mode="rgb_array", traffic="pairs-udp")
    env.reset(seed=0)
    empty = env.render()
    for _ in range(10):
        env.step(OPEN)
    frame = env.render()
    assert frame.shape == (600, 960, 3) and frame.dtype == np.uint8

    def count_red(image):
        # The colour of full load and full queues, above the legend.
        return int((np.abs(image[:536].astype(int) - (214, 40, 40)).sum(axis=2) < 12).sum())

    assert count_red(frame) > count_red(empty) + 500


def test_the_age_of_an_observation_is_the_time_since_its_snapshot():
    class Slow(FakeBackend):
        """Takes 3 ms after each snapshot, as observing and computing do."""

        def read(self, mask=None):
            state = super().read(mask)
            self.pause(0.003)
            return state

    env = make(backend=Slow)
    env.reset(seed=0)
    *_, info = env.step(OPEN)
    assert info["observation_age_us"] == pytest.approx(3_000)
