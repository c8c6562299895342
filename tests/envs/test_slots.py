"""Slots of the native vector form, against Gymnasium's own over single environments."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import dcgym
from dcgym.errors import BackendError, ConfigError, UnexpectedArgument

pytestmark = pytest.mark.simulation

POOL, JOBS, VIPS = "dcgym/LoadBalancing-v1", "dcgym/JobAssignment-v0", "dcgym/VipPlacement-v0"
SLOTS = 3
# The last of ten servers takes no jobs from 5 s on.
DRAINED = {
    "scenario": {
        "preset": "park-10",
        "events": [{"at": "5s", "kind": "drain-server", "target": "server-9"}],
    }
}


def both(env_id: str, **config: Any) -> tuple[Any, SyncVectorEnv]:
    """Return the native form and Gymnasium's, after some steps."""
    native = gym.make_vec(env_id, SLOTS, **config)
    sync = SyncVectorEnv([lambda: gym.make(env_id, **config)] * SLOTS)
    native.action_space.seed(0)
    for envs in (native, sync):
        envs.reset(seed=5)
    for _ in range(12):
        actions = native.action_space.sample()
        for envs in (native, sync):
            envs.step(actions)
    return native, sync


def test_attributes_of_slots_are_those_of_single_environments() -> None:
    native, sync = both(POOL, info="none", record_limit=100)
    for name in ("observation_labels", "settings", "render_mode", "action_space", "np_random_seed"):
        assert native.get_attr(name) == sync.get_attr(name), name
    assert native.np_random_seed == sync.np_random_seed == (5, 6, 7)
    draws = [[one.bit_generator.state for one in envs.np_random] for envs in (native, sync)]
    assert draws[0] == draws[1]
    assert native.autoreset_mode is native.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    # A quarter of a second a step.
    assert native.metadata["render_fps"] == sync.metadata["render_fps"] == 4
    assert native.metadata["render_modes"] == sync.metadata["render_modes"]
    for found, expected in zip(native.call("flow_records"), sync.call("flow_records"), strict=True):
        assert len(found) > 0
        np.testing.assert_array_equal(found, expected)


def test_a_slot_has_every_attribute_of_a_single_environment_but_three() -> None:
    single: Any = gym.make(VIPS).unwrapped
    slot = gym.make_vec(VIPS, 2).unwrapped.envs[1]  # type: ignore[attr-defined]
    wanted = {name for name in dir(single) if not name.startswith("_") and hasattr(single, name)}
    assert wanted - {name for name in wanted if hasattr(slot, name)} == {"reset", "step", "close"}


@pytest.mark.parametrize("name", ["reset", "step", "close", "nonsense", "action_masks"])
def test_what_a_slot_does_not_have_is_an_attribute_error(name: str) -> None:
    envs: Any = gym.make_vec(POOL, 2)
    for ask in (envs.call, envs.get_attr):
        with pytest.raises(AttributeError, match=name):
            ask(name)
    assert not hasattr(envs, "action_masks")


def test_pictures_are_those_of_single_environments() -> None:
    pytest.importorskip("PIL")
    native, sync = both(POOL, render_mode="rgb_array")
    assert native.render_mode == sync.render_mode == "rgb_array"
    pictures = native.render()
    assert isinstance(pictures, tuple) and not (pictures[0] == pictures[1]).all()
    # OrderEnforcing and the passive checker hand the picture on.
    for found, expected in zip(pictures, sync.render() or (), strict=True):
        np.testing.assert_array_equal(found, expected)
    native.set_attr("render_mode", [None, "rgb_array", None])
    assert [one is None for one in native.render()] == [True, False, True]
    blind = gym.make_vec(POOL, 2)
    assert blind.render_mode is None and blind.render() == (None, None)


def test_what_is_set_stays_with_its_slot() -> None:
    envs: Any = gym.make_vec(POOL, SLOTS)
    envs.set_attr("tag", ["a", "b", "c"])
    assert envs.get_attr("tag") == ("a", "b", "c")
    envs.set_attr("tag", 7)
    assert envs.call("tag") == (7, 7, 7)
    with pytest.raises(ConfigError, match=r"^values: value .* one for each of 3 slots$"):
        envs.set_attr("tag", [1, 2])
    with pytest.raises(AttributeError, match="settings"):
        envs.set_attr("settings", None)


