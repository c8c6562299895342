"""A toy backend of under 150 lines in every form of every environment on networks."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import dcgym
from dcgym.suites import Case, Suite, run_suite
from dcgym.testing import check_contract, check_network
from tests.support import toy
from tests.support.suites import leave_figures_empty

IDS = ("dcgym/CongestionControl-v2", "dcgym/PathBalancing-v2", "dcgym/Joint-v2")
FEATURES = ("tx_rate", "d_tx_rate")


@pytest.fixture(autouse=True)
def registered() -> None:
    toy.register()


def arguments(env_id: str) -> dict[str, object]:
    """Return arguments under which the toy, which has no queues, shows what it does."""
    topology = {"name": "leaf-spine", "leaves": 2, "hosts_per_leaf": 2, "rate": "10Mbit"}
    return {"backend": "toy", "features": FEATURES, "topology": topology, "traffic": "pairs"}


def test_it_is_as_small_as_the_contract_promises() -> None:
    assert len(Path(toy.__file__).read_text().splitlines()) < 150


def test_it_keeps_the_contract_of_networks() -> None:
    check_network(toy.ToyNetwork)


@pytest.mark.parametrize("env_id", IDS)
def test_a_single_environment_keeps_the_contract(env_id: str) -> None:
    check_contract(lambda: dcgym.make_env(env=env_id, **arguments(env_id)))
    assert not gym.make(env_id, **arguments(env_id)).spec.nondeterministic


def test_senders_get_what_their_limits_and_links_allow() -> None:
    env = dcgym.make_env(env=IDS[0], **arguments(IDS[0]))
    env.reset(seed=0)
    *_, info = env.step(np.ones(4, np.float32))
    # Two pairs over two spines of 10 Mbit/s: everything fits.
    assert info["metrics"]["goodput_bps"] == pytest.approx(20e6, rel=1e-3)
    *_, info = env.step(np.full(4, 0.25, np.float32))
    assert info["metrics"]["goodput_bps"] == pytest.approx(5e6, rel=1e-3)
    env = dcgym.make_env(env=IDS[1], **arguments(IDS[1]))
    env.reset(seed=0)
    weights = env.unwrapped.task.weight_map.from_shares(np.array([0.0, 1.0] * 2))
    *_, info = env.step(weights)
    assert info["metrics"]["goodput_bps"] == pytest.approx(10e6, rel=1e-3)


@pytest.mark.parametrize("env_id", IDS)
def test_a_slot_of_the_vector_form_gives_what_a_single_environment_gives(env_id: str) -> None:
    vector = gym.make_vec(env_id, 3, "vector_entry_point", max_episode_steps=4, **arguments(env_id))
    single = dcgym.make_env(env=env_id, max_steps=4, **arguments(env_id))
    observations, _ = vector.reset(seed=5)
    expected, _ = single.reset(seed=6)
    np.testing.assert_array_equal(observations[1], expected)
    vector.action_space.seed(2)
    for step in range(12):
        actions = vector.action_space.sample()
        observations, rewards, terminated, truncated, _ = vector.step(actions)
        if step in (4, 9):
            expected, _ = single.reset()
            assert rewards[1] == 0
        else:
            own = list(gym.vector.utils.iterate(vector.action_space, actions))[1]
            expected, reward, *ends, _ = single.step(own)
            assert rewards[1] == reward
            assert [terminated[1], truncated[1]] == ends
        np.testing.assert_array_equal(observations[1], expected)
    vector.close()


RLLIB = [(env_id, arguments(env_id)) for env_id in IDS]
# The environment without intervals, from the compiled twin.
RLLIB += [
    pytest.param(
        "dcgym/JobAssignment-v0", {"observation": "work"}, marks=pytest.mark.simulation, id="jobs"
    )
]


@pytest.mark.learning
@pytest.mark.parametrize(("env_id", "given"), RLLIB)
def test_rllib_samples_from_it(env_id: str, given: dict[str, object]) -> None:
    pytest.importorskip("ray.rllib")
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    from dcgym.envs.rllib import register_rllib

    config = (
        PPOConfig()
        .environment(register_rllib(), env_config={"env": env_id, **given})
        .env_runners(num_env_runners=0)
    )
    runner = SingleAgentEnvRunner(config=config)
    episodes = runner.sample(num_timesteps=6)
    assert sum(len(episode) for episode in episodes) == 6
    rewards = np.concatenate([episode.get_rewards() for episode in episodes])
    assert np.isfinite(rewards).all()
    runner.stop()


@pytest.mark.parametrize(
    ("env_id", "policies"),
    [(IDS[0], ("cubic", "random")), (IDS[1], ("wcmp", "random")), (IDS[2], ("cubic+ecmp",))],
)
def test_a_suite_of_it_ends_in_a_report(
    env_id: str, policies: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_figures_empty(monkeypatch)
    case = Case({"env": env_id, **arguments(env_id)})
    suite = Suite("toy", "A toy.", (case,), policies, seeds=2, episode_s=1.0, warmup_s=0.2, jobs=0)
    records = run_suite(suite, tmp_path)
    assert [(r["policy"], r["seed"]) for r in records] == [
        (policy, seed) for seed in range(2) for policy in policies
    ]
    assert {r["backend"] for r in records} == {"toy"}
    assert {r["fidelity"]["status"] for r in records} == {"ok"}
    page = (tmp_path / "report.html").read_text()
    assert all(policy in page for policy in policies)
