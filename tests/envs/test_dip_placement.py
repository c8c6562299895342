"""DIP placement: every form of the environment, by hand, its masks, Rubik as a policy."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import dcgym
from dcgym.backends.simulation.rubik import plan_rubik
from dcgym.errors import ConfigError
from dcgym.policies import make_policy
from dcgym.tasks.placement.dips import DIP_COMMON, DIP_ROWS
from dcgym.tasks.placement.mappings import DipLimits
from dcgym.testing import check_contract
from dcgym.traffic.vips import ServiceGraph, VipTable

pytestmark = pytest.mark.simulation

ID = "dcgym/DipPlacement-v0"
SMALL: dict[str, Any] = {
    "data_centre": {"preset": "rubik-20", "tunnel_entries": 16},
    "vips": {"vips": 30, "total": "45Gbit"},
    "candidates": 4,
    "dips": {"moves": 0.2},
}
FREE = {"headroom": 2.0, "load": 1.0, "failure_domains": 1, "moves": 1.0}
# Rack 0 sends 3 Gbit/s to DIPs in racks 0 and 1, rack 3 sends 1. The DIPs send 2 to a second VIP.
CALLS = ServiceGraph(
    VipTable.of([{0: 3e9, 3: 1e9}, {}], [{0: 2, 1: 2}, {2: 2}]),
    np.array([0]),
    np.array([1]),
    np.array([2e9]),
)


def episode(env: Any, policy: str, seed: int) -> tuple[float, dict[str, Any]]:
    acts = make_policy(policy, env)
    observation, info = env.reset(seed=seed)
    total, is_over = 0.0, False
    while not is_over:
        observation, reward, is_over, _, info = env.step(acts.act(observation, info))
        total += float(reward)
    return total, info


def test_a_hand_worked_episode() -> None:
    """DIPs of 2 Gbit/s: rack 0 needs two, which are there; the rest is for racks 1 and 0."""
    env: Any = gym.make(ID, data_centre="duet-10", vips=CALLS, dips=FREE, candidates=2)
    observation, info = env.reset(seed=0)
    assert observation.shape == (3 * len(DIP_ROWS) + len(DIP_COMMON),)
    assert info["vip"] == {"number": 0, "rank": 0, "level": 0, "rate_bps": 4e9, "dips": 4}
    assert info["candidates"]["rack"].tolist() == [0, 3]
    assert info["candidates"]["needed"].tolist() == [2, 1]
    assert info["candidates"]["here"].tolist() == [2, 0]
    assert info["action_mask"].tolist() == [1, 1, 1]
    _, reward, over, _, info = env.step(0)
    assert reward == pytest.approx(3 / 6) and not over
    assert info["metrics"]["local_share"] == pytest.approx(0.5)
    assert info["candidates"]["rack"].tolist() == [3, -1]
    env.step(2)
    # Rack 0 serves 3 of 4, rack 1 the rest: so they call the second VIP, whose DIPs move.
    info = env.unwrapped.session.info(0, 0)
    assert info["candidates"]["rack"].tolist() == [0, 1]
    assert info["candidates"]["bps"].tolist() == [1.5e9, 0.5e9]
    _, _, over, _, info = env.step(0)
    assert not over and info["metrics"]["moved_share"] == pytest.approx(1 / 6)
    _, reward, over, _, info = env.step(0)
    assert over and info["metrics"]["local_share"] == pytest.approx(5 / 6)
    assert reward == pytest.approx(0.5 / 6 - 0.5 * info["metrics"]["mlu"])
    env.close()


def test_infeasible_actions_go_on_and_are_counted() -> None:
    centre = {"preset": "duet-10", "tunnel_entries": 1}
    env: Any = gym.make(ID, data_centre=centre, vips=CALLS, dips=FREE, candidates=2)
    _, info = env.reset(seed=0)
    assert info["action_mask"].tolist() == [0, 1, 1]
    _, reward, over, _, info = env.step(0)
    assert reward == pytest.approx(-0.01) and not over
    assert info["vip"]["number"] == 1 and info["metrics"]["rejected"] == 1
    assert env.unwrapped.action_masks().tolist() == info["action_mask"].astype(bool).tolist()
    env.close()


def test_it_keeps_the_contract_and_gymnasiums() -> None:
    for arguments in (SMALL, {**SMALL, "reward": ["local", "moves", "hops"]}):
        check_contract(lambda arguments=arguments: dcgym.make_env(env=ID, **arguments))
    env = dcgym.make_env(env=ID, **SMALL)
    # The largest action makes no local mapping.
    labels, seen = env.unwrapped.observation_labels, [env.reset(seed=6)[0]]
    is_over = False
    while not is_over:
        observation, _, is_over, _, _ = env.step(int(env.unwrapped.action_masks().argmax()))
        seen.append(observation)
    moved = dict[str, float]()
    for label, change in zip(labels, np.ptp(np.stack(seen), axis=0), strict=True):
        kind = label.split(".")[-1]
        moved[kind] = max(moved.get(kind, 0.0), float(change))
    assert [kind for kind, change in moved.items() if change == 0] == []
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_a_slot_of_the_vector_form_gives_what_a_single_environment_gives() -> None:
    vector = gym.make_vec(ID, 2, vectorization_mode="vector_entry_point", **SMALL)
    single: Any = gym.make(ID, **SMALL)
    observations, infos = vector.reset(seed=4)
    expected, _ = single.reset(seed=5)
    over = False
    while not over:
        np.testing.assert_array_equal(observations[1], expected)
        masks = vector.unwrapped.action_masks()  # type: ignore[attr-defined]
        np.testing.assert_array_equal(infos["action_mask"], masks)
        actions = masks.argmax(axis=1)
        observations, rewards, terminated, _, infos = vector.step(actions)
        expected, reward, over, _, info = single.step(int(actions[1]))
        assert (rewards[1], terminated[1]) == (reward, over)
        np.testing.assert_array_equal(infos["candidates"]["bps"][1], info["candidates"]["bps"])
    single.close()
    vector.close()


def test_a_copy_goes_on_as_the_original_does() -> None:
    env: Any = gym.make(ID, **SMALL)
    env.reset(seed=0)
    env.step(0)
    other = copy.deepcopy(env.unwrapped.session)
    for _ in range(3):
        env.step(0)
    for _ in range(3):
        other.advance([[0]])
    np.testing.assert_array_equal(other.observations, env.unwrapped.session.observations)
    env.close()


def test_rubik_as_a_policy_reaches_what_its_plan_says() -> None:
    env: Any = gym.make(ID, **{**SMALL, "reward": "local", "candidates": 8})
    shares = {}
    for name in ("duet", "random", "rubik-lo", "greedy", "rubik"):
        total, info = episode(env, name, 3)
        shares[name] = info["metrics"]["local_share"]
        assert total == pytest.approx(shares[name]) and info["metrics"]["rejected"] == 0
        assert info["metrics"]["moved_share"] <= 0.2
    task = env.unwrapped.task
    for name in ("rubik-lo", "rubik"):
        services = task.settings.make_services(info["seed"])
        plan = plan_rubik(task.data_centre, services, name, task.limits).outcome
        share = plan.local_bps / plan.total_bps
        # Which DIPs move is the environment's choice: some of the last moves may be missing.
        assert 0.9 * share <= shares[name] <= share * 1.02
    assert shares["duet"] == 0 < shares["rubik-lo"] < shares["rubik"]
    env.close()


def test_services_come_from_files_too(tmp_path: Path) -> None:
    path = tmp_path / "calls.csv"
    path.write_text(
        "vip,role,rack,amount\nweb,source,0,3e9\nweb,dip,0,2\nweb,dip,1,2\n"
        "store,caller,web,2e9\nstore,dip,2,2\n"
    )
    env: Any = gym.make(ID, data_centre="duet-10", vips=str(path), dips=FREE)
    _, info = env.reset(seed=0)
    assert info["vip"]["rate_bps"] == 3e9
    env.close()
    with pytest.raises(ConfigError, match="0 to 7"):
        gym.make(ID, data_centre="rubik-20", vips=VipTable.of([{8: 1.0}], [{0: 1}]))


@pytest.mark.parametrize("share", [0.01, 0.07, 0.3, 0.399, 0.4, 0.8])
def test_the_default_headroom_gives_way_to_the_load(share: float) -> None:
    limits = DipLimits(load=share)
    assert limits.headroom == pytest.approx(max(2.5, 1 / share)) and limits.load == share
    assert limits.headroom * limits.load >= 1
    assert replace(limits, moves=0.5).headroom == limits.headroom


@pytest.mark.parametrize("headroom", [1.0, 1.1, 1.25, 2.0])
def test_the_default_load_gives_way_to_the_headroom(headroom: float) -> None:
    limits = DipLimits(headroom=headroom)
    assert limits.load == pytest.approx(max(0.8, 1 / headroom)) and limits.load <= 1
    with pytest.raises(ConfigError, match=r"^headroom: value"):
        DipLimits(headroom=headroom, load=0.4)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("dips", {"move": 0.1}, "dips field: value 'move' .*did you mean 'moves'"),
        ("dips", {"moves": 3}, "moves: value 3 .* from 0.0 to 1.0"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(field: str, value: object, said: str) -> None:
    with pytest.raises(ConfigError, match=f"^{said}") as caught:
        gym.make(ID, **{field: value})
    assert "\n" not in str(caught.value)