def test_a_generator_that_is_set_draws_the_next_episode() -> None:
    envs: Any = gym.make_vec(POOL, 2)
    envs.set_attr("np_random", [np.random.default_rng(seed) for seed in (8, 9)])
    assert envs.np_random_seed == (-1, -1)
    observations, _ = envs.reset()
    for seed, observation in zip((8, 9), observations, strict=True):
        single: Any = gym.make(POOL).unwrapped
        single.np_random = np.random.default_rng(seed)
        np.testing.assert_array_equal(single.reset()[0], observation)


def test_slots_that_are_agents_share_what_belongs_to_their_copy() -> None:
    envs: Any = dcgym.make_vec_env({"env": POOL, "record_limit": 100}, 4, is_shared=True)
    agents = len(envs.unwrapped.system.agents)
    assert agents == 2
    envs.reset(seed=3)
    assert envs.unwrapped.np_random_seed == (3, 3, 4, 4)
    for _ in range(12):
        envs.step(envs.action_space.sample())
    records = envs.unwrapped.call("flow_records")
    assert len(records[0]) > 0 and len(records[2]) > 0


@pytest.mark.parametrize(("env_id", "config"), [(VIPS, {}), (JOBS, DRAINED)])
def test_masks_of_slots_are_those_of_single_environments(env_id: str, config: Any) -> None:
    native, sync = both(env_id, **config)
    masks = native.get_attr("action_masks")
    np.testing.assert_array_equal(masks, sync.get_attr("action_masks"))
    np.testing.assert_array_equal(masks, native.unwrapped.action_masks())


def test_events_of_slots_are_those_of_single_environments() -> None:
    native, sync = both(JOBS, **DRAINED)
    for envs in (native, sync):
        for _ in range(100):
            envs.step(np.zeros(SLOTS, np.int64))
    told = native.call("event_records")
    assert told == sync.call("event_records") and [len(one) for one in told] == [1] * SLOTS


def test_masks_of_jobs_are_the_servers_that_take_some() -> None:
    env: Any = gym.make(JOBS, **DRAINED)
    with pytest.raises(BackendError, match="reset"):
        env.unwrapped.action_masks()
    _, info = env.reset(seed=0)
    seen = set()
    for _ in range(300):
        mask = env.unwrapped.action_masks()
        assert info["action_mask"].dtype == np.int8
        np.testing.assert_array_equal(info["action_mask"], mask)
        # A server of its own for each moment: the event is at 5 s from the first job.
        assert mask.tolist() == [True] * 9 + [info["time_s"] < 5.0]
        seen.add(bool(mask[9]))
        _, _, _, _, info = env.step(int(env.action_space.sample(info["action_mask"])))
    assert seen == {True, False} and info["metrics"]["failed"] == 0
    scores: Any = gym.make(JOBS, action="scores")
    assert "action_mask" not in scores.reset(seed=0)[1]
    assert not hasattr(scores.unwrapped, "action_masks")


def test_an_unknown_argument_is_pythons_error_too() -> None:
    line = r"^unexpected keyword argument 'frameskip': value 4 is not allowed; allowed: action, "
    for make in (gym.make, lambda env_id, **given: gym.make_vec(env_id, 2, **given)):
        with pytest.raises(TypeError, match=line) as caught:
            make(POOL, frameskip=4)
        assert isinstance(caught.value, ConfigError)
        assert isinstance(pickle.loads(pickle.dumps(caught.value)), UnexpectedArgument)
    with pytest.raises(TypeError, match=r"did you mean 'reward'\?"):
        gym.make(POOL, rewards="gain")
    with pytest.raises(TypeError, match=line):
        from dcgym.envs.parallel import TaskParallelEnv

        TaskParallelEnv(POOL, frameskip=4)


def test_processes_of_the_fork_server_know_the_ids(tmp_path: Path) -> None:
    # As in a notebook: the workers have no main module to import, and so no `import dcgym`. Those
    # of Stable-Baselines3's `SubprocVecEnv` start like this.
    program = (
        "import multiprocessing, gymnasium, dcgym\n"
        "with multiprocessing.get_context('forkserver').Pool(1) as pool:\n"
        f"    print(pool.apply(gymnasium.spec, ({POOL!r},)).entry_point)\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
    )
    assert done.stdout.strip() == "dcgym.envs.single:TaskEnv", done.stderr
