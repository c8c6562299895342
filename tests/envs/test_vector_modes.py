"""The native vector form against Gymnasium's own over single environments, in every mode."""

from __future__ import annotations

from collections.abc import Mapping

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import dcgym
from dcgym.envs.infos import of_slot
from dcgym.errors import BackendError, ConfigError
from dcgym.policies import make_policy
from tests.support import toy

pytestmark = pytest.mark.simulation

SINGLE, CENTRAL = "dcgym/LoadBalancing-v1", "dcgym/CentralLoadBalancing-v1"
STEPS, SLOTS = 4, 3


def assert_same(found, expected):
    """Compare infos as deep as they go: names, types, bits."""
    assert type(found) is type(expected)
    if isinstance(found, Mapping):
        assert set(found) == set(expected)
        for name, value in found.items():
            assert_same(value, expected[name])
    elif isinstance(found, np.ndarray) and found.dtype == object:
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(found, np.ndarray):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    else:
        assert found == expected


def both(env_id, mode, **config):
    """Return the native form, and Gymnasium's over single environments."""
    vector = gym.make_vec(env_id, SLOTS, autoreset_mode=mode, max_episode_steps=STEPS, **config)
    limits = {"max_episode_steps": STEPS, "max_steps": STEPS}
    makers = [lambda: gym.make(env_id, **limits, **config)] * SLOTS
    return vector, SyncVectorEnv(makers, autoreset_mode=mode)


def assert_alike(env_id, mode, **config):
    vector, expected = both(env_id, mode, **config)
    assert vector.metadata["autoreset_mode"] is mode

    def reset(**arguments):
        options = arguments.get("options")
        # Gymnasium's takes the mask out of what it is given.
        given = {**arguments, **({"options": dict(options)} if options else {})}
        for one, other in zip(vector.reset(**arguments), expected.reset(**given), strict=True):
            assert_same(one, other)

    reset(seed=3)
    vector.action_space.seed(0)
    n_ends = 0
    for step in range(3 * STEPS):
        actions = vector.action_space.sample()
        found = vector.step(actions)
        for one, other in zip(found, expected.step(actions), strict=True):
            assert_same(one, other)
        ended = found[2] | found[3]
        n_ends += int(ended.sum())
        if mode is AutoresetMode.DISABLED and ended.any():
            reset(options={"reset_mask": ended})
        elif step == STEPS + 1:
            # From here on the slots end at different steps.
            reset(seed=[None, 40, 41], options={"reset_mask": np.array([True, True, False])})
    assert n_ends >= 2 * SLOTS
    vector.close()
    expected.close()


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("env_id", [SINGLE, CENTRAL])
def test_every_mode_gives_the_bits_of_gymnasium_s_own_form(env_id, mode):
    assert_alike(env_id, mode, lead_in=2)


@pytest.mark.parametrize("info", ["flat", "none"])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_the_forms_of_infos_are_those_of_gymnasium_s_own_form(mode, info):
    if (mode, info) == (AutoresetMode.SAME_STEP, "none"):
        vector, _ = both(SINGLE, mode, info=info, lead_in=0)
        vector.reset(seed=0)
        *_, infos = [vector.step(vector.action_space.sample()) for _ in range(STEPS)][-1]
        # Without infos only the last observation is left, which learners cannot do without.
        assert set(infos) == {"final_obs", "_final_obs"}
        return
    assert_alike(SINGLE, mode, info=info, lead_in=0)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_networks_do_the_same(mode):
    toy.register()
    topology = {"name": "leaf-spine", "leaves": 2, "hosts_per_leaf": 2, "rate": "10Mbit"}
    features = ("tx_rate", "d_tx_rate")
    config = {"backend": "toy", "features": features, "topology": topology, "traffic": "pairs"}
    for env_id in ("dcgym/CongestionControl-v2", "dcgym/PathBalancing-v2"):
        assert_alike(env_id, mode, **config)


def test_a_mode_is_text_or_gymnasium_s_own():
    vector = dcgym.make_vec_env({"env": SINGLE}, 2, autoreset_mode="SameStep")
    assert vector.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    allowed = "^autoreset_mode: value 'next' .* allowed: NextStep, SameStep, Disabled$"
    with pytest.raises(ConfigError, match=allowed):
        gym.make_vec(SINGLE, 2, autoreset_mode="next")


def test_without_autoreset_a_slot_that_ended_has_to_be_reset():
    vector = gym.make_vec(SINGLE, 2, autoreset_mode="Disabled", max_episode_steps=1, lead_in=0)
    vector.reset(seed=0)
    actions = vector.action_space.sample()
    vector.step(actions)
    with pytest.raises(BackendError, match=r"slots \[0, 1\] have ended"):
        vector.step(actions)
    vector.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(BackendError, match=r"slots \[1\] have ended"):
        vector.step(actions)


def test_a_wrong_mask_is_one_clear_line():
    vector = gym.make_vec(SINGLE, 2, lead_in=0)
    vector.reset(seed=0)
    for mask in ([True], [False, False], [0, 1], np.array([[True, True]]), "all", 1):
        with pytest.raises(ConfigError, match=r"^reset_mask: value .* true or false for each of 2"):
            vector.reset(options={"reset_mask": mask})
    with pytest.raises(ConfigError, match=r"^options field: value 'x' .* allowed: reset_mask$"):
        vector.reset(options={"x": 1})


def test_the_first_reset_is_of_all_slots():
    vector = gym.make_vec(SINGLE, 2, lead_in=0)
    with pytest.raises(ConfigError, match="as none runs"):
        vector.reset(options={"reset_mask": np.array([True, False])})


@pytest.mark.parametrize("name", ["hlb", "awcmp"])
def test_policies_with_slow_loops_act_on_slots_as_on_single_environments(name):
    overrides = make_policy(name, family="balancing").env_overrides()
    vector = gym.make_vec(SINGLE, SLOTS, max_episode_steps=60, lead_in=2, **overrides)
    singles = [gym.make(SINGLE, lead_in=2, max_steps=60, **overrides) for _ in range(SLOTS)]

    def policies(envs):
        return [make_policy(name, family="balancing").bind(env) for env in envs]

    own, alone = policies([vector] * SLOTS), policies(singles)
    observations, infos = vector.reset(seed=5)
    last = [env.reset(seed=5 + slot) for slot, env in enumerate(singles)]
    seen = set()
    for _ in range(40):
        actions = [
            policy.act(observations[slot], of_slot(infos, slot)) for slot, policy in enumerate(own)
        ]
        expected = [policy.act(*given) for policy, given in zip(alone, last, strict=True)]
        np.testing.assert_array_equal(actions, expected)
        seen.add(np.asarray(actions).tobytes())
        observations, rewards, _, _, infos = vector.step(np.asarray(actions))
        steps = [env.step(action) for env, action in zip(singles, expected, strict=True)]
        last = [(step[0], step[4]) for step in steps]
        assert rewards.tolist() == [step[1] for step in steps]
    # It did look at the infos: the weights moved.
    assert len(seen) > 5
