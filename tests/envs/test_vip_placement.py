"""VIP placement: every form of the environment, its masks, its classic policies."""

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
from dcgym.errors import ConfigError
from dcgym.policies import make_policy, policy_names
from dcgym.suites import run_suite
from dcgym.suites.duet import duet
from dcgym.tasks.placement.observation import COMMON, ROWS
from dcgym.tasks.placement.view import AssignmentRule
from dcgym.testing import check_contract, check_no_dead_feature
from dcgym.traffic.vips import SyntheticVips, VipTable, write_vips

pytestmark = pytest.mark.simulation

ID = "dcgym/VipPlacement-v0"
VECTOR = {"vectorization_mode": "vector_entry_point"}
SMALL: dict[str, Any] = {
    "data_centre": {"preset": "rubik-20", "tunnel_entries": 8},
    "vips": {"vips": 40, "total": "45Gbit"},
}
# Rack 0 sends 4 Gbit/s to rack 3, and rack 2 sends 1 Gbit/s to rack 1, in two containers.
TWO = VipTable.of([{0: 4e9}, {2: 1e9}], [{3: 1}, {1: 3}])


def episode(env: gym.Env[Any, Any], policy: str, seed: int) -> tuple[float, dict[str, Any]]:
    """Run an episode; returns the sum of its rewards and the last info."""
    acts = make_policy(policy, env)
    observation, info = env.reset(seed=seed)
    total, is_over = 0.0, False
    while not is_over:
        observation, reward, is_over, _, info = env.step(acts.act(observation, info))
        total += float(reward)
    return total, info


def test_a_hand_worked_placement() -> None:
    """Of 10 Gbit/s less a fifth: 4 Gbit/s over two links are a quarter, over one a half."""
    env = gym.make(ID, data_centre="duet-10", vips=TWO, candidates=None)
    observation, info = env.reset(seed=0)
    assert env.action_space == gym.spaces.Discrete(11)
    assert observation.shape == (11 * len(ROWS) + len(COMMON),)
    assert info["vip"] == {"number": 0, "rank": 0, "rate_bps": 4e9, "dips": 1}
    # On a rack traffic spreads over two aggregation switches, on one of these it does not.
    assert info["candidates"]["link"] == pytest.approx([0.25] * 4 + [0.5] * 6)
    assert info["candidates"]["hops"] == pytest.approx([4, 6, 6, 4, 4, 4, 4, 4, 4, 4])
    row = dict(zip(ROWS, observation[: len(ROWS)], strict=True))
    assert (row["is_rack"], row["own_sources"], row["own_dips"]) == (1, 1, 0)
    assert row["hops"] == pytest.approx(0.5) and row["link"] == pytest.approx(0.125)
    observation, reward, over, _, info = env.step(0)
    # Four fifths of the bytes, and an MRU of a quarter.
    assert reward == pytest.approx(0.8 - 0.1 * 0.25) and not over
    assert info["metrics"]["switch_share"] == pytest.approx(0.8)
    assert info["vip"] == {"number": 1, "rank": 1, "rate_bps": 1e9, "dips": 3}
    observation, reward, over, _, info = env.step(10)
    assert (reward, over) == (0, True)
    assert info["metrics"]["placed"] == 1 and info["metrics"]["rejected"] == 0
    assert env.unwrapped.flow_records()["switch"].tolist() == [0, -1]  # type: ignore[attr-defined]
    env.close()


def test_infeasible_actions_go_to_the_muxes_and_are_counted() -> None:
    centre = {"preset": "duet-10", "tunnel_entries": 2}
    env = gym.make(ID, data_centre=centre, vips=TWO, candidates=None)
    env.reset(seed=0)
    _, _, _, _, info = env.step(0)
    # Three DIPs fit on no switch.
    assert info["action_mask"].tolist() == [0] * 10 + [1]
    mask = env.unwrapped.action_masks()  # type: ignore[attr-defined]
    assert mask.dtype == np.bool_ and mask.tolist() == [False] * 10 + [True]
    _, reward, over, _, info = env.step(4)
    assert over and reward == pytest.approx(-0.01) and info["metrics"]["rejected"] == 1
    assert info["metrics"]["placed"] == 1
    env.close()


