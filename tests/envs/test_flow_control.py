"""FlowControl: commands, features and rewards by hand, and every form of the environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import pytest

import dcgym
from dcgym.errors import ConfigError
from dcgym.monitors import AGENT_FLOW, CommandFlag
from dcgym.tasks.flows.actions import FLOW_ACTIONS
from dcgym.tasks.flows.features import FLOW_FEATURES
from dcgym.tasks.flows.interval import FlowInterval, flow_interval
from dcgym.tasks.flows.rewards import FLOW_REWARDS
from dcgym.tasks.flows.task import FlowSettings
from dcgym.testing import FakeBackend, check_contract

pytestmark = pytest.mark.simulation

ID = "dcgym/FlowControl-v1"
TWIN: dict[str, Any] = {
    "backend": "simulation",
    "topology": {"name": "dumbbell", "hosts": 4, "rate": "48Mbit", "queue": "200KB"},
    "interval": "20ms",
}
LINK_BPS = 48e6


def row(**fields: int) -> npt.NDArray[np.void]:
    state = np.zeros((1, 1), AGENT_FLOW)
    for name, value in ({"generation": 3, "mss_bytes": 1448} | fields).items():
        state[name] = value
    return state


def interval(before: Any, after: Any, last: FlowInterval | None = None) -> FlowInterval:
    length = np.array([[0.1]])
    return flow_interval(before, after, length, np.array([[LINK_BPS]]), 0.001, last)


# 200 segments in 0.1 s: 23.168 Mbit/s. The mean of 40 round trips of 160 ms together is 4 ms.
BEFORE = row(sent_packets=2**32 - 100, delivered_packets=50, rtts=10, rtt_sum_us=40_000)
AFTER = row(
    sent_packets=150,
    delivered_packets=250,
    lost_packets=10,
    marked_packets=20,
    rtts=50,
    rtt_sum_us=200_000,
    min_rtt_us=2000,
    cwnd_packets=256,
)


def test_features_are_what_the_counters_say() -> None:
    seen = interval(BEFORE, AFTER)
    values = {name: FLOW_FEATURES[name](seen).item() for name in FLOW_FEATURES.names()}
    assert values == pytest.approx(
        {
            "latency_inflation": 0.0,
            "queueing": 0.5,  # 1 - 2 ms / 4 ms
            "send_excess": (250 - 200) / 250,  # the counter of what was sent passed 2^32
            "loss": 10 / 250,
            "marks": 20 / 200,
            "rate": 200 * 1448 * 80 / LINK_BPS,
            "rate_of_best": 1.0,
            "window": 0.5,  # 2^8 of 2^16
        }
    )


def test_latency_inflation_is_the_rise_of_the_mean_round_trip() -> None:
    first = interval(BEFORE, AFTER)
    later = AFTER.copy()
    # 10 more round trips of 14 ms: 10 ms more in 100 ms.
    later["rtts"] += 10
    later["rtt_sum_us"] += 140_000
    found = FLOW_FEATURES["latency_inflation"](interval(AFTER, later, first)).item()
    assert found == pytest.approx(0.1)


def test_another_generation_is_another_flow() -> None:
    other = AFTER.copy()
    other["generation"] = 4
    seen = interval(BEFORE, other)
    assert not seen.is_open.any()
    assert all(FLOW_REWARDS[name](seen).item() == 0 for name in FLOW_REWARDS.names())


def test_the_rewards_are_their_formulas() -> None:
    seen = interval(BEFORE, AFTER)
    # 2000 packets/s, 4 ms, 4 % lost.
    aurora = 0.001 * (10 * 2000 - 1000 * 0.004 - 2000 * 0.04)
    assert FLOW_REWARDS["aurora"](seen).item() == pytest.approx(aurora)
    # The rate is its own best; 5 % of the arrived were lost; the round trip is twice the least.
    assert FLOW_REWARDS["orca"](seen).item() == pytest.approx((1 - 5 * 0.05) * 0.5)


def test_actions_are_their_commands() -> None:
    states, seen = AFTER.copy(), interval(BEFORE, AFTER)

    def commands(name: str, action: float) -> Any:
        return FLOW_ACTIONS.find(name)().commands(np.array([[action]]), states, seen)

    orca = commands("orca", -1.0)
    assert orca.flags.item() == CommandFlag.MULTIPLIER
    assert orca.generations.item() == 3
    assert orca.multipliers_q16.item() == 32_768
    assert commands("orca", 2.0).multipliers_q16.item() == 2 * 65_536
    assert commands("window", -1.0).cwnds_packets.item() == 2
    assert commands("window", 1.0).cwnds_packets.item() == 1024
    assert commands("rate", 1.0).rates_bytes_per_s.item() == LINK_BPS / 8
    assert commands("rate", -1.0).rates_bytes_per_s.item() == LINK_BPS / 800
    # From the rate that was reached without one, and then from the one in force.
    reached = 200 * 1448 * 10
    assert commands("aurora", 1.0).rates_bytes_per_s.item() == round(reached * 1.025)
    states["flags"], states["pacing_bytes_per_s"] = int(CommandFlag.RATE), 1_000_000
    assert commands("aurora", -1.0).rates_bytes_per_s.item() == round(1_000_000 / 1.025)
    states["generation"] = 0
    assert commands("window", 0.0).flags.item() == 0


def run(steps: int, value: float, **changes: Any) -> list[Any]:
    env = dcgym.make_env(env="FlowControl-v1", **(TWIN | changes))
    env.reset(seed=4)
    found = []
    for _ in range(steps):
        observation, reward, _, _, info = env.step(np.array([value], np.float32))
        found.append((observation, reward, info))
    env.close()
    return found


def test_orcas_zero_is_reno_and_a_window_is_a_window() -> None:
    alone = run(30, 0.0)
    held = run(30, -0.5, action="window")
    # 2^(1 + 9 / 4) packets.
    assert held[-1][2]["flow_cwnd"] == round(2 ** (1 + 9 / 4))
    assert alone[-1][2]["flow_cwnd"] > 20
    assert alone[-1][2]["clamped"] == alone[-1][2]["fallbacks"] == 0
    for _, reward, info in alone:
        assert reward == pytest.approx(sum(info["reward_terms"].values()))


def test_the_history_ends_with_the_newest_interval() -> None:
    found = run(12, 0.0, history=3)
    newest = found[-1][0].reshape(3, -1)
    assert newest[1].tolist() == found[-2][0].reshape(3, -1)[2].tolist()
    env = dcgym.make_env(env="FlowControl-v1", **(TWIN | {"history": 2, "features": ["loss"]}))
    assert env.unwrapped.task.observation_labels == ["loss-1", "loss-0"]


def test_several_agents_steer_a_flow_each() -> None:
    env = dcgym.parallel_env("FlowControl-v1", flows=2, action="window", **TWIN)
    assert env.possible_agents == ["flow0", "flow1"]
    env.reset(seed=2)
    windows = {"flow0": -1.0, "flow1": 0.0}
    for _ in range(20):
        given = {agent: np.array([value], np.float32) for agent, value in windows.items()}
        observations, _, _, _, infos = env.step(given)
    assert [infos[agent]["flow_cwnd"] for agent in windows] == [2, round(2**5.5)]
    assert env.state().tolist() == np.concatenate(list(observations.values())).tolist()
    env.close()


def test_it_keeps_the_contract() -> None:
    check_contract(lambda: dcgym.make_env(env="FlowControl-v1", **TWIN))


def test_a_slot_of_the_vector_form_gives_what_a_single_environment_gives() -> None:
    vector = gym.make_vec(ID, 2, "vector_entry_point", max_episode_steps=6, **TWIN)
    single = dcgym.make_env(env="FlowControl-v1", max_steps=6, **TWIN)
    vector.reset(seed=5)
    single.reset(seed=6)
    vector.action_space.seed(2)
    for _ in range(6):
        actions = vector.action_space.sample()
        observations, rewards, *_ = vector.step(actions)
        expected, reward, *_ = single.step(actions[1])
        np.testing.assert_array_equal(observations[1], expected)
        assert rewards[1] == pytest.approx(reward)
    # The next step begins both anew, and what was observed is forgotten.
    observations, *_ = vector.step(actions)
    assert not observations.any()


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"flows": 2}, r"^flows: value 2"),
        # Of networks, not of flows.
        ({"features": ["backlog"]}, r"^features: value 'backlog'"),
        ({"features": []}, r"^features: value \[\]"),
        ({"features": ["loss", "loss"]}, "each feature once"),
        ({"lease": "20ms"}, r"^lease: value '20ms' .* longer than the interval"),
        ({"congestion_control": "cubic"}, r"^congestion_control of h1: value 'cubic'"),
        ({"generator": "iperf3"}, r"^generator: value 'iperf3'"),
        ({"backend": FakeBackend}, r"^backend: value .* steer flows"),
    ],
)
def test_what_cannot_be_is_one_clear_line(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        dcgym.make_env(env="FlowControl-v1", **(TWIN | changes))


@pytest.mark.parametrize(
    ("interval_ns", "lease_ns"),
    [(999_000_000, 10**9), (10**9, 2 * 10**9), (3 * 10**9, 6 * 10**9)],
)
def test_the_default_lease_gives_way_to_the_interval(interval_ns: int, lease_ns: int) -> None:
    settings = FlowSettings(interval=f"{interval_ns}ns")
    assert settings.lease_ns == lease_ns
    env = dcgym.make_env(env="FlowControl-v1", **(TWIN | {"interval": f"{interval_ns}ns"}))
    env.reset(seed=1)
    env.step(env.action_space.sample())
    env.close()
    with pytest.raises(ConfigError, match=r"^lease: value '1s'"):
        FlowSettings(interval="3s", lease="1s")


def test_a_plan_without_enough_flows_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^flows: value 3 .* 1 to 2, the flows of pairs"):
        dcgym.parallel_env("FlowControl-v1", flows=3, **TWIN)


def test_a_wrong_action_is_one_clear_line() -> None:
    env: Any = dcgym.make_env(env="FlowControl-v1", **TWIN)
    env.reset(seed=1)
    for action in ([np.nan], [0.0, 0.0], "up"):
        with pytest.raises(ConfigError, match=r"^action: "):
            env.step(action)
    env.close()


@pytest.mark.parametrize("name", ["aurora", "orca"])
def test_presets_run(name: str) -> None:
    env = dcgym.make_env(name, backend="simulation", max_steps=20)
    env.reset(seed=1)
    for _ in range(20):
        _, reward, *_ = env.step(np.zeros(1, np.float32))
    assert np.isfinite(reward)
    env.close()


def test_policies_act_in_it() -> None:
    config = {"env": "FlowControl-v1", **TWIN}
    scores = dcgym.compare(config, ["unassisted", "random"], seeds=1, seconds=0.5, warmup=0.1)
    for name in ("unassisted", "random"):
        assert scores.mean("goodput_bps", name) > 0.5 * LINK_BPS


@pytest.mark.learning
def test_rllib_steers_a_flow_with_each_agent() -> None:
    pytest.importorskip("ray.rllib")
    from ray.rllib.utils.pre_checks.env import check_multiagent_environments

    from dcgym.envs.rllib import rllib_env

    config = {"env": "FlowControl-v1", "flows": 2, "action": "window", "max_steps": 5, **TWIN}
    env = rllib_env({**config, "agents": "several"})
    check_multiagent_environments(env)
    env.reset(seed=0)
    wide = {agent: np.array([0.0], np.float32) for agent in env.agents}
    for _ in range(5):
        *_, cuts, infos = env.step(wide)
    assert cuts["__all__"] and env.agents == []
    assert {info["flow_cwnd"] for info in infos.values()} == {round(2**5.5)}
    env.close()
