"""The native vector form under Stable-Baselines3, against the library's own vector."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from dcgym.errors import ConfigError

pytest.importorskip("stable_baselines3")
from stable_baselines3.common.vec_env import DummyVecEnv

from dcgym.envs.sb3 import SlotVecEnv
from dcgym.policies.learned.sb3.workers import WorkerVecEnv

pytestmark = [pytest.mark.simulation, pytest.mark.learning]

POOL, CENTRE = "dcgym/LoadBalancing-v1", "dcgym/VipPlacement-v0"
SLOTS, STEPS = 2, 3
# At the end of an episode `SlotVecEnv` says what a `Monitor` would.
ENDS = {"TimeLimit.truncated", "episode", "terminal_observation"}


def both(**config: Any) -> tuple[SlotVecEnv, DummyVecEnv]:
    slots = SlotVecEnv(gym.make_vec(POOL, SLOTS, max_steps=STEPS, **config))
    return slots, DummyVecEnv([lambda: gym.make(POOL, max_steps=STEPS, **config)] * SLOTS)


def numbers(info: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in info.items() if name not in ENDS}


@pytest.mark.parametrize("info", ["flat", "none"])
def test_observations_rewards_ends_and_infos_are_those_of_the_library(info: str) -> None:
    slots, dummy = both(info=info)
    rows = []
    for envs in (slots, dummy):
        envs.seed(4)
        rows.append(envs.reset())
    np.testing.assert_array_equal(*rows)
    generator = np.random.default_rng(0)
    for step in range(1, 2 * STEPS + 1):
        actions = generator.uniform(-1, 1, (SLOTS, 8))
        found, expected = slots.step(actions), dummy.step(actions)
        for one, other in zip(found[:3], expected[:3], strict=True):
            np.testing.assert_array_equal(one, other)
        assert found[2].all() == (step % STEPS == 0)
        for one, other in zip(found[3], expected[3], strict=True):
            assert numbers(one) == pytest.approx(numbers(other), nan_ok=True)
            assert bool(numbers(one)) == (info == "flat")
            assert one.get("TimeLimit.truncated", False) == other["TimeLimit.truncated"]
            assert ("terminal_observation" in one) == ("terminal_observation" in other)
        for one, other in zip(slots.reset_infos, dummy.reset_infos, strict=True):
            assert numbers(one) == pytest.approx(numbers(other), nan_ok=True)


def test_attributes_are_those_of_single_environments() -> None:
    slots, dummy = both()
    for name in ("nonsense", "action_masks", "settings", "observation_labels", "reset"):
        # All slots reset together alone.
        assert slots.has_attr(name) == (dummy.has_attr(name) and name != "reset"), name
    with pytest.raises(AttributeError, match="nonsense"):
        slots.get_attr("nonsense")
    with pytest.raises(AttributeError, match="nonsense"):
        slots.env_method("nonsense")
    assert slots.get_attr("settings", indices=[1]) == dummy.get_attr("settings", indices=[1])
    slots.set_attr("tag", 5, indices=1)
    assert slots.get_attr("tag", indices=1) == [5]
    assert not hasattr(slots.get_attr("unwrapped", indices=0)[0], "tag")
    centre = SlotVecEnv(gym.make_vec(CENTRE, 2))
    centre.reset()
    assert centre.has_attr("action_masks")
    one, other = centre.env_method("action_masks"), centre.env_method("action_masks", indices=1)
    assert len(one) == 2 and len(other) == 1
    np.testing.assert_array_equal(one[1], other[0])


def test_workers_in_other_processes_say_that_they_have_no_attributes() -> None:
    # Nothing is asked of the processes, which need none.
    workers = WorkerVecEnv.__new__(WorkerVecEnv)
    workers.num_envs = 2
    assert workers.get_attr("render_mode") == [None, None]
    assert not workers.has_attr("nonsense")
    with pytest.raises(AttributeError, match=r"^nonsense: .* other processes$"):
        workers.env_method("nonsense")


def test_pictures_are_drawn_side_by_side() -> None:
    pytest.importorskip("PIL")
    slots, dummy = both(render_mode="rgb_array")
    for envs in (slots, dummy):
        envs.seed(4)
        envs.reset()
    assert slots.render_mode == "rgb_array" and slots.metadata["render_fps"] == 4
    np.testing.assert_array_equal(slots.render(), dummy.render())


def test_options_reach_the_environment() -> None:
    slots = SlotVecEnv(gym.make_vec(POOL, SLOTS))
    slots.set_options({"nonsense": 1})
    with pytest.raises(ConfigError, match="nonsense"):
        slots.reset()
    slots.set_options([{"a": 1}, {"a": 2}])
    with pytest.raises(ConfigError, match="the same for all slots"):
        slots.reset()