def test_full_host_tables_end_the_episode() -> None:
    centre = {"preset": "rubik-20", "host_entries": 5}
    env = gym.make(ID, data_centre=centre, vips={"vips": 40, "total": "1Gbit"})
    env.reset(seed=0)
    steps = 0
    over = False
    while not over:
        _, _, over, _, info = env.step(0)
        steps += 1
    assert steps == 5 and info["metrics"]["placed"] == 5
    env.close()


def test_it_keeps_the_contract_and_gymnasiums() -> None:
    for arguments in (SMALL, {**SMALL, "candidates": None}, {**SMALL, "reward": "hops"}):
        check_contract(lambda arguments=arguments: dcgym.make_env(env=ID, **arguments))
    # VIPs of which some fit nowhere.
    env = dcgym.make_env(env=ID, **{**SMALL, "vips": {"vips": 40, "total": "150Gbit"}})
    check_no_dead_feature(env, 30)
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_a_slot_of_the_vector_form_gives_what_a_single_environment_gives() -> None:
    vector = gym.make_vec(ID, 3, **VECTOR, **SMALL)
    single = gym.make(ID, **SMALL)
    observations, infos = vector.reset(seed=4)
    expected, _ = single.reset(seed=5)
    np.testing.assert_array_equal(observations[1], expected)
    over = False
    while not over:
        masks = vector.unwrapped.action_masks()  # type: ignore[attr-defined]
        np.testing.assert_array_equal(masks[1], single.unwrapped.action_masks())  # type: ignore[attr-defined]
        np.testing.assert_array_equal(infos["action_mask"], masks)
        actions = masks.argmax(axis=1)
        observations, rewards, terminated, _, infos = vector.step(actions)
        expected, reward, over, _, info = single.step(int(actions[1]))
        np.testing.assert_array_equal(observations[1], expected)
        assert (rewards[1], terminated[1]) == (reward, over)
        for name, value in info["candidates"].items():
            np.testing.assert_array_equal(infos["candidates"][name][1], value)
    single.close()
    vector.close()


def test_masks_where_sizes_are_drawn_and_where_there_are_none() -> None:
    randomise = {"vips.total": {"uniform": [20, 50], "unit": "Gbit"}}
    env = gym.make(ID, **SMALL, randomise=randomise)
    _, info = env.reset(seed=0)
    inner: Any = env.unwrapped
    np.testing.assert_array_equal(inner.action_masks(), info["action_mask"].astype(bool))
    env.close()
    other: Any = gym.make("dcgym/LoadBalancing-v1")
    with pytest.raises(AttributeError, match="feasible at any time"):
        other.unwrapped.action_masks()
    assert not other.has_wrapper_attr("action_masks")
    other.close()


def test_a_copy_goes_on_as_the_original_does() -> None:
    env: Any = gym.make(ID, **SMALL)
    env.reset(seed=0)
    for _ in range(10):
        env.step(0)
    other = copy.deepcopy(env.unwrapped.session)
    for _ in range(5):
        env.step(1)
    first = env.unwrapped.session.observations.copy()
    for _ in range(5):
        other.advance([[1]])
    np.testing.assert_array_equal(other.observations, first)
    env.close()


def test_classic_policies_place_what_the_native_assignment_places() -> None:
    env: Any = gym.make(ID, **SMALL)
    rules = {
        "duet": AssignmentRule(),
        "duet-skip": AssignmentRule(stops=False),
        "first-feasible": AssignmentRule("first-feasible", stops=False),
    }
    shares = {}
    for name, rule in rules.items():
        shares[name] = episode(env, name, 3)[1]["metrics"]["switch_share"]
        own = env.unwrapped.system.binding.episode(0)
        model = env.unwrapped.backend.model
        usage = model.usage(0)
        model.reset(0, own.table)
        model.assign(0, replace(rule, seed=own.seed))
        assert model.usage(0) == usage, name
    assert shares["duet-skip"] >= shares["duet"]
    for name in policy_names("placement")[:6]:
        _, info = episode(env, name, 3)
        assert info["metrics"]["rejected"] == 0, name
        assert (info["metrics"]["switch_share"] == 0) == (name == "muxes")
    env.close()


