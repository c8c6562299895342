"""The supervised comparator of P4Wise: a network that picks one of the predefined weights.

Three hidden layers of ten nodes learn from balanced samples whether the processors alone (6:0) or
all devices (6:1) are best (Tajbakhsh, 2023, sections 6.2 and 6.5.4). It is trained once: the source
shows that it fails after a second accelerator was added.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from dcgym.config import check_int, check_positive
from dcgym.errors import ConfigError
from dcgym.policies.accelerators.p4wise import Steps
from dcgym.policies.accelerators.static import RAISE, AcceleratorView, step_towards
from dcgym.policies.base import AnyAction, BoundPolicy, FloatArray, Info, Observation, Overrides

__all__ = ["HIDDEN", "MlpPolicy", "Perceptron", "gather_samples"]

HIDDEN = (10, 10, 10)
"""Nodes of the hidden layers."""
MOST_WEIGHT = 6.0
# Adam (Kingma and Ba, 2015), with the constants that they suggest.
_BETAS, _EPSILON = (0.9, 0.999), 1e-8


class Perceptron:
    """A network of ReLU layers that tells two classes apart.

    Args:
        n_inputs: Numbers that it looks at.
        seed: Seed of the first weights and of the order of samples.
    """

    def __init__(self, n_inputs: int, seed: int = 0) -> None:
        self._generator = np.random.default_rng(seed)
        sizes = (check_int("n_inputs", n_inputs, 1), *HIDDEN, 1)
        # He's initialisation (He et al., 2015), for ReLU.
        self._weights = [
            self._generator.normal(0, np.sqrt(2 / before), (before, after))
            for before, after in itertools.pairwise(sizes)
        ]
        self._biases = [np.zeros(after) for after in sizes[1:]]

    def _forward(self, inputs: FloatArray) -> list[FloatArray]:
        """Return what each layer shows, the inputs first; the last one is not squashed."""
        shown = [inputs]
        for number, (weights, bias) in enumerate(zip(self._weights, self._biases, strict=True)):
            value = shown[-1] @ weights + bias
            is_last = number == len(self._weights) - 1
            shown.append(value if is_last else np.maximum(value, 0))
        return shown

    def probability(self, inputs: FloatArray) -> FloatArray:
        """Return how likely each row is of class 1, (n,).

        Args:
            inputs: (n, n_inputs).
        """
        found: FloatArray = 1 / (1 + np.exp(-self._forward(inputs)[-1][:, 0]))
        return found

    def _gradients(self, inputs: FloatArray, labels: FloatArray) -> list[FloatArray]:
        """Return the cross-entropy's gradients: those of the weights, then those of the biases."""
        shown = self._forward(inputs)
        error = (1 / (1 + np.exp(-shown[-1])) - labels[:, None]) / len(inputs)
        by_weights, by_biases = [], []
        for number in reversed(range(len(self._weights))):
            by_weights.append(shown[number].T @ error)
            by_biases.append(error.sum(axis=0))
            error = (error @ self._weights[number].T) * (shown[number] > 0)
        return [*reversed(by_weights), *reversed(by_biases)]

    def fit(
        self,
        inputs: npt.ArrayLike,
        labels: npt.ArrayLike,
        epochs: int = 200,
        batch: int = 32,
        rate: float = 0.01,
    ) -> float:
        """Learn from samples; return the share of them that it then gets right.

        Args:
            inputs: (n, n_inputs).
            labels: Class of each, 0 or 1.
            epochs: How often it sees every sample.
            batch: Samples that a step looks at.
            rate: Learning rate of Adam.

        Raises:
            ConfigError: There are no samples, or of one class only.
        """
        rows, classes = np.asarray(inputs, np.float64), np.asarray(labels, np.float64)
        if set(np.unique(classes)) != {0.0, 1.0}:
            raise ConfigError("labels", np.unique(classes).tolist(), "samples of both classes")
        epochs = check_int("epochs", epochs, 1)
        rate = check_positive("rate", rate)
        values = [*self._weights, *self._biases]
        moments = [(np.zeros_like(one), np.zeros_like(one)) for one in values]
        step = 0
        for _ in range(epochs):
            order = self._generator.permutation(len(rows))
            for first in range(0, len(rows), batch):
                step += 1
                chosen = order[first : first + batch]
                gradients = self._gradients(rows[chosen], classes[chosen])
                for value, gradient, (mean, square) in zip(values, gradients, moments, strict=True):
                    mean += (1 - _BETAS[0]) * (gradient - mean)
                    square += (1 - _BETAS[1]) * (gradient**2 - square)
                    scaled = np.sqrt(square / (1 - _BETAS[1] ** step)) + _EPSILON
                    value -= rate * mean / (1 - _BETAS[0] ** step) / scaled
        return float(((self.probability(rows) > 0.5) == (classes > 0.5)).mean())


