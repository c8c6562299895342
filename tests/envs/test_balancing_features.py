"""The setting `features` of load balancing through every face, from the pool to the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import dcgym
from dcgym.errors import ConfigError
from dcgym.policies import find_learner, load_policy
from dcgym.policies.learned.environments import training_form
from dcgym.policies.learners import TrainingOptions
from dcgym.suites import Case, Suite, run_suite
from dcgym.tasks.balancing.features import BALANCER_FEATURES, DEFAULT_FEATURES, BalancerFeature
from dcgym.testing import check_contract

pytestmark = pytest.mark.simulation

SINGLE, CENTRAL = "dcgym/LoadBalancing-v1", "dcgym/CentralLoadBalancing-v1"
SHORT: dict[str, Any] = {"backend": "simulation", "lead_in": "2s"}
EVERYTHING = tuple(name for one in BALANCER_FEATURES for name in (one, f"d_{one}"))
SOME = ("new_flows", "d_ongoing", "untracked", "eligible", "d_interarrival_mean")


def make(env_id: str = SINGLE, **config: Any) -> Any:
    return dcgym.make_env({"env": env_id, **SHORT, **config})


@pytest.mark.parametrize("env_id", [SINGLE, CENTRAL])
def test_contract_with_every_feature_and_its_change(env_id: str) -> None:
    check_contract(lambda: make(env_id, features=EVERYTHING))


def test_spaces_and_labels_follow_the_list() -> None:
    env = make(features=SOME)
    labels = env.unwrapped.observation_labels
    assert labels[:3] == ["server0.new_flows", "server0.d_ongoing", "server0.eligible"]
    assert labels[24:27] == ["untracked", "d_interarrival_mean", "server0.action"]
    assert env.observation_space.shape == (8 * 3 + 2 + 8,)
    assert env.observation_space.low[:4].tolist() == [0, -1, 0, 0]
    assert make(CENTRAL, features=SOME).observation_space.shape == (2 * 34,)
    assert env.unwrapped.task.rows.row_columns == 3


def test_nothing_said_is_the_published_list() -> None:
    first, second = make(), make(features=list(DEFAULT_FEATURES))
    seen = [env.reset(seed=4)[0].tobytes() for env in (first, second)]
    assert seen[0] == seen[1]


def test_values_are_those_of_the_infos() -> None:
    env = make(features=("new_flows", "completed_flows", "weight", "d_ongoing", "ongoing"))
    _, before = env.reset(seed=1)
    action = np.linspace(-1, 1, 8, dtype=np.float32)
    observation, _, _, _, info = env.step(action)
    servers, was = info["servers"], before["servers"]
    rows = observation[: 8 * 5].reshape(8, 5).astype(np.float64)
    for column, name in enumerate(("flows", "completed")):
        a_second = (servers[name] - was[name]) / 0.25
        assert a_second.any()
        np.testing.assert_allclose(rows[:, column], a_second / (a_second + 10), rtol=1e-5)
    np.testing.assert_allclose(rows[:, 2], 8.0 ** (action - 1), rtol=1e-5)
    squashed = [one["ongoing"] / (one["ongoing"] + 8) for one in (was, servers)]
    np.testing.assert_allclose(rows[:, 3], squashed[1] - squashed[0], atol=1e-6)
    np.testing.assert_allclose(rows[:, 4], squashed[1], rtol=1e-5)


def test_polls_are_seen_where_the_pool_polls() -> None:
    env = make(features=("probed_flows", "probed_age"))
    seen = [env.reset(seed=0)[0], *(env.step(env.action_space.sample())[0] for _ in range(8))]
    rows = np.array(seen)[:, :16].reshape(9, 8, 2)
    assert rows[..., 0].any() and (rows[..., 1] > 0).all() and (rows[..., 1] < 1).all()


def test_a_vector_sees_what_single_ones_do_even_where_one_begins_alone() -> None:
    config = {**SHORT, "features": SOME}
    vector = gym.make_vec(SINGLE, num_envs=2, vectorization_mode="vector_entry_point", **config)
    singles = [make(**config) for _ in range(2)]
    seen, _ = vector.reset(seed=[5, 6])
    alone = [env.reset(seed=seed)[0] for env, seed in zip(singles, (5, 6), strict=True)]
    np.testing.assert_array_equal(seen, alone)
    vector.action_space.seed(0)
    for step in range(6):
        if step == 3:
            options = {"reset_mask": np.array([False, True])}
            seen, _ = vector.reset(seed=[None, 7], options=options)
            alone[1] = singles[1].reset(seed=7)[0]
        else:
            actions = vector.action_space.sample()
            seen = vector.step(actions)[0]
            alone = [env.step(one)[0] for env, one in zip(singles, actions, strict=True)]
        np.testing.assert_array_equal(seen, alone)
    vector.close()


def test_agents_of_a_pool_see_their_own_balancer() -> None:
    env = dcgym.parallel_env("LoadBalancing-v1", **SHORT, features=SOME)
    observations, _ = env.reset(seed=3)
    central = make(CENTRAL, features=SOME)
    joined = np.concatenate([observations[agent] for agent in env.possible_agents])
    np.testing.assert_array_equal(joined, central.reset(seed=3)[0])
    assert env.state_labels[0] == "balancer_0.server0.new_flows"
    env.close()


def test_a_draw_of_several_sizes_shows_them_too() -> None:
    randomise = {"scenario.servers": {"choice": [6, 8]}}
    env = make(scenario={"preset": "two-speeds"}, randomise=randomise, features=SOME)
    for seed in range(3):
        assert env.observation_space.contains(env.reset(seed=seed)[0])
    assert env.observation_space.shape == (8 * 3 + 2 + 8,)


@pytest.mark.parametrize("names", [(), ("queue",), ("up", "up"), "up", 3])
@pytest.mark.parametrize("env_id", [SINGLE, CENTRAL])
def test_other_lists_are_refused_before_anything_starts(env_id: str, names: Any) -> None:
    with pytest.raises(ConfigError, match="features") as caught:
        make(env_id, features=names)
    assert "\n" not in str(caught.value)


@pytest.fixture
def share() -> Iterator[str]:
    """A feature of somebody else: the part of the balancer's flows that a server has."""

    def read(interval: Any) -> Any:
        flows = interval.level("ongoing")
        return flows / np.maximum(flows.sum(axis=-1, keepdims=True), 1)

    BALANCER_FEATURES.add("test_share", BalancerFeature(read))
    yield "test_share"
    BALANCER_FEATURES.remove("test_share")