def test_traces_come_from_files_and_the_seed_says_where_they_begin(tmp_path: Path) -> None:
    tables = SyntheticVips(10, 8, 5e9, 40, 8).draw(0, epochs=3)
    write_vips(tmp_path / "trace.csv", tables)
    env = gym.make(ID, data_centre="rubik-20", vips=str(tmp_path / "trace.csv"))
    found = set()
    for seed in range(20):
        _, info = env.reset(seed=seed)
        found.add(round(info["vip"]["rate_bps"]))
    assert found == {round(table.bps.max()) for table in tables}
    env.close()
    with pytest.raises(ConfigError, match="0 to 3"):
        gym.make(ID, data_centre="duet-10", vips=str(tmp_path / "trace.csv"))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("data_centre", "duett", "data_centre: value 'duett' .*did you mean 'duet'"),
        (
            "data_centre",
            {"preset": "duet", "reserve": 1.5},
            "data_centre.reserve: value 1.5 .*0.99",
        ),
        ("vips", {"vip": 3}, "vips field: value 'vip' .*did you mean 'vips'"),
        ("vips", {"vips": 0}, "vips.vips: value 0 .* from 1 to 10000000"),
        ("vips", 3, "vips: value 3 .* a mapping"),
        ("interval", "1s", "interval: value '1s' .* None: a step is a VIP"),
        ("backend", "emulation", "backend: value 'emulation' .* simulation"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(field: str, value: object, said: str) -> None:
    with pytest.raises(ConfigError, match=f"^{said}") as caught:
        gym.make(ID, **{field: value})
    assert "\n" not in str(caught.value)


def test_a_place_that_is_not_there_is_refused() -> None:
    env = gym.make(ID, **SMALL)
    env.reset(seed=0)
    with pytest.raises(ConfigError, match=r"^action: value 17 .*whole number"):
        env.step(17)
    env.close()


def test_the_suite_finds_the_published_shapes_in_small(tmp_path: Path) -> None:
    suite = duet()
    policies = ("muxes", "duet", "fewest-hops")
    suite = replace(suite, cases=suite.cases[-1:], shapes=(), policies=policies, seeds=1)
    top = {record["policy"]: record["metrics"] for record in run_suite(suite, tmp_path)}
    # 380 Gbit/s over muxes of 3.6 Gbit/s.
    assert top["muxes"]["muxes"] == 106 and top["muxes"]["switch_share"] == 0
    assert top["duet"]["muxes"] < 53
    assert top["duet"]["hops_closest"] < top["duet"]["hops_direct"] < top["duet"]["hops"]
    assert top["fewest-hops"]["hops"] < top["duet"]["hops"]
    # Half of the muxes' median and what is left of the round trip alone.
    assert 391 <= top["duet"]["latency_us_p50"] < 400 < top["muxes"]["latency_us_p50"]


@pytest.mark.learning
def test_rllib_gets_the_mask_beside_the_observation() -> None:
    pytest.importorskip("ray.rllib")
    from dcgym.envs.rllib import rllib_env

    env = rllib_env({"env": ID, "vips": {"vips": 40, "total": "40Gbit"}, "masks": True})
    plain: Any = gym.make(ID, vips={"vips": 40, "total": "40Gbit"})
    observation, _ = env.reset(seed=5)
    expected, info = plain.reset(seed=5)
    for _ in range(40):
        assert env.observation_space.contains(observation)
        assert np.array_equal(observation["observations"], expected)
        assert np.array_equal(observation["action_mask"], info["action_mask"])
        action = int(np.flatnonzero(info["action_mask"])[0])
        observation, *_ = env.step(action)
        expected, _, terminated, _, info = plain.step(action)
        if terminated:
            break
    env.close()
    plain.close()
    with pytest.raises(ConfigError, match="masks"):
        rllib_env({"env": "LoadBalancing-v1", "masks": True})