class MlpPolicy(BoundPolicy[AcceleratorView]):
    """Goes to the weights that a trained network calls the best: 6:0 or 6:1.

    Attributes:
        network: Looks at the utilisation of each device position, then at its weight over 6.
    """

    name = "mlp"

    def __init__(self, positions: int = 3, seed: int = 0) -> None:
        """Begin with an untrained network.

        Args:
            positions: Device positions that the network has inputs for; 0 where a pool has fewer.
            seed: Seed of the network.
        """
        super().__init__()
        self._positions = check_int("positions", positions, 2)
        self.network = Perceptron(2 * positions, seed)

    def env_overrides(self) -> Overrides:
        """Ask for a ring, and steps of the accelerators' weights from 6:0 on."""
        return {"device_rule": "wrr", "action": "step", "weights": (6, 0)}

    def inputs_of(self, info: Info) -> FloatArray:
        """Return what the network sees of a state, (2 * positions,).

        Args:
            info: What `reset` or `step` returned, in full.

        Raises:
            ConfigError: The pool has more device positions than the network inputs.
        """
        return inputs_of(info, self._positions)

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return the step towards the weights that it calls the best.

        Args:
            observation: Not looked at.
            info: What `reset` or `step` returned last, in full.
        """
        likely = self.network.probability(self.inputs_of(info)[None])[0]
        return step_towards(info["weights"], int(likely > 0.5))


def inputs_of(info: Info, positions: int) -> FloatArray:
    """Return utilisations, then weights over 6, of so many device positions.

    Args:
        info: What `reset` or `step` returned, in full.
        positions: How many; 0 where the pool has fewer.

    Raises:
        ConfigError: The pool has more.
    """
    utilisation = np.asarray(info["utilisation"], np.float64)
    if len(utilisation) > positions:
        raise ConfigError("positions", positions, f"{len(utilisation)} or more, as the pool has")
    found = np.zeros((2, positions))
    found[0, : len(utilisation)] = utilisation
    found[1, : len(utilisation)] = np.asarray(info["weights"]) / MOST_WEIGHT
    return found.ravel()


def gather_samples(
    env: Steps, per_class: int, positions: int = 3, seed: int = 0
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Return balanced samples: states under 6:0 and under 6:1, and whether 6:1 is the better one.

    Args:
        env: Made with `MlpPolicy.env_overrides`, ``oracle=True``, ``is_terminal=False`` and infos
            in full; it draws a rate for each episode.
        per_class: Samples of each of the two classes.
        positions: Device positions that are seen.
        seed: Seed of the first episode.

    Returns:
        Inputs, (2 * per_class, 2 * positions), and labels, (2 * per_class,).
    """
    per_class = check_int("per_class", per_class, 1)
    kept: dict[bool, list[FloatArray]] = {False: [], True: []}
    first: int | None = seed
    while min(map(len, kept.values())) < per_class:
        _, info = env.reset(seed=first)
        first = None
        kind = bool(info["best_weights"] > 0)
        alone = inputs_of(info, positions)
        _, _, _, _, info = env.step(np.asarray(RAISE, np.int64))
        if len(kept[kind]) < per_class:
            kept[kind] += [alone, inputs_of(info, positions)]
    chosen = [*kept[False][:per_class], *kept[True][:per_class]]
    return np.array(chosen), np.repeat([False, True], per_class)
