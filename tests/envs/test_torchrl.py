"""TorchRL takes every environment, and what it collects is what the environment said."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import dcgym
from dcgym.backends.registry import NETWORKS
from dcgym.envs.registry import ENVIRONMENTS

pytest.importorskip("torchrl")

pytestmark = [pytest.mark.learning, pytest.mark.simulation]

IDS = ENVIRONMENTS.names()
SEVERAL = [name for name, one in ENVIRONMENTS.items() if one.agents is not None]
FLOWS = {"flows": 2, "traffic": "pairs"}
FORMS = [
    ("dcgym/LoadBalancing-v1", {}, ["balancer"]),
    ("dcgym/LoadBalancing-v1", {"action": "discrete", "info": "none"}, ["balancer"]),
    ("dcgym/FlowControl-v1", FLOWS, ["flow0", "flow1"]),
]


def on_the_twin(env_id: str) -> dict[str, Any]:
    """Return arguments with which an environment needs neither root nor real time."""
    is_network = ENVIRONMENTS[env_id].single.makers is NETWORKS
    return {"backend": "simulation"} if is_network else {}


class Kept(gym.Wrapper[Any, Any, Any, Any]):
    """Keeps what each step was told and led to."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.steps: list[tuple[Any, Any, float]] = []

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, *rest = self.env.step(action)
        self.steps.append((action, observation, float(reward)))
        return observation, reward, *rest  # type: ignore[return-value]


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("env_id", IDS)
def test_a_rollout_is_what_the_environment_returned(env_id: str, categorical: bool) -> None:
    from torchrl.envs import GymWrapper
    from torchrl.envs.utils import check_env_specs

    kept = Kept(gym.make(env_id, **on_the_twin(env_id)))
    env = GymWrapper(kept, categorical_action_encoding=categorical)
    check_env_specs(env)
    kept.steps.clear()
    env.set_seed(7)
    rollout = env.rollout(3)
    assert len(rollout) == len(kept.steps) > 0
    for step, (action, observation, reward) in zip(rollout, kept.steps, strict=True):
        assert kept.action_space.contains(action)
        np.testing.assert_array_equal(step["next", "observation"].numpy(), observation)
        assert step["next", "reward"].item() == pytest.approx(reward, rel=1e-6)
    env.close()


def test_an_id_is_made_by_the_library_itself() -> None:
    from torchrl.envs import GymEnv
    from torchrl.envs.utils import check_env_specs

    # It offers `frameskip` to every environment, and repeats actions itself where that is refused.
    env = GymEnv("dcgym/LoadBalancing-v1", frame_skip=2, info="flat", max_steps=8)
    env = env.auto_register_info_dict()
    check_env_specs(env)
    rollout = env.rollout(10)
    assert rollout["next", "time_s"].flatten().tolist() == [0.5, 1.0, 1.5, 2.0]


def test_slots_are_a_batch() -> None:
    from torchrl.envs import GymWrapper
    from torchrl.envs.utils import check_env_specs

    form = {"max_steps": 4, "autoreset_mode": "Disabled"}
    env = GymWrapper(gym.make_vec("dcgym/LoadBalancing-v1", 3, **form))
    check_env_specs(env)
    rollout = env.rollout(8, break_when_any_done=False)
    assert rollout.batch_size == (3, 8)
    assert rollout["next", "done"][..., 0].sum(dim=1).tolist() == [2, 2, 2]
    # The fifth step begins the next episode.
    assert not np.array_equal(rollout["observation"][:, 4], rollout["next", "observation"][:, 3])


@pytest.mark.parametrize("env_id", IDS)
def test_pixels_stand_beside_the_observation(env_id: str) -> None:
    pytest.importorskip("PIL")
    from torchrl.envs import GymWrapper

    plain = gym.make(env_id, render_mode="rgb_array", **on_the_twin(env_id))
    env = GymWrapper(plain, from_pixels=True, pixels_only=False)
    seen = env.rollout(1)
    assert seen["pixels"].shape[-1] == 3 and seen["pixels"].numpy().std() > 0
    assert seen["observation"].shape[1:] == plain.observation_space.shape
    env.close()


@pytest.mark.parametrize(("env_id", "arguments", "groups"), FORMS)
def test_several_agents_fit_their_specification(
    env_id: str, arguments: dict[str, Any], groups: list[str]
) -> None:
    from torchrl.envs import PettingZooWrapper
    from torchrl.envs.utils import check_env_specs

    parallel = dcgym.parallel_env(env_id, **on_the_twin(env_id), **arguments)
    env = PettingZooWrapper(parallel, return_state=True, categorical_actions=True)
    check_env_specs(env)
    rollout = env.rollout(3)
    assert list(env.group_map) == groups
    assert rollout["state"].shape[1:] == parallel.state_space.shape
    np.testing.assert_array_equal(rollout["next", "state"][-1].numpy(), parallel.state())
    infos = rollout["next", groups[0]].get("info", None)
    assert (infos is None) == (arguments.get("info") == "none")
    env.close()


def test_every_environment_with_several_agents_has_a_form() -> None:
    assert {env_id for env_id, *_ in FORMS} == set(SEVERAL)
