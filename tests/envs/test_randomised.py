"""Configurations drawn at each reset: values, sizes, masks, rejections, the same for a seed."""

from __future__ import annotations

import copy
import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import dcgym
from dcgym.envs.factory import make_session
from dcgym.errors import ConfigError
from dcgym.suites import RunSpec, run_episode
from dcgym.suites.spec import LARGEST_SEED
from dcgym.tasks.common.draws import Choice, Draws, Integers, Uniform
from dcgym.testing import check_contract
from dcgym.testing.fake_backend import FakeBackend
from tests.support.waiting import wait_for

NEEDS_TWIN = pytest.mark.simulation

POOL = {
    "env": "LoadBalancing-v1",
    "scenario": {"preset": "two-speeds"},
    "interval": "100ms",
    "lead_in": 0,
    "max_steps": 4,
}
SIZES = {"scenario.servers": {"integers": [3, 6]}, "scenario.load": {"uniform": [0.3, 0.9]}}
NETWORK = {
    "env": "CongestionControl-v2",
    "topology": "dumbbell",
    "backend": FakeBackend,
    "max_steps": 3,
}


def test_draws_stay_within_their_ends() -> None:
    generator = np.random.default_rng(1)
    whole = [Integers(2, 4).draw(generator) for _ in range(200)]
    assert set(whole) == {2, 3, 4}
    logs = [float(Uniform(1.0, 100.0, is_log=True).draw(generator)) for _ in range(2000)]  # type: ignore[arg-type]
    assert min(logs) >= 1.0 and max(logs) <= 100.0
    # Half of the logarithms lie below that of 10.
    assert np.mean(np.array(logs) < 10) == pytest.approx(0.5, abs=0.06)
    heavy = [Choice(("a", "b"), (3.0, 1.0)).draw(generator) for _ in range(2000)]
    assert heavy.count("a") / 2000 == pytest.approx(0.75, abs=0.05)
    assert str(Integers(5, 5, "Mbit").draw(generator)) == "5Mbit"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"interval": [1, 2]}, "interval"),
        ({"scenario.load": {"uniform": [0.9, 0.3]}}, "scenario.load uniform"),
        ({"scenario.load": {"uniform": 0.9}}, "0.9"),
        ({"scenario.load": 0.9}, "a mapping with one of uniform, log-uniform, integers, choice"),
        ({"scenario.load": []}, "scenario.load choice"),
        ({"scenario.load": {"choice": [1], "weights": [1, 2]}}, "scenario.load weights"),
        ({"scenario.load": {"log-uniform": [0, 1]}}, "scenario.load log-uniform"),
        ({"scenario.servers": {"integers": [1.5, 4]}}, "scenario.servers integers"),
        ({}, "a mapping of fields to distributions"),
    ],
)
def test_a_wrong_distribution_is_refused_by_its_field(spec: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Draws(spec, ("scenario",))
    assert message in str(caught.value) and "\n" not in str(caught.value)


@NEEDS_TWIN
def test_what_no_draw_can_be_is_refused_when_the_environment_is_made() -> None:
    for path, field in (("scenario.laod", "laod"), ("scenario.servers.x", "scenario.servers.x")):
        with pytest.raises(ConfigError, match=field):
            dcgym.make_env(POOL, randomise={path: [0.5]})
    with pytest.raises(ConfigError, match="load"):
        dcgym.make_env(POOL, randomise={"scenario.load": {"uniform": [1.5, 2.0]}})
    with pytest.raises(ConfigError, match="agents"):
        dcgym.parallel_env(POOL, randomise={"scenario.balancers": [1, 2]})


@NEEDS_TWIN
def test_a_seed_draws_the_same_everywhere_and_others_draw_others() -> None:
    single = dcgym.make_env(POOL, randomise=SIZES)
    seen = {}
    for seed in range(6):
        observation, info = single.reset(seed=seed)
        seen[seed] = observation, info["drawn"]
    again = dcgym.make_env(POOL, randomise=SIZES)
    for seed in (4, 1):
        observation, info = again.reset(seed=seed)
        assert info["drawn"] == seen[seed][1]
        np.testing.assert_array_equal(observation, seen[seed][0])
    assert len({drawn["scenario.servers"] for _, drawn in seen.values()}) > 1
    assert len({drawn["scenario.load"] for _, drawn in seen.values()}) == 6
    several = dcgym.make_vec_env(POOL, 6, randomise=SIZES)
    observations, infos = several.reset(seed=0)
    for seed, (observation, drawn) in seen.items():
        np.testing.assert_array_equal(observations[seed], observation)
        assert infos["drawn"][seed] == drawn
    for env in (single, again, several):
        env.close()


@NEEDS_TWIN
@pytest.mark.parametrize("action", ["discrete", "continuous"])
def test_actions_without_positions_have_no_mask(action: str) -> None:
    config = {"env": "LoadBalancing-v1", "backend": "simulation", "action": action}
    config["randomise"] = {"scenario.load": {"uniform": [0.3, 0.9]}}
    env, several = dcgym.make_env(config), dcgym.make_vec_env(config, 2)
    for made in (env, several):
        _, info = made.reset(seed=1)
        assert ("action_mask" in info) == (action == "continuous")
        made.action_space.seed(1)
        *_, info = made.step(made.action_space.sample())
        assert ("action_mask" in info) == (action == "continuous")
        made.close()


@NEEDS_TWIN
def test_a_smaller_pool_fills_its_own_positions_and_masks_the_others() -> None:
    env = dcgym.make_env(POOL, randomise={"scenario.servers": {"integers": [3, 6]}})
    assert env.action_space.shape == (6,) and env.observation_space.shape == (12 * 6 + 5,)
    labels = env.unwrapped.observation_labels  # type: ignore[attr-defined]
    for seed in range(40):
        observation, info = env.reset(seed=seed)
        n_servers = info["drawn"]["scenario.servers"]
        if n_servers == 3:
            break
    assert n_servers == 3
    assert info["action_mask"].tolist() == [True] * 3 + [False] * 3
    beyond = [
        at for at, label in enumerate(labels) if label[:7] in ("server3", "server4", "server5")
    ]
    assert len(beyond) == 36 and not observation[beyond].any()
    # What the mask leaves out changes nothing.
    twin = copy.deepcopy(env)
    low, high = np.full(6, 0.5, np.float32), np.full(6, 0.5, np.float32)
    high[3:] = -1.0
    first, second = env.step(low), twin.step(high)
    np.testing.assert_array_equal(first[0], second[0])
    assert first[1] == second[1]
    assert first[0][labels.index("server2.action")] == pytest.approx(0.5)
    env.close()
    twin.close()


@NEEDS_TWIN
def test_impossible_draws_are_rejected_and_counted() -> None:
    # A load above 1 is refused, which is two draws of three.
    env = dcgym.make_env(POOL, randomise={"scenario.load": [0.5, 1.5, 2.5]})
    counts = []
    for seed in range(30):
        _, info = env.reset(seed=seed)
        assert info["drawn"] == {"scenario.load": 0.5}
        counts.append(info["rejected_draws"])
    # A geometric law with a success of a third has a mean of 2.
    assert 0.8 < np.mean(counts) < 4
    env.close()


@NEEDS_TWIN
def test_every_field_of_a_pool_can_be_drawn() -> None:
    spec = {
        "scenario.service": [
            {"name": "exponential", "mean": "100ms"},
            {"name": "lognormal", "mean": "100ms", "sigma": 1.0},
        ],
        "scenario.weights": ["right", "swapped", "equal"],
        "scenario.ratio": {"log-uniform": [1, 10]},
        "scenario.events": [
            [],
            [{"at": "1s", "kind": "capacity", "target": "strong", "value": 0.5}],
        ],
    }
    env = dcgym.make_env(POOL, randomise=spec)
    drawn = [env.reset(seed=seed)[1]["drawn"] for seed in range(12)]
    assert {one["scenario.weights"] for one in drawn} == {"right", "swapped", "equal"}
    events = [json.loads(one["scenario.events"]) for one in drawn]
    assert {len(one) for one in events} == {0, 1}
    scenario = env.unwrapped.task.scenario  # type: ignore[attr-defined]
    assert len(scenario.events) == len(events[-1])
    assert scenario.server_groups[-1].resources[0].speed == drawn[-1]["scenario.ratio"]
    env.close()


@NEEDS_TWIN
def test_the_environment_keeps_its_contract() -> None:
    check_contract(lambda: dcgym.make_env(POOL, randomise=SIZES))


@NEEDS_TWIN
def test_agents_of_a_parallel_environment_share_the_draw() -> None:
    env = dcgym.parallel_env(
        {**POOL, "interval": "100ms"},
        randomise={"scenario.servers": {"integers": [3, 5]}},
        info="full",
    )
    _, infos = env.reset(seed=3)
    assert infos["balancer_0"]["drawn"] == infos["balancer_1"]["drawn"]
    actions = {agent: env.action_space(agent).sample() for agent in env.agents}
    observations, *_ = env.step(actions)
    assert all(env.observation_space(one).contains(o) for one, o in observations.items())
    assert env.state().shape == env.state_space.shape
    env.close()


def test_hosts_of_a_network_vary_within_the_largest() -> None:
    spec = {
        "topology.hosts": {"integers": [2, 7]},
        "topology.rate": {"uniform": [5, 200], "unit": "Mbit"},
        "topology.queue": {"choice": ["50KB", "400KB"]},
    }
    env = dcgym.make_env(NETWORK, randomise=spec)
    # Hosts of a dumbbell are even: half of the draws are impossible.
    assert env.action_space.shape == (6,)
    sizes, rates = set(), set()
    for seed in range(24):
        observation, info = env.reset(seed=seed)
        task = env.unwrapped.task  # type: ignore[attr-defined]
        assert int(info["action_mask"].sum()) == len(task.topology.hosts)
        assert observation.shape == env.observation_space.shape
        assert env.observation_space.contains(observation)
        env.step(env.action_space.sample())
        sizes.add(len(task.topology.hosts))
        rates.add(info["drawn"]["topology.rate"])
    assert sizes == {2, 4, 6} and len(rates) == 24
    env.close()


def test_another_draw_makes_another_network_and_the_same_draw_keeps_it() -> None:
    made = []

    class Counted(FakeBackend):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append(self)

    env = dcgym.make_env({**NETWORK, "backend": Counted}, randomise={"topology.hosts": [2, 4]})
    looked_at = len(made)
    env.reset(seed=0)
    backend = env.unwrapped.backend  # type: ignore[attr-defined]
    hosts = [env.reset(seed=seed)[1]["drawn"]["topology.hosts"] for seed in (0, 0, 0)]
    assert len(set(hosts)) == 1 and env.unwrapped.backend is backend  # type: ignore[attr-defined]
    assert len(made) == looked_at + 1
    seeds = iter(range(1, 100))
    while env.reset(seed=next(seeds))[1]["drawn"]["topology.hosts"] == hosts[0]:
        assert env.unwrapped.backend is backend  # type: ignore[attr-defined]
    assert len(made) == looked_at + 2
    env.close()


@NEEDS_TWIN
def test_a_run_is_recorded_with_what_was_drawn() -> None:
    env = {**POOL, "env": "dcgym/LoadBalancing-v1", "randomise": SIZES, "interval": "500ms"}
    env.pop("max_steps")
    spec = RunSpec(env=env, policy="sed", steps=20, seed=5)
    first, second = run_episode(spec), run_episode(spec)
    assert first["metrics"]["fct_us_mean"] == second["metrics"]["fct_us_mean"] > 0


def test_seeds_of_copies_go_on_as_without_draws() -> None:
    session = make_session({**NETWORK, "randomise": {"topology.hosts": [2, 4]}})
    plain = make_session(NETWORK)
    first, second = (np.random.default_rng(7) for _ in range(2))
    assert session.system.draw_seed(first) == plain.system.draw_seed(second) <= LARGEST_SEED
    session.close()
    plain.close()


def test_actions_of_a_dict_keep_their_size() -> None:
    joint = {**NETWORK, "env": "Joint-v2", "topology": {"name": "fat-tree", "k": 4}}
    with pytest.raises(ConfigError, match="only actions that are a Box may vary"):
        dcgym.make_env(joint, randomise={"topology.k": [4, 6]})
    env: gym.Env[Any, Any] = dcgym.make_env(
        joint, randomise={"topology.rate": ["10Mbit", "20Mbit"]}
    )
    env.reset(seed=1)
    env.step(env.action_space.sample())
    env.close()


@pytest.mark.emulation
def test_the_emulation_builds_a_network_for_each_new_draw() -> None:
    env = dcgym.make_env(
        env="CongestionControl-v2",
        topology={"name": "dumbbell", "rate": "100Mbit"},
        randomise={"topology.hosts": [2, 4]},
        preflight=False,
    )

    def is_carrying() -> bool:
        *_, info = env.step(np.ones(4, np.float32))
        assert int(info["action_mask"].sum()) == hosts
        return bool(info["metrics"]["goodput_bps"] > 0)

    seen: dict[int, Any] = {}
    for seed in range(20):
        if set(seen) == {2, 4}:
            break
        _, info = env.reset(seed=seed)
        hosts = info["drawn"]["topology.hosts"]
        wait_for(is_carrying)
        seen[hosts] = env.unwrapped.backend  # type: ignore[attr-defined]
    assert set(seen) == {2, 4} and seen[2] is not seen[4]
    env.close()


@pytest.mark.parametrize(
    ("config", "spec"),
    [
        pytest.param(POOL, SIZES, marks=NEEDS_TWIN),
        (NETWORK, {"topology.hosts": [2, 4], "topology.rate": ["10Mbit", "20Mbit"]}),
    ],
)
def test_slots_of_a_vector_go_on_as_single_environments_do(config: Any, spec: Any) -> None:
    n_slots, steps = 3, 11
    vector = dcgym.make_vec_env(config, n_slots, randomise=spec, info="none")
    singles = [dcgym.make_env(config, randomise=spec) for _ in range(n_slots)]
    observations, _ = vector.reset(seed=5)
    own = [env.reset(seed=5 + slot)[0] for slot, env in enumerate(singles)]
    generator = np.random.default_rng(1)
    is_over = np.zeros(n_slots, np.bool_)
    shape = (n_slots, *singles[0].action_space.shape)  # type: ignore[misc]
    for _ in range(steps):
        np.testing.assert_array_equal(observations, np.stack(own))
        actions = generator.uniform(0.1, 1.0, shape).astype(np.float32)
        observations, rewards, terminated, truncated, _ = vector.step(actions)
        for slot, env in enumerate(singles):
            if is_over[slot]:
                own[slot] = env.reset()[0]
                continue
            own[slot], reward, *ends, _ = env.step(actions[slot])
            assert reward == rewards[slot]
            assert ends == [terminated[slot], truncated[slot]]
        is_over = terminated | truncated
    vector.close()
    for env in singles:
        env.close()
