"""Potential-based shaping: the telescoping sum, the same best policy, and learners that take it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import pytest

import dcgym
from dcgym.errors import ConfigError
from dcgym.policies import TrainingOptions, find_learner
from dcgym.policies.learned.environments import build_running_env, build_slots, training_form
from dcgym.policies.learned.shaping import ShapedEnv, Shaping, make_shaping, shaped

GAMMA = 0.9
POOL = {"env": "LoadBalancing-v1", "scenario": "testbed-7", "max_steps": 6, "lead_in": 0}


class Walk(gym.Env[npt.NDArray[np.float32], int]):
    """A walk over 0 to 5: an action steps up or down, 5 ends it and pays 1."""

    observation_space = gym.spaces.Box(0, 5, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self) -> None:
        self._at = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._at = 2
        return self._seen(), {}

    def step(self, action: int) -> Any:
        self._at = max(0, self._at + (1 if action else -1))
        is_end = self._at == 5
        return self._seen(), float(is_end), is_end, False, {}

    def _seen(self) -> npt.NDArray[np.float32]:
        return np.array([self._at], np.float32)


@pytest.mark.parametrize("actions", [(1, 1, 1), (0, 1, 0, 0, 1, 1, 1, 1, 1), (0, 0, 0, 0, 1)])
def test_returns_differ_by_the_first_potential_whatever_is_done(actions: tuple[int, ...]) -> None:
    env = ShapedEnv(Walk(), Shaping(np.array([0.7]), GAMMA))
    env.reset()
    steps = [env.step(action) for action in actions]
    paid = sum(GAMMA**t * step[1] for t, step in enumerate(steps))
    (position,), _, is_end, *_ = steps[-1]
    own = GAMMA ** (len(actions) - 1) if is_end else 0.0
    # What comes after a cut still has its potential, which the learner's estimate stands for.
    later = 0.0 if is_end else GAMMA ** len(actions) * 0.7 * float(position)
    assert paid == pytest.approx(own + later - 0.7 * 2, abs=1e-12)


def best_values(
    rewards: npt.NDArray[np.float64], moves: npt.NDArray[np.float64], ends: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Return the values of actions, (S, A), by value iteration; rewards are (S, A, S)."""
    values = np.zeros(moves.shape[:2])
    for _ in range(600):
        later = np.where(ends, 0.0, values.max(axis=1))
        values = (moves * (rewards + GAMMA * later)).sum(axis=2)
    return values


def test_the_best_policy_of_a_shaped_problem_is_the_same() -> None:
    generator = np.random.default_rng(5)
    moves = generator.dirichlet(np.ones(8), size=(8, 3))
    rewards, potential = generator.normal(size=(8, 3, 8)), generator.normal(size=8) * 10
    ends = np.arange(8) >= 6
    potential[ends] = 0.0
    paid = shaped(rewards, potential[:, None, None], potential, ends, GAMMA)
    plain, other = best_values(rewards, moves, ends), best_values(paid, moves, ends)
    # Q'(s, a) = Q(s, a) - potential(s).
    np.testing.assert_allclose(other, plain - potential[:, None], atol=1e-9)
    np.testing.assert_array_equal(other.argmax(axis=1), plain.argmax(axis=1))
    # A bonus for good states is no shaping: it changes what is best.
    bonus = best_values(rewards + potential, moves, ends)
    assert (bonus.argmax(axis=1) != plain.argmax(axis=1))[~ends].any()


@pytest.mark.simulation
def test_slots_and_one_environment_are_paid_alike_over_several_episodes() -> None:
    form = training_form(POOL, 2)
    shaping = make_shaping({"ongoing": -2}, form.labels, {"gamma": GAMMA})
    assert shaping.weights.sum() == pytest.approx(-2)
    assert np.count_nonzero(shaping.weights) == 7
    plain, paid = build_slots(POOL, form), build_slots(POOL, form, None, shaping)
    before, _ = plain.reset(seed=4)
    paid.reset(seed=4)
    begins = np.zeros(plain.num_envs, np.bool_)
    for _ in range(15):
        actions = np.zeros((plain.num_envs, 7), np.float32)
        seen, own, ended, cut, _ = plain.step(actions)
        _, rewards, *_ = paid.step(actions)
        expected = own + GAMMA * shaping.potential(seen) - shaping.potential(before)
        np.testing.assert_allclose(rewards, np.where(begins, own, expected), atol=1e-9)
        before, begins = seen, ended | cut
    plain.close()
    paid.close()


@pytest.mark.simulation
def test_one_environment_is_paid_by_what_it_observes() -> None:
    form = training_form(POOL, 1)
    shaping = make_shaping({"server3.ongoing": -1}, form.labels, {"gamma": GAMMA})
    env, plain = build_running_env(POOL, None, shaping), dcgym.make_env(POOL)
    seen, _ = env.reset(seed=2)
    plain.reset(seed=2)
    at = list(form.labels).index("server3.ongoing")
    for _ in range(4):
        before = seen
        seen, reward, *_ = env.step(np.zeros(7, np.float32))
        own = plain.step(np.zeros(7, np.float32))[1]
        assert reward == pytest.approx(own - GAMMA * float(seen[at]) + float(before[at]), abs=1e-9)
    env.close()
    plain.close()


@pytest.mark.learning
@pytest.mark.simulation
def test_a_shaped_training_goes_on_with_the_same_shaping(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    from dcgym.policies.checkpoint import read_note

    learner = find_learner("sac", "sb3")
    settings = {"gamma": 0.95, "learning_starts": 4, "batch_size": 8, "buffer_size": 100}
    options = TrainingOptions(settings=settings, shaping={"ongoing": -1})
    folder = learner.train(POOL, 24, 0, tmp_path / "run", n_envs=2, options=options)
    learner.train(POOL, 24, 0, folder, options=TrainingOptions(resume=True))
    assert read_note(folder).options["shaping"] == {"ongoing": -1}


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("sac", {"shaping": {"ongoing": -1}}, "such as gamma=0.98"),
        ("sac", {"shaping": {"ongoing": -1}, "settings": {"gamma": 2}}, "gamma"),
        ("sac", {"shaping": {"queue": -1}, "settings": {"gamma": 0.9}}, "ongoing"),
        ("sac", {"shaping": {"ongoing": "x"}, "settings": {"gamma": 0.9}}, "shaping.ongoing"),
        ("cma-es", {"shaping": {"ongoing": -1}}, "none with cma-es"),
        ("sac", {"address": "head:6379"}, "none with sac of sb3"),
        ("ppo", {"address": "head"}, "host:port"),
    ],
)
def test_what_is_no_shaping_is_one_line(
    name: str, options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        find_learner(name).train(POOL, 10, 0, tmp_path / "run", options=TrainingOptions(**options))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()
