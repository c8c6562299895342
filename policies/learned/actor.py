"""The network that acts, in NumPy: so small that no learning library is worth its import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from dcgym.config import check_in
from dcgym.errors import ConfigError
from dcgym.tasks.common.rows import RowLayout

__all__ = ["ACTIVATIONS", "Actor", "Array", "Linear"]

Array = npt.NDArray[np.float32]


def _relu(values: Array) -> Array:
    return np.maximum(values, np.float32(0))


def _tanh(values: Array) -> Array:
    return np.tanh(values)


def _same(values: Array) -> Array:
    return values


ACTIVATIONS = MappingProxyType({"none": _same, "relu": _relu, "tanh": _tanh})
"""What may follow a linear layer, by name."""


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear layer.

    Attributes:
        weight: Shape (outputs, inputs).
        bias: Shape (outputs,).
    """

    weight: Array
    bias: Array


@dataclass(frozen=True, eq=False)
class Actor:
    """A trained network, and the ends of the actions that it chooses.

    Attributes:
        layers: The linear layers.
        activation: What follows each layer but the last one.
        output: What follows the last one; then -1 stands for `low`, and 1 for `high`.
        low: Least action.
        high: Largest action.
        rows: Layout of an observation that is read row by row; None if it is read as a whole.
        constants: What is added to the answer of each row; empty without rows.
    """

    layers: tuple[Linear, ...]
    activation: str
    output: str
    low: Array
    high: Array
    rows: RowLayout | None
    constants: Array

    def __post_init__(self) -> None:
        """Check that the parts fit.

        Raises:
            ConfigError: They do not.
        """
        check_in("activation", self.activation, ACTIVATIONS)
        check_in("output", self.output, ACTIVATIONS)
        self._check_actions()
        self._check_layers()

    @property
    def observation_size(self) -> int:
        """Length of the observations."""
        return self.rows.size if self.rows is not None else self.layers[0].weight.shape[1]

    def act(self, observation: npt.NDArray[np.float32]) -> Array:
        """Return the action that the network prefers, without noise.

        Args:
            observation: An observation, flat.
        """
        inputs = observation if self.rows is None else _rows_of(observation, self.rows)
        values = self._run(inputs.astype(np.float32, copy=False))
        if self.rows is not None:
            values = values[:, 0] + self.constants
        unit = np.clip(self._follow(self.output)(values), -1, 1).reshape(self.low.shape)
        action = (self.low + (unit + 1) / 2 * (self.high - self.low)).astype(np.float32)
        # Rounding may step over an end.
        clipped: Array = np.clip(action, self.low, self.high)
        return clipped

    def _run(self, values: Array) -> Array:
        follow = self._follow(self.activation)
        *hidden, last = self.layers
        for layer in hidden:
            values = follow(values @ layer.weight.T + layer.bias)
        answers: Array = values @ last.weight.T + last.bias
        return answers

    @staticmethod
    def _follow(name: str) -> Callable[[Array], Array]:
        return ACTIVATIONS[name]

    def _check_actions(self) -> None:
        ends = self.low, self.high
        if not all(end.size and np.isfinite(end).all() for end in ends):
            raise ConfigError("low and high", "empty or not finite", "finite numbers")
        if self.low.shape != self.high.shape or not (self.low < self.high).all():
            raise ConfigError("low and high", f"of {self.low.shape}", "low < high, one each")
        if self.rows is not None and self.rows.n_rows != self.low.size:
            raise ConfigError("n_rows", self.rows.n_rows, f"{self.low.size}, as the action has")

    def _check_layers(self) -> None:
        size = None if self.rows is None else _row_inputs(self.rows)
        for number, layer in enumerate(self.layers):
            shape = layer.weight.shape
            fits = len(shape) == 2 and 0 not in shape and layer.bias.shape == shape[:1]
            if not fits or size not in (None, shape[1]):
                raise ConfigError(f"layer {number}", f"shape {shape}", "one that fits the others")
            size = shape[0]
        outputs, constants = (self.low.size, 0) if self.rows is None else (1, self.rows.n_rows)
        if size != outputs or self.constants.shape != (constants,):
            raise ConfigError("layers", f"{size} outputs", f"{outputs} and {constants} constants")
        arrays = [self.constants, *(part for one in self.layers for part in (one.weight, one.bias))]
        if not all(np.isfinite(array).all() for array in arrays):
            raise ConfigError("weights", "not finite", "finite numbers")


def _row_inputs(layout: RowLayout) -> int:
    return 2 * (layout.row_columns + layout.action_columns) + layout.common_columns


def _rows_of(observation: npt.NDArray[np.float32], layout: RowLayout) -> Array:
    """Return what the network sees of each row: it, the mean over all, and what is common."""
    n = layout.n_rows
    measured = observation[layout.measured].reshape(n, layout.row_columns)
    actions = observation[layout.actions].reshape(n, layout.action_columns)
    rows = np.concatenate([measured, actions], axis=1)
    means = np.broadcast_to(rows.mean(axis=0), rows.shape)
    common = np.broadcast_to(observation[layout.common], (n, layout.common_columns))
    return np.concatenate([rows, means, common], axis=1)
