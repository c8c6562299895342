"""A short training of each learner for each form of environment.

All in one file, so that one process has the libraries and Ray: they take longer to start than these
trainings last.
"""

import json
import os
from types import SimpleNamespace

import gymnasium as gym
import pytest

import dcgym
from dcgym.errors import BackendError
from dcgym.policies import LEARNERS, TrainingOptions, load_policy
from dcgym.policies.learned.training import TrainingClock, TrainingJob
from dcgym.testing import FakeBackend
from tests.support.simulated import simulated

POOL = {"env": "dcgym/LoadBalancing-v1", "scenario": {"preset": "yao-sim-8", "load": 0.85}}


@pytest.mark.learning
@pytest.mark.ray
@pytest.mark.parametrize("library", ["ray"], indirect=True)
def test_processes_of_ray_are_as_urgent_as_their_caller(library):
    import ray

    niceness = ray.remote(num_cpus=0)(lambda: os.nice(0))
    assert ray.get(niceness.remote(), timeout=60) == os.nice(0)


@pytest.mark.learning
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "library", "env_id"),
    [
        pytest.param("ppo", "ray", "CongestionControl-v2", marks=pytest.mark.ray),
        ("ddpg", "stable_baselines3", "CongestionControl-v2"),
        ("ddpg", "stable_baselines3", "Joint-v2"),
    ],
    indirect=["library"],
)
def test_learner_trains_saves_loads_and_repeats_its_actions(name, library, env_id, tmp_path):
    reports = []
    learner = LEARNERS[name]
    topology = "dumbbell" if env_id == "CongestionControl-v2" else "leaf-spine"
    config = {"env": env_id, "topology": topology, "backend": FakeBackend, "max_steps": 50}
    # A process each, which takes longer to start than it learns: one form has several.
    n_envs = 2 if env_id == "CongestionControl-v2" else 1
    folder = learner.train(config, 300, 0, tmp_path / "run", reports.append, n_envs=n_envs)
    note = json.loads((folder / "dcgym_policy.json").read_text(encoding="utf-8"))
    assert note["training"]["steps"] == reports[-1].steps > 0
    env = dcgym.make_env(config)
    observation, info = env.reset(seed=0)
    first, again = (load_policy(folder, env).act(observation, info) for _ in range(2))
    assert env.action_space.contains(first)
    flat = gym.spaces.flatten(env.action_space, first)
    assert flat.tolist() == gym.spaces.flatten(env.action_space, again).tolist()
    env.step(first)


@pytest.mark.learning
@pytest.mark.timeout(300)
@pytest.mark.ray
@pytest.mark.parametrize("library", ["ray"], indirect=True)
def test_ppo_explores_less_and_less(library):
    from dcgym.policies.learned.rllib.algorithms import open_rllib
    from dcgym.policies.learned.rllib.module import LOG_STD_END, LOG_STD_START
    from dcgym.policies.learned.training import TrainingClock, TrainingJob

    bounds = []
    with open_rllib("ppo", TrainingJob(simulated(), 0, 2)) as trainee:
        acting = trainee._algorithm.get_module()
        clock = TrainingClock(600, None, lambda _: bounds.append(acting.pi.log_std.max().item()))
        trainee.learn(clock)
    # Five updates of 120 steps: the last begins when four fifths are over.
    assert len(bounds) == 5
    expected = [LOG_STD_START + update / 5 * (LOG_STD_END - LOG_STD_START) for update in range(5)]
    assert bounds == pytest.approx(expected, abs=0.02)


@pytest.mark.simulation
@pytest.mark.learning
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "library", "steps", "settings"),
    # Two updates of PPO. DDPG learns at every 8th step: fifty times.
    [
        pytest.param("ppo", "ray", 960, {}, marks=pytest.mark.ray),
        ("ddpg", "stable_baselines3", 600, {"learning_starts": 200}),
    ],
    indirect=["library"],
)
def test_learner_trains_saves_loads_and_acts_for_any_balancer(
    name, library, steps, settings, tmp_path
):
    options = TrainingOptions(settings=settings)
    folder = LEARNERS[name].train(
        POOL, steps, 0, tmp_path / "run", n_envs=4, budget_s=60, options=options
    )
    note = json.loads((folder / "dcgym_policy.json").read_text(encoding="utf-8"))
    assert note["training"]["steps"] > 0
    env = dcgym.parallel_env("LoadBalancing-v1", scenario=POOL["scenario"])
    policies = [load_policy(folder, env) for _ in env.possible_agents]
    observations, infos = env.reset(seed=0)
    for agent, policy in zip(env.agents, policies, strict=True):
        action = policy.act(observations[agent], infos[agent])
        assert env.action_space(agent).contains(action)


def test_runners_that_bring_nothing_are_not_waited_for_for_ever(monkeypatch):
    pytest.importorskip("ray")
    from dcgym.policies.learned.rllib import train

    monkeypatch.setattr(train, "SAMPLE_TIMEOUT_S", 0.0)
    monkeypatch.setattr(train, "_narrow", lambda algorithm, share: None)
    silent = SimpleNamespace(
        learner_group=None,
        metrics=SimpleNamespace(peek=lambda key, default: default),
        train=dict,
    )
    with pytest.raises(BackendError, match=r"no environment has made a step in 0\.0 s"):
        train.RllibTrainee(silent, None).learn(TrainingClock(100, None, None))


DOUBLE = {"backend": "dcgym.testing:FakeBackend"}
SAC = {"num_steps_sampled_before_learning_starts": 40, "train_batch_size_per_learner": 16}


@pytest.mark.simulation
@pytest.mark.learning
@pytest.mark.timeout(300)
@pytest.mark.ray
@pytest.mark.parametrize("library", ["ray"], indirect=True)
@pytest.mark.parametrize(
    ("name", "task", "settings"),
    [
        ("sac-rllib", simulated(), SAC),
        ("appo", {"env": "Joint-v2", "topology": "leaf-spine", **DOUBLE, "max_steps": 30}, {}),
        ("ppo", {"env": "JobAssignment-v0", "max_steps": 30}, {}),
    ],
)
def test_a_training_of_rllib_goes_on_from_its_state(library, name, task, settings, tmp_path):
    options = TrainingOptions(settings=settings, frames=2)
    LEARNERS[name].train(task, 200, 0, tmp_path, n_envs=2, budget_s=60, options=options)
    env = dcgym.make_env(task)
    observation, info = env.reset(seed=0)
    first = load_policy(tmp_path, env).act(observation, info)
    assert env.action_space.contains(first)
    job = TrainingJob(task, 0, 2, settings, load_policy(tmp_path).actor.view, tmp_path / "state")
    with LEARNERS[name].open_training(job) as trainee:
        (tmp_path / "again").mkdir()
        details = trainee.save(tmp_path / "again")
    before = json.loads((tmp_path / "dcgym_policy.json").read_text(encoding="utf-8"))
    # APPO's learner is a thread, which may learn on between the two.
    assert name == "appo" or details == before["details"], "the same bits"
    resume = TrainingOptions(resume=True)
    LEARNERS[name].train(task, 100, 0, tmp_path, n_envs=2, budget_s=60, options=resume)
    after = json.loads((tmp_path / "dcgym_policy.json").read_text(encoding="utf-8"))
    assert after["training"]["steps"] >= before["training"]["steps"] + 100
