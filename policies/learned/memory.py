"""Networks with a memory, in NumPy: what acts as PyTorch's layers of the same name do.

The last axis is the input; any axes before it, such as the rows of an observation, have a memory of
their own each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError

__all__ = ["MEMORIES", "Array", "Gru", "Lstm", "Memory", "MemoryState"]

Array = npt.NDArray[np.float32]
MemoryState: TypeAlias = tuple[Array, ...]
"""What is remembered; the first array is the output."""


@dataclass(frozen=True, eq=False)
class Memory:
    """A recurrent layer.

    Attributes:
        inputs: Weights of what is shown, (gates * H, inputs).
        hidden: Weights of the last output, (gates * H, H).
        bias: Shape (gates * H,).
        gates: Number of gates.
        arrays: Number of arrays of its state.
        parts: Names of its weights.
    """

    gates: ClassVar[int]
    arrays: ClassVar[int]
    parts: ClassVar[tuple[str, ...]]

    inputs: Array
    hidden: Array
    bias: Array

    def __post_init__(self) -> None:
        """Check that the parts fit.

        Raises:
            ConfigError: They do not.
        """
        n = self.hidden.shape[-1]
        fits = self.inputs.ndim == self.hidden.ndim == 2 and n > 0 and self.inputs.shape[-1] > 0
        lengths = [getattr(self, part).shape[:1] for part in self.parts]
        if not fits or any(one != (self.gates * n,) for one in lengths):
            allowed = f"{self.gates} gates of one size"
            raise ConfigError(self.name, f"shape {self.inputs.shape}", allowed)

    @property
    def name(self) -> str:
        """The name that files have for it."""
        return next(name for name, kind in MEMORIES.items() if type(self) is kind)

    @property
    def size(self) -> int:
        """Length of its output."""
        return int(self.hidden.shape[1])

    @property
    def input_size(self) -> int:
        """Length of what it is shown."""
        return int(self.inputs.shape[1])

    def begin(self, *axes: int) -> MemoryState:
        """Return the state at the start of an episode.

        Args:
            *axes: Lengths of the axes before the last one.
        """
        return tuple(np.zeros((*axes, self.size), np.float32) for _ in range(self.arrays))

    def step(self, shown: Array, state: MemoryState) -> MemoryState:
        """Return the state after one more observation.

        Args:
            shown: What is shown of it.
            state: The state before.
        """
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Lstm(Memory):
    """Long short-term memory, its gates in PyTorch's order: input, forget, cell, output."""

    gates = 4
    arrays = 2
    parts = ("inputs", "hidden", "bias")

    def step(self, shown: Array, state: MemoryState) -> MemoryState:
        """Return output and cell after one more observation.

        Args:
            shown: What is shown of it.
            state: Output and cell before.
        """
        gates = shown @ self.inputs.T + state[0] @ self.hidden.T + self.bias
        enters, stays, content, leaves = np.split(gates, 4, axis=-1)
        cell = _sigmoid(stays) * state[1] + _sigmoid(enters) * np.tanh(content)
        return _sigmoid(leaves) * np.tanh(cell), cell


@dataclass(frozen=True, eq=False)
class Gru(Memory):
    """Gated recurrent unit, its gates in PyTorch's order: reset, update, new.

    Attributes:
        hidden_bias: Of the weighted last output; the reset gate scales the new gate's part of it.
    """

    gates = 3
    arrays = 1
    parts = ("inputs", "hidden", "bias", "hidden_bias")

    hidden_bias: Array

    def step(self, shown: Array, state: MemoryState) -> MemoryState:
        """Return the output after one more observation.

        Args:
            shown: What is shown of it.
            state: The output before.
        """
        seen = np.split(shown @ self.inputs.T + self.bias, 3, axis=-1)
        kept = np.split(state[0] @ self.hidden.T + self.hidden_bias, 3, axis=-1)
        reset, update = (
            _sigmoid(one + other) for one, other in zip(seen[:2], kept[:2], strict=True)
        )
        new = np.tanh(seen[2] + reset * kept[2])
        output: Array = (np.float32(1) - update) * new + update * state[0]
        return (output,)


MEMORIES: Mapping[str, type[Memory]] = MappingProxyType({"lstm": Lstm, "gru": Gru})
"""The layers by the name that files have for them."""


def _sigmoid(values: Array) -> Array:
    # By tanh, which does not overflow.
    opened: Array = (np.tanh(values / 2) + np.float32(1)) / np.float32(2)
    return opened
