"""From networks of torch to what acts without it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from dcgym.errors import DcgymError
from dcgym.policies.learned.actor import Actor, Array, Linear
from dcgym.policies.learned.bounds import InvertedGradients
from dcgym.policies.learned.row_network import RowNetwork
from dcgym.tasks.common.rows import RowLayout

__all__ = ["export_actor"]

# What acts clips its outputs in any case.
NAMES = {nn.ReLU: "relu", nn.Tanh: "tanh", InvertedGradients: "none"}


def export_actor(parts: Sequence[nn.Module], space: gym.spaces.Box) -> Actor:
    """Return networks, one after the other, as one that acts.

    Args:
        parts: Linear layers with the same activation between them; a `RowNetwork` may be the first.
        space: The actions, whose ends the outputs -1 and 1 stand for.

    Raises:
        DcgymError: The networks have another form.
    """
    leaves = [leaf for part in parts for leaf in _leaves(part)]
    rows: RowLayout | None = None
    constants: Array = np.zeros(0, np.float32)
    if isinstance(leaves[0], RowNetwork):
        rows, constants = leaves[0].layout, _array(leaves[0].constants)
        leaves[:1] = _leaves(leaves[0].rows)
    output = "none" if isinstance(leaves[-1], nn.Linear) else _name(leaves.pop())
    between = {_name(leaf) for leaf in leaves[1::2]} or {"none"}
    if len(between) > 1 or len(leaves) % 2 == 0:
        raise DcgymError("a checkpoint holds linear layers with one activation between them")
    return Actor(
        layers=tuple(_linear(leaf) for leaf in leaves[::2]),
        activation=between.pop(),
        output=output,
        low=np.asarray(space.low, np.float32),
        high=np.asarray(space.high, np.float32),
        rows=rows,
        constants=constants,
    )


def _leaves(module: nn.Module) -> Iterator[nn.Module]:
    children = list(module.children())
    if isinstance(module, RowNetwork) or not children:
        yield module
        return
    for child in children:
        yield from _leaves(child)


def _linear(module: nn.Module) -> Linear:
    if not isinstance(module, nn.Linear):
        raise DcgymError(f"a checkpoint holds no {type(module).__name__}")
    bias = _array(module.bias) if module.bias is not None else np.zeros(len(module.weight), "f4")
    return Linear(_array(module.weight), bias)


def _name(module: nn.Module) -> str:
    if type(module) not in NAMES:
        raise DcgymError(f"a checkpoint holds no {type(module).__name__}")
    return NAMES[type(module)]


def _array(tensor: torch.Tensor) -> Array:
    return tensor.detach().cpu().numpy().astype(np.float32, copy=True)
