"""MaskablePPO: masks reach the library, and a checkpoint obeys them without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.policies import LEARNERS, TrainingOptions, load_policy
from dcgym.policies.learned.actor import Actor, Linear
from dcgym.policies.learned.environments import build_slots, training_form

ENV: dict[str, Any] = {
    "env": "dcgym/VipPlacement-v0",
    "data_centre": {"preset": "rubik-20", "tunnel_entries": 8},
    "vips": {"vips": 20, "total": "45Gbit"},
    "candidates": 4,
}


def test_an_actor_prefers_the_best_of_the_feasible_choices() -> None:
    weight, bias = np.zeros((3, 2), np.float32), np.array([0, 2, 1], np.float32)
    ends = np.zeros((), np.float32), np.full((), 2, np.float32)
    actor = Actor((Linear(weight, bias),), "none", "none", *ends, choices=(3,), is_masked=True)
    seen = np.zeros(2, np.float32)
    assert int(actor.act(seen)) == 1
    assert int(actor.act(seen, np.array([True, False, True]))) == 2
    assert int(actor.act(seen, np.array([True, False, False]))) == 0


@pytest.mark.simulation
@pytest.mark.learning
def test_it_trains_resumes_and_acts_among_feasible_actions(tmp_path: Path) -> None:
    pytest.importorskip("sb3_contrib")
    learner = LEARNERS["maskable-ppo"]
    assert (learner.algorithm, learner.library) == ("maskable-ppo", "sb3")
    settings: dict[str, Any] = {"n_steps": 16, "n_epochs": 2}
    options = TrainingOptions(settings=settings)
    learner.train(ENV, 64, 0, tmp_path / "run", n_envs=2, options=options)
    resumed = TrainingOptions(resume=True)
    learner.train(ENV, 64, 0, tmp_path / "run", options=resumed)
    env: Any = gym.make(ENV["env"], **{k: v for k, v in ENV.items() if k != "env"})
    policy = load_policy(tmp_path / "run", env)
    observation, info = env.reset(seed=1)
    is_over = False
    while not is_over:
        action = policy.act(observation, info)
        assert info["action_mask"][int(action)] == 1
        observation, _, is_over, _, info = env.step(action)
    assert info["metrics"]["rejected"] == 0
    env.close()
    with pytest.raises(ConfigError, match="infeasible") as caught:
        learner.train(
            {"env": "dcgym/LoadBalancing-v1", "action": "discrete"}, 10, 0, tmp_path / "other"
        )
    assert "\n" not in str(caught.value)


@pytest.mark.simulation
@pytest.mark.learning
def test_masks_of_slots_are_those_of_the_environment() -> None:
    pytest.importorskip("sb3_contrib")
    from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported

    from dcgym.envs.sb3 import SlotVecEnv

    envs = SlotVecEnv(build_slots(ENV, training_form(ENV, 3)))
    envs.seed(0)
    envs.reset()
    assert is_masking_supported(envs)
    masks = get_action_masks(envs)
    assert masks.shape == (envs.num_envs, 5) and masks.dtype == np.bool_ and masks[:, -1].all()
    [last] = envs.env_method("action_masks", indices=2)
    np.testing.assert_array_equal(last, masks[2])
    envs.close()
    jobs = {"env": "dcgym/LoadBalancing-v1"}
    other = SlotVecEnv(build_slots(jobs, training_form(jobs, 2)))
    assert not is_masking_supported(other)
    other.close()
