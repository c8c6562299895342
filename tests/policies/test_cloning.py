"""Trainings that start from a classic policy, and policies that rows of several draws share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dcgym
from dcgym.errors import ConfigError
from dcgym.policies import TrainingOptions, find_learner, load_policy
from dcgym.policies.learned.actor import Actor, Linear
from dcgym.policies.learned.cloning import Demonstrations, demonstrate
from dcgym.policies.learned.environments import training_form
from dcgym.policies.learned.plain.cma_es import merits_of
from dcgym.policies.learned.plain.small import SmallPolicy
from dcgym.policies.learned.view import View
from dcgym.tasks.common.rows import RowLayout, row_inputs, rows_of

POOL = {"env": "LoadBalancing-v1", "scenario": "testbed-7", "max_steps": 6, "lead_in": 0}
UNEQUAL = {**POOL, "scenario": {"preset": "two-speeds", "servers": 4, "ratio": 4}}
DRAWN = {
    **POOL,
    "scenario": {"preset": "two-speeds"},
    "randomise": {"scenario.servers": {"choice": [4, 6]}},
}


def test_rows_that_stand_for_nothing_count_in_no_mean() -> None:
    layout = RowLayout(3, 2, 1, is_padded=True)
    # Rows (1, 2), (0, 0) and (3, 4); what is common; the last actions.
    shown = np.array([1, 2, 0, 0, 3, 4, 9, 0.5, 0.7, -0.5], np.float32)
    seen = rows_of(shown, layout)
    np.testing.assert_allclose(seen[0], [1, 2, 0.5, 2, 3, 0, 9], atol=1e-7)
    plain = rows_of(shown, replace(layout, is_padded=False))
    np.testing.assert_allclose(plain[0, 3:6], [4 / 3, 2, 0.7 / 3], rtol=1e-6)


@pytest.mark.learning
def test_the_network_of_torch_sees_the_same_of_padded_rows() -> None:
    torch = pytest.importorskip("torch")
    from dcgym.policies.learned.export import export_actor
    from dcgym.policies.learned.row_network import RowNetwork

    layout = RowLayout(4, 3, 2, is_padded=True)
    torch.manual_seed(0)
    network = RowNetwork(layout)
    with torch.no_grad():
        network.rows[-1].weight.mul_(50)
    space = dcgym.make_env(POOL).action_space.__class__(-1.0, 1.0, (4,), np.float32)
    shown = np.random.default_rng(1).random((5, layout.size), np.float32)
    shown[:, 6:9] = 0  # row 2
    actor = export_actor([network], space)
    assert actor.constants.size == 0
    with torch.no_grad():
        wanted = network(torch.as_tensor(shown)).numpy().clip(-1, 1)
    np.testing.assert_allclose([actor.act(one) for one in shown], wanted, atol=1e-6)


def test_a_small_pool_acts_as_its_rows_do_among_padding() -> None:
    columns, rng = (2, 1), np.random.default_rng(2)
    large, small = RowLayout(5, *columns, is_padded=True), RowLayout(3, *columns)
    weight = rng.normal(size=(1, row_inputs(large))).astype("f4")
    ends = np.full(5, -1, np.float32), np.full(5, 1, np.float32)
    actor = Actor((Linear(weight, np.zeros(1, "f4")),), "none", "none", *ends, large)
    shown = rng.random(small.size).astype("f4") * 0.1 + 0.01
    padded = np.zeros(large.size, np.float32)
    padded[:6], padded[10], padded[11:14] = shown[:6], shown[6], shown[7:]
    np.testing.assert_allclose(actor.resized(small).act(shown), actor.act(padded)[:3], atol=1e-6)


def test_each_episode_counts_alike_and_one_alone_as_it_is() -> None:
    np.testing.assert_array_equal(merits_of(np.array([[3.0, 1.0]])), [3.0, 1.0])
    # By two deviations of 1 and one of 100; where all are alike, nobody is better.
    earned = np.array([[1.0, -1.0], [-100.0, 100.0], [1.0, -1.0], [5.0, 5.0]])
    np.testing.assert_allclose(merits_of(earned), [0.25, -0.25])


@pytest.mark.parametrize("hidden", [0, 12])
def test_least_squares_find_a_policy_that_can_be_found(hidden: int) -> None:
    layout, rng = RowLayout(4, 2, 1), np.random.default_rng(0)
    view = View(layout.size, layout)
    space = dcgym.make_env(POOL).action_space.__class__(-1.0, 1.0, (4,), np.float32)
    policy = SmallPolicy(view, space, hidden)
    assert policy.size == (hidden * 8 + hidden + 1 if hidden else 8)
    shown = rng.random((400, layout.size)).astype("f4")
    seen = rows_of(shown, layout)
    wanted = (0.4 * seen[..., 0] - 0.2 * seen[..., 1] + 0.1).astype("f4")
    wanted[::2, 3] = np.nan  # where a smaller draw has no such row
    found = policy.fitted(Demonstrations(shown, wanted), 0)
    answers = policy.act(np.tile(found, (len(shown), 1)), shown)
    error = np.nanmean((answers - wanted) ** 2)
    assert error < (1e-3 if hidden else 1e-9)
    np.testing.assert_allclose(policy.actor(found).act(shown[0]), answers[0], atol=1e-5)


@pytest.mark.simulation
def test_a_clone_of_sed_sets_the_configured_weights(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    learner = find_learner("cma-es")
    options = TrainingOptions(
        settings={"population": 4, "sigma": 1e-6, "hidden": 3}, clone_from="hlb"
    )
    folder = learner.train(UNEQUAL, 24, 0, tmp_path / "run", n_envs=4, options=options)
    shown = demonstrate(UNEQUAL, training_form(UNEQUAL, 1), None, "hlb", 0)
    actor = load_policy(folder).actor  # type: ignore[attr-defined]
    answers = np.stack([actor.act(one) for one in shown.shown])
    assert np.square(answers - shown.actions).mean() < np.var(shown.actions)


@pytest.mark.simulation
def test_draws_of_several_sizes_give_one_policy_for_any(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    options = TrainingOptions(settings={"population": 4, "episodes": 2}, clone_from="hlb")
    folder = find_learner("cma-es").train(DRAWN, 48, 0, tmp_path, n_envs=4, options=options)
    for n in (4, 10):
        pool = {**POOL, "scenario": {"preset": "two-speeds", "servers": n}}
        env = dcgym.make_env(pool)
        observation, info = env.reset(seed=0)
        assert load_policy(folder, env).act(observation, info).shape == (n,)
        env.close()


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("name", "config", "words"),
    [
        ("lsq", POOL, "asks for rule"),
        ("cubic", POOL, "policy"),
        ("sed", {**POOL, "action": "discrete"}, "actions"),
    ],
)
def test_what_cannot_be_cloned_is_one_line(name: str, config: dict, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        demonstrate(config, training_form(config, 1), None, name, 0)


def test_learners_without_a_start_refuse_one(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    options = TrainingOptions(clone_from="sed")
    with pytest.raises(ConfigError, match="none with ppo of rllib"):
        find_learner("ppo").train(POOL, 10, 0, tmp_path / "run", options=options)
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def shown_by_sed() -> Demonstrations:
    return demonstrate(UNEQUAL, training_form(UNEQUAL, 1), None, "sed", 0)


@pytest.mark.learning
@pytest.mark.simulation
@pytest.mark.parametrize("name", ["ddpg", "sac", "ppo"])
def test_networks_of_sb3_begin_with_what_was_shown(
    name: str, shown_by_sed: Demonstrations, tmp_path: Path
) -> None:
    pytest.importorskip("stable_baselines3")
    from dcgym.policies.checkpoint import CheckpointNote
    from dcgym.policies.learned.actor_files import load_actor
    from dcgym.policies.learned.sb3.algorithms import open_sb3
    from dcgym.policies.learned.training import TrainingJob

    with open_sb3(name, TrainingJob(UNEQUAL, 0, 1, demonstrations=shown_by_sed)) as trainee:
        details = trainee.save(tmp_path)
    actor = load_actor(tmp_path, CheckpointNote(name, "sb3", details=details)).actor
    # Weights are constant: 8 ** a is as the speeds, 1 to 4.
    answers = np.stack([actor.act(one) for one in shown_by_sed.shown])
    assert np.median(np.abs(answers - shown_by_sed.actions).max(axis=1)) < 0.05
