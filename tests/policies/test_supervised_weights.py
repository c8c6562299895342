"""The supervised comparator of P4Wise: gradients by differences, a boundary that it can learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.policies.accelerators import MlpPolicy, Perceptron, gather_samples


def cross_entropy(network: Perceptron, inputs: Any, labels: Any) -> float:
    likely = network.probability(inputs)
    return float(-np.mean(labels * np.log(likely) + (1 - labels) * np.log(1 - likely)))


def test_gradients_are_those_of_finite_differences() -> None:
    network, draw = Perceptron(4, seed=1), np.random.default_rng(2)
    inputs, labels = draw.normal(size=(16, 4)), draw.integers(0, 2, 16).astype(float)
    values = [*network._weights, *network._biases]
    for value, gradient in zip(values, network._gradients(inputs, labels), strict=True):
        at = (0,) * value.ndim
        kept, step = value[at], 1e-6
        value[at] = kept + step
        above = cross_entropy(network, inputs, labels)
        value[at] = kept - step
        below = cross_entropy(network, inputs, labels)
        value[at] = kept
        assert gradient[at] == pytest.approx((above - below) / (2 * step), abs=1e-6)
    assert sum(one.size for one in values) == 4 * 10 + 10 + 2 * (100 + 10) + 10 + 1


def test_a_boundary_is_learned() -> None:
    # 6:0 or 6:1 by the load, which the processors show in two ways: x alone, 6/7 x with one NIC.
    draw = np.random.default_rng(3)
    load, uses = draw.uniform(0.3, 0.95, 400), draw.integers(0, 2, 400)
    inputs = np.column_stack([load * np.where(uses, 6 / 7, 1), uses * load, uses / 6])
    network = Perceptron(3, seed=4)
    assert network.fit(inputs, load > 0.57) > 0.97
    again = Perceptron(3, seed=4)
    again.fit(inputs, load > 0.57)
    assert np.array_equal(network.probability(inputs), again.probability(inputs))


class Loads:
    """An environment whose processors are as busy as the drawn load, under whatever weights."""

    def __init__(self) -> None:
        self._draw = np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._draw = np.random.default_rng(seed)
        self.load, self.level = self._draw.uniform(0, 1), 0
        return None, self._info()

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.level += int(action) - 1
        return None, 0.0, False, False, self._info()

    def _info(self) -> dict[str, Any]:
        return {
            "utilisation": np.array([self.load, 0.1 * self.level]),
            "weights": np.array([6.0, self.level]),
            "best_weights": 3 * (self.load > 0.8),
        }


def test_samples_are_balanced_and_of_both_weights() -> None:
    inputs, labels = gather_samples(Loads(), 20, seed=5)
    assert inputs.shape == (40, 6) and labels.sum() == 20
    # Each load under 6:0 and 6:1, the missing third position always 0.
    assert inputs[:, 4].tolist() == [0, 1 / 6] * 20
    assert ((inputs[:, 0] > 0.8) == labels).all() and not inputs[:, [2, 5]].any()


def test_the_policy_steps_to_what_the_network_says() -> None:
    policy, env = MlpPolicy(seed=6), Loads()
    policy.network.fit(*gather_samples(env, 60, seed=7), epochs=100)
    for load, level in ((0.3, 0), (0.95, 1)):
        env.reset(seed=1)
        env.load = load
        for _ in range(3):
            _, _, _, _, info = env.step(policy.act(None, env._info()))
        assert info["weights"].tolist() == [6, level]


def test_what_it_cannot_learn_or_see_is_refused() -> None:
    with pytest.raises(ConfigError, match="labels"):
        Perceptron(2).fit(np.zeros((4, 2)), np.zeros(4))
    crowded = {"utilisation": np.zeros(4), "weights": np.ones(4)}
    with pytest.raises(ConfigError, match="positions"):
        MlpPolicy(positions=3).act(None, crowded)
