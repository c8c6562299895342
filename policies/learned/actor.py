"""The network that acts, in NumPy: so small that no learning library is worth its import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from dcgym.config import check_in
from dcgym.errors import ConfigError
from dcgym.policies.learned.memory import Array, Memory, MemoryState
from dcgym.policies.learned.view import View
from dcgym.tasks.common.rows import RowLayout, row_inputs, rows_of

__all__ = ["ACTIVATIONS", "Actor", "Array", "Linear"]


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
    """A trained network, and the actions that it chooses among.

    Attributes:
        layers: The linear layers.
        activation: What follows each layer but the last one.
        output: What follows the last one; then -1 stands for `low`, and 1 for `high`.
        low: Least action.
        high: Largest action.
        rows: Layout of an input that is read row by row; None if it is read as a whole.
        constants: What is added to the answers of each row; empty without rows, and where the
            network is for any number of rows.
        choices: Number of choices of each part of the action, the highest output wins; empty
            where actions are continuous.
        memory: The recurrent layer before the first one, or None. Where the input is read row by
            row, each row has a memory of its own.
        view: How observations are shown; None for one at a time as it is.
        is_masked: Whether it was trained to choose among feasible actions alone.
    """

    layers: tuple[Linear, ...]
    activation: str
    output: str
    low: Array
    high: Array
    rows: RowLayout | None = None
    constants: Array = field(default_factory=lambda: np.zeros(0, np.float32))
    choices: tuple[int, ...] = ()
    memory: Memory | None = None
    view: View | None = None
    is_masked: bool = False

    def __post_init__(self) -> None:
        """Check that the parts fit.

        Raises:
            ConfigError: They do not.
        """
        check_in("activation", self.activation, ACTIVATIONS)
        check_in("output", self.output, ACTIVATIONS)
        self._check_actions()
        self._check_layers()
        if self.view is not None and self.view.shown_size != self.input_size:
            raise ConfigError("view", self.view.shown_size, f"{self.input_size} numbers")

    @property
    def input_size(self) -> int:
        """Length of what the network is shown."""
        if self.rows is not None:
            return self.rows.size
        first = self.layers[0].weight if self.memory is None else self.memory.inputs
        return int(first.shape[1])

    @property
    def observation_size(self) -> int:
        """Length of the observations."""
        return self.input_size if self.view is None else self.view.size

    @property
    def row_outputs(self) -> int:
        """Outputs of one row, or of the whole input."""
        n = sum(self.choices) if self.choices else self.low.size
        return n if self.rows is None else n // self.rows.n_rows

    def begin(self) -> MemoryState:
        """Return what is remembered at the start of an episode; nothing without a memory."""
        if self.memory is None:
            return ()
        return self.memory.begin(*(() if self.rows is None else (self.rows.n_rows,)))

    def remember(self, shown: Array, state: MemoryState) -> MemoryState:
        """Return what is remembered after one more observation; its first array is for `act`.

        Args:
            shown: What is shown of it.
            state: What was remembered before.
        """
        return state if self.memory is None else self.memory.step(self._read(shown), state)

    def act(
        self, inputs: npt.NDArray[np.float32], mask: npt.NDArray[np.bool_] | None = None
    ) -> npt.NDArray[np.generic]:
        """Return the action that the network prefers, without noise.

        Args:
            inputs: What is shown of an observation; with a memory, its output (`remember`).
            mask: Which choices are feasible, one after the other; None for all.
        """
        seen = inputs if self.memory is not None else self._read(inputs)
        values = self._run(seen.astype(np.float32, copy=False))
        if self.rows is not None:
            values = values.ravel() + (self.constants if self.constants.size else np.float32(0))
        if self.choices:
            return self._choose(values if mask is None else np.where(mask, values, -np.inf))
        unit = np.clip(ACTIVATIONS[self.output](values), -1, 1).reshape(self.low.shape)
        action = (self.low + (unit + 1) / 2 * (self.high - self.low)).astype(np.float32)
        # Rounding may step over an end.
        clipped: Array = np.clip(action, self.low, self.high)
        return clipped

    def resized(self, rows: RowLayout) -> Actor:
        """Return the same network for another number of rows.

        Args:
            rows: Layout of one observation.

        Raises:
            ConfigError: The network has constants for each row, or other columns.
        """
        mine = self.rows if self.view is None else self.view.rows
        alike = mine is not None and replace(rows, is_padded=mine.is_padded)
        if mine is None or self.constants.size or replace(mine, n_rows=rows.n_rows) != alike:
            raise ConfigError("rows", rows.n_rows, "those that the network was trained for")
        if self.view is not None and self.view.is_scaled:
            raise ConfigError("rows", rows.n_rows, "those that the scale was measured for")
        # It has learned from means of that kind.
        rows = replace(rows, is_padded=mine.is_padded)
        n, (low, high) = rows.n_rows, (self.low.flat[0], self.high.flat[0])
        one_choice = len(self.choices) == 1
        shape = () if one_choice else (n,)
        view = None if self.view is None else replace(self.view, size=rows.size, rows=rows)
        return replace(
            self,
            low=np.full(shape, low, np.float32),
            high=np.full(shape, n - 1 if one_choice else high, np.float32),
            rows=rows if view is None else view.shown_rows,
            choices=(n,) if one_choice else self.choices[:1] * (n if self.choices else 0),
            view=view,
        )

    def _read(self, shown: Array) -> Array:
        return shown if self.rows is None else rows_of(shown, self.rows)

    def _choose(self, values: Array) -> npt.NDArray[np.int64]:
        ends = np.cumsum(self.choices)[:-1]
        best = [int(np.argmax(part)) for part in np.split(values, ends)]
        return np.array(best, np.int64).reshape(self.low.shape)

    def _run(self, values: Array) -> Array:
        follow: Callable[[Array], Array] = ACTIVATIONS[self.activation]
        *hidden, last = self.layers
        for layer in hidden:
            values = follow(values @ layer.weight.T + layer.bias)
        answers: Array = values @ last.weight.T + last.bias
        return answers

    def _check_actions(self) -> None:
        ends = self.low, self.high
        if not all(end.size and np.isfinite(end).all() for end in ends):
            raise ConfigError("low and high", "empty or not finite", "finite numbers")
        if self.low.shape != self.high.shape or not (self.low < self.high).all():
            raise ConfigError("low and high", f"of {self.low.shape}", "low < high, one each")
        if self.choices and (self.high.ravel() + 1).tolist() != list(self.choices):
            raise ConfigError("choices", self.choices, "one more than high, one each")
        n = self.choices[0] if len(self.choices) == 1 else self.low.size
        if self.rows is not None and self.rows.n_rows != n:
            raise ConfigError("n_rows", self.rows.n_rows, f"{n}, as the action has")

    def _check_layers(self) -> None:
        size = None if self.rows is None else row_inputs(self.rows)
        if self.memory is not None:
            if size not in (None, self.memory.input_size):
                raise ConfigError("memory", f"{self.memory.input_size} inputs", f"{size}")
            size = self.memory.size
        for number, layer in enumerate(self.layers):
            shape = layer.weight.shape
            fits = len(shape) == 2 and 0 not in shape and layer.bias.shape == shape[:1]
            if not fits or size not in (None, shape[1]):
                raise ConfigError(f"layer {number}", f"shape {shape}", "one that fits the others")
            size = shape[0]
        constants = 0 if self.rows is None else self.rows.n_rows * self.row_outputs
        if size != self.row_outputs or self.constants.shape not in ((0,), (constants,)):
            allowed = f"{self.row_outputs} and {constants} constants"
            raise ConfigError("layers", f"{size} outputs", allowed)
        arrays = [self.constants, *(part for one in self.layers for part in (one.weight, one.bias))]
        if self.memory is not None:
            arrays += [getattr(self.memory, part) for part in self.memory.parts]
        if not all(np.isfinite(array).all() for array in arrays):
            raise ConfigError("weights", "not finite", "finite numbers")