def test_a_feature_of_somebody_else_works_in_every_face(share: str) -> None:
    names = [share, f"d_{share}"]
    env = make(features=names)
    vector = gym.make_vec(
        SINGLE, num_envs=1, vectorization_mode="vector_entry_point", **SHORT, features=names
    )
    agents = dcgym.parallel_env("LoadBalancing-v1", **SHORT, features=names)
    first, (seen, _) = env.reset(seed=2)[0], vector.reset(seed=[2])
    np.testing.assert_array_equal(first, seen[0])
    for one in [first, *agents.reset(seed=2)[0].values()]:
        assert one[0:16:2].sum() == pytest.approx(1.0) and not one[1:16:2].any()
    vector.close()
    agents.close()


def test_evaluations_and_suites_carry_the_setting(tmp_path: Path) -> None:
    config = {"env": SINGLE, **SHORT, "features": list(SOME)}
    [found] = dcgym.evaluate(config, "sed", seeds=1, seconds=1).records
    [plain] = dcgym.evaluate({"env": SINGLE, **SHORT}, "sed", seeds=1, seconds=1).records
    assert found["metrics"] == plain["metrics"], "SED looks at no observation"
    assert found["config"]["features"] == list(SOME)
    suite = Suite("features", "One.", (Case(config),), ("sed",), seeds=1, episode_s=1, warmup_s=0)
    [record] = run_suite(suite, tmp_path)
    assert record["config"]["features"] == list(SOME)


def test_a_network_without_rows_learns_what_no_server_has() -> None:
    config = {"env": SINGLE, **SHORT, "features": ("interarrival_mean", "untracked")}
    form = training_form(config, 2)
    assert (form.rows, form.observation_size) == (None, 2 + 8)


@pytest.mark.learning
@pytest.mark.parametrize("names", [("ongoing", "fct_mean"), ("up", "untracked")])
def test_a_policy_acts_on_the_features_that_it_learned_from(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    config = {"env": SINGLE, **SHORT, "max_steps": 4, "features": names}
    learner = find_learner("cma-es")
    learner.train(config, 16, 0, tmp_path, n_envs=2)
    policy = load_policy(tmp_path)
    env = make(features=names)
    observation, info = env.reset(seed=0)
    assert env.action_space.contains(policy.bind(env).act(observation, info))
    # As many columns, of another meaning or in another order.
    for others in (names[::-1], (f"d_{names[0]}", names[1])):
        with pytest.raises(ConfigError, match=f"{others[0]}, .*trained .* with {names[0]}") as bad:
            policy.bind(make(features=others))
        assert "\n" not in str(bad.value)
        with pytest.raises(ConfigError, match="resume"):
            resumed = TrainingOptions(resume=True)
            learner.train({**config, "features": others}, 8, 0, tmp_path, options=resumed)


def test_the_trained_policy_of_the_package_is_of_the_published_list() -> None:
    policy = load_policy("balancing-v1")
    policy.bind(make())
    swapped = (*DEFAULT_FEATURES[5::-1], *DEFAULT_FEATURES[6:])
    with pytest.raises(ConfigError, match="trained in another environment"):
        policy.bind(make(features=swapped))
