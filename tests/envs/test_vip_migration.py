"""VIP migration: two waves without overflow, every form of the environment, its policies."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import dcgym
from dcgym.backends.simulation.placement import FlowLevelModel
from dcgym.errors import ConfigError
from dcgym.policies import make_policy
from dcgym.tasks.placement.data_centre import DATA_CENTRES, make_data_centre
from dcgym.tasks.placement.migration import MIGRATION_COMMON, MIGRATION_ROWS
from dcgym.tasks.placement.view import AssignmentRule
from dcgym.testing import check_contract, check_no_dead_feature
from dcgym.traffic.vips import SyntheticVips, VipTable

pytestmark = pytest.mark.simulation

ID = "dcgym/VipMigration-v0"
SMALL: dict[str, Any] = {
    "data_centre": {"preset": "rubik-20", "tunnel_entries": 8},
    "vips": {"vips": 40, "total": "55Gbit", "churn": 1.0},
    "epochs": 5,
    "candidates": 6,
}


def episode(policy: str, seed: int, **arguments: Any) -> list[dict[str, float]]:
    env: Any = gym.make(ID, **{**SMALL, **arguments})
    acts = make_policy(policy, env)
    observation, info = env.reset(seed=seed)
    found, is_over = [], False
    while not is_over:
        observation, _, is_over, _, info = env.step(acts.act(observation, info))
        found.append(info["metrics"])
    env.close()
    return found


def test_two_vips_swap_switches_that_cannot_hold_both() -> None:
    """Each has 60 % of a switch's entries: in one wave none could go first (Duet, figure 4)."""
    centre = make_data_centre({"preset": "duet-10", "tunnel_entries": 5})
    model = FlowLevelModel(centre)
    model.reset(0, VipTable.of([{0: 2e9}, {1: 1e9}], [{2: 3}, {3: 3}]))
    model.place(0, 0, 4)
    model.place(0, 1, 5)
    found = model.migrate(0, np.array([5, 4], np.int32))
    assert found.withdrawn == found.announced == (0, 1) and found.refused == ()
    assert found.memory_max == (0.6, 0.0, 0.6) and found.link_max[1] == 0
    assert model.places(0).tolist() == [5, 4]
    # A switch dies between the waves: its VIP stays on the muxes.
    found = model.migrate(0, np.array([4, 5], np.int32), dead=[5])
    assert found.refused == (1,) and model.places(0).tolist() == [4, -1]


@pytest.mark.parametrize("seed", range(4))
def test_no_table_or_link_is_ever_fuller_than_before_and_after(seed: int) -> None:
    centre = DATA_CENTRES["rubik-20"]
    tables = SyntheticVips(60, 8, 6e10, 200, 512, churn=1.0).draw(seed, 3)
    model, trial = FlowLevelModel(centre), FlowLevelModel(centre)
    model.reset(0, tables[0])
    for number in range(2):
        trial.reset(0, tables[0])
        trial.assign(0, AssignmentRule(seed=seed + number, stops=False))
        before, wanted = model.usage(0), trial.places(0)
        found = model.migrate(0, wanted)
        after = model.usage(0)
        assert found.refused == () and model.places(0).tolist() == wanted.tolist()
        assert after.link_max == pytest.approx(trial.usage(0).link_max)
        for name in ("link_max", "memory_max"):
            ends = max(getattr(before, name), getattr(after, name))
            assert max(getattr(found, name)) <= ends + 1e-9 <= 1 + 1e-8


def test_policies_are_ordered_as_in_the_source() -> None:
    """Sticky has about the share of Non-sticky and moves far less; One-time moves nothing."""
    sums = {}
    for policy in ("one-time", "sticky", "non-sticky"):
        rows = [row for seed in range(3) for row in episode(policy, seed)]
        sums[policy] = {name: np.mean([row[name] for row in rows]) for name in rows[0]}
    share = {name: row["switch_share"] for name, row in sums.items()}
    moved = {name: row["moved_share"] for name, row in sums.items()}
    assert share["one-time"] < share["sticky"]
    assert moved["sticky"] < moved["non-sticky"]
    # What leaves a switch under One-time does not fit any more.
    assert sums["one-time"]["rejected"] > 0 == sums["sticky"]["rejected"]


def test_choosing_all_vips_is_a_placement_afresh_and_none_is_one_time() -> None:
    many = {"action": "vips", "candidates": 40}
    for moves, action in ((1, 0), (0, 7)):
        one: Any = gym.make(ID, **{**SMALL, **many})
        other: Any = gym.make(ID, **SMALL)
        _, info = one.reset(seed=2)
        other.reset(seed=2)
        over = False
        while not over:
            assert info["action_mask"].reshape(40, 2)[:, 0].all()
            _, _, over, _, info = one.step(np.full(40, moves))
            _, _, _, _, same = other.step(action)
            assert one.unwrapped.flow_records()["switch"].tolist() == (
                other.unwrapped.flow_records()["switch"].tolist()
            )
            assert info["metrics"]["moved_share"] == same["metrics"]["moved_share"]
        one.close()
        other.close()


@pytest.mark.parametrize("action", ["margin", "vips"])
def test_it_keeps_the_contract_and_gymnasiums(action: str) -> None:
    arguments = {**SMALL, "action": action}
    check_contract(lambda: dcgym.make_env(env=ID, **arguments))
    env = dcgym.make_env(env=ID, **arguments)
    check_no_dead_feature(env, 20)
    check_env(env.unwrapped, skip_render_check=True)
    observation, _ = env.reset(seed=0)
    assert observation.shape == (6 * len(MIGRATION_ROWS) + len(MIGRATION_COMMON),)
    assert env.unwrapped.action_masks().shape == ((12,) if action == "vips" else (8,))
    env.close()


def test_a_slot_and_a_copy_go_on_as_a_single_environment_does() -> None:
    vector = gym.make_vec(ID, 2, vectorization_mode="vector_entry_point", **SMALL)
    single: Any = gym.make(ID, **SMALL)
    observations, _ = vector.reset(seed=4)
    expected, _ = single.reset(seed=5)
    for action in (0, 3, 7):
        np.testing.assert_array_equal(observations[1], expected)
        other = copy.deepcopy(single.unwrapped.session)
        observations, rewards, _, _, infos = vector.step(np.array([1, action]))
        expected, reward, _, _, info = single.step(action)
        other.advance([[action]])
        np.testing.assert_array_equal(other.observations[0, 0], expected)
        assert rewards[1] == reward
        np.testing.assert_array_equal(infos["candidates"]["vip"][1], info["candidates"]["vip"])
    single.close()
    vector.close()


def test_wrong_arguments_are_refused_in_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^epochs: value 0 .* a whole number of 1 or more$"):
        gym.make(ID, epochs=0)
    with pytest.raises(ConfigError, match=r"^action: value 'vip' .*did you mean 'vips'"):
        gym.make(ID, action="vip")
    # No margin of the environment's is nearer.
    with pytest.raises(ConfigError, match=r"^margin: value 0.03"):
        make_policy("sticky", family="migration", margin=0.03)
