"""From networks of torch to what acts without it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import nn

from dcgym.errors import DcgymError, TrainingError
from dcgym.policies.learned.actor import Actor, Array, Linear
from dcgym.policies.learned.bounds import InvertedGradients
from dcgym.policies.learned.flat import FlatSpace, action_bounds
from dcgym.policies.learned.memory import Gru, Lstm, Memory
from dcgym.policies.learned.row_network import RowNetwork
from dcgym.policies.learned.view import View
from dcgym.tasks.common.rows import RowLayout

__all__ = ["check_finite", "explain", "export_actor"]

# What acts clips its outputs in any case.
NAMES = {nn.ReLU: "relu", nn.Tanh: "tanh", InvertedGradients: "none"}
SKIPPED = (nn.Identity, nn.Flatten)


def export_actor(
    parts: Sequence[nn.Module],
    space: FlatSpace,
    view: View | None = None,
    *,
    output: str | None = None,
    n_outputs: int | None = None,
    rows: RowLayout | None = None,
) -> Actor:
    """Return networks, one after the other, as one that acts.

    Args:
        parts: Linear layers with the same activation between them; a `RowNetwork` or a memory of
            one layer (`torch.nn.LSTM` or `torch.nn.GRU`) may be the first.
        space: The actions; the outputs -1 and 1 stand for the ends of a Box.
        view: How observations are shown to them.
        output: What follows the last layer, where no part says so.
        n_outputs: How many outputs of the last layer count, the first ones; all if None.
        rows: Layout of an observation, where the networks are those of one row; None otherwise.

    Raises:
        TrainingError: A number of theirs is not finite.
        DcgymError: The networks have another form.
    """
    check_finite(parts)
    leaves = [leaf for part in parts for leaf in _leaves(part)]
    memory = _memory(leaves)
    layout, constants = _rows(leaves)
    if not isinstance(leaves[-1], nn.Linear):
        output = _name(leaves.pop())
    *hidden, last = [_linear(leaf) for leaf in leaves[::2]]
    last = Linear(last.weight[:n_outputs], last.bias[:n_outputs])
    low, high, choices = action_bounds(space)
    return Actor(
        layers=(*hidden, last),
        activation=_activation(leaves),
        output=output or "none",
        low=low,
        high=high,
        rows=rows or layout,
        constants=constants,
        choices=choices,
        memory=memory,
        view=view,
    )


def explain(error: ValueError, parts: Sequence[nn.Module]) -> None:
    """Say what an error of a training means where it comes from numbers that are not finite.

    Args:
        error: What a library or an environment raised.
        parts: The networks.

    Raises:
        TrainingError: It does.
    """
    check_finite(parts)
    # PyTorch's distributions begin so; a deviation overflows before its logarithm does.
    if str(error).startswith("Expected parameter"):
        raise TrainingError("the distribution of actions has numbers that are not finite")


def check_finite(parts: Sequence[nn.Module]) -> None:
    """Refuse networks that hold anything but finite numbers.

    Args:
        parts: The networks.

    Raises:
        TrainingError: They do.
    """
    for part in parts:
        for name, tensor in part.named_parameters():
            if not bool(torch.isfinite(tensor).all()):
                raise TrainingError(f"the network holds numbers that are not finite ({name})")


def _rows(leaves: list[nn.Module]) -> tuple[RowLayout | None, Array]:
    """Return layout and constants of a network over rows, and put its layers in its place."""
    first = leaves[0]
    if not isinstance(first, RowNetwork):
        return None, np.zeros(0, np.float32)
    leaves[:1] = _leaves(first.rows)
    return first.layout, _array(first.constants)


def _activation(leaves: Sequence[nn.Module]) -> str:
    """Return what stands between linear layers."""
    between = {_name(leaf) for leaf in leaves[1::2]} or {"none"}
    if len(between) > 1 or len(leaves) % 2 == 0:
        raise DcgymError("a checkpoint holds linear layers with one activation between them")
    return between.pop()


def _leaves(module: nn.Module) -> Iterator[nn.Module]:
    children = list(module.children())
    if isinstance(module, RowNetwork) or not children:
        # Containers of nothing, too: they pass on what they get.
        if not isinstance(module, SKIPPED) and type(module) is not nn.Sequential:
            yield module
        return
    for child in children:
        yield from _leaves(child)


def _linear(module: nn.Module) -> Linear:
    if not isinstance(module, nn.Linear):
        raise DcgymError(f"a checkpoint holds no {type(module).__name__}")
    bias = _array(module.bias) if module.bias is not None else np.zeros(len(module.weight), "f4")
    return Linear(_array(module.weight), bias)


def _memory(leaves: list[nn.Module]) -> Memory | None:
    """Return the memory of a network, whose layers are then those after it; None without one."""
    module = leaves[0]
    if not isinstance(module, nn.LSTM | nn.GRU):
        return None
    del leaves[0]
    if module.num_layers != 1 or module.bidirectional:
        raise DcgymError("a checkpoint holds one layer of memory at most")
    inputs, hidden, *biases = (_array(one) for one in module.parameters())
    none = np.zeros(len(inputs), np.float32)
    # PyTorch has two, or none.
    shown, kept = biases or (none, none)
    if isinstance(module, nn.GRU):
        return Gru(inputs, hidden, shown, kept)
    return Lstm(inputs, hidden, shown + kept)


def _name(module: nn.Module) -> str:
    if type(module) not in NAMES:
        raise DcgymError(f"a checkpoint holds no {type(module).__name__}")
    return NAMES[type(module)]


def _array(tensor: torch.Tensor) -> Array:
    return tensor.detach().cpu().numpy().astype(np.float32, copy=True)
