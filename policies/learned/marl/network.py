"""The network of one agent that all agents share, as a model of BenchMARL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from benchmarl.models.common import Model, ModelConfig
from benchmarl.models.gru import Gru, GruConfig
from tensordict import TensorDictBase
from torch import nn
from torchrl.data import Bounded

from dcgym.policies.learned.row_network import RowNetwork
from dcgym.tasks.common.rows import RowLayout

__all__ = ["SharedModel", "SharedModelConfig", "acting_parts", "memory_model"]


class SharedModel(Model):
    """Reads an agent's observation; over rows, one small network serves all of them."""

    def __init__(self, rows: Mapping[str, Any] | None, hidden: int, **arguments: object) -> None:
        """Build one network for the actions, and one for their deviations where there are any.

        Args:
            rows: Layout of the observation, as a mapping; None if it is read as a whole.
            hidden: Width of the two hidden layers.
            **arguments: Those of the library's model.
        """
        super().__init__(**arguments)
        layout = None if rows is None else RowLayout(**rows)
        n_inputs = sum(spec.shape[-1] for spec in self.input_spec.values(True, True))
        n_outputs = self.output_leaf_spec.shape[-1]
        self._n_inputs = n_inputs
        is_continuous = isinstance(self.action_spec[self.agent_group, "action"], Bounded)
        n_actions = self.action_spec[self.agent_group, "action"].shape[-1]
        if not is_continuous:
            n_actions = n_outputs
        self.mean = _network(layout, n_inputs, n_actions, hidden)
        self.deviation = None
        if n_outputs == 2 * n_actions:
            self.deviation = _network(layout, n_inputs, n_actions, hidden)
        self.to(self.device)

    def _forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        seen = torch.cat([tensordict.get(key) for key in self.in_keys], dim=-1)
        flat = seen.reshape(-1, self._n_inputs)
        parts = [self.mean(flat)]
        if self.deviation is not None:
            parts.append(self.deviation(flat))
        values = torch.cat(parts, dim=-1)
        tensordict.set(self.out_key, values.reshape(*seen.shape[:-1], -1))
        return tensordict


@dataclass
class SharedModelConfig(ModelConfig):
    """What the model is made of.

    Attributes:
        rows: Layout of an observation; None if it is read as a whole.
        hidden: Width of the two hidden layers.
    """

    rows: RowLayout | None = None
    hidden: int = 64

    @staticmethod
    def associated_class() -> type[SharedModel]:
        """Return the class of the model."""
        return SharedModel


def memory_model(hidden: int = 64) -> GruConfig:
    """Return a network with a memory: a GRU, and a hidden layer after it.

    Args:
        hidden: Width of both.
    """
    return GruConfig(
        hidden_size=hidden,
        n_layers=1,
        bias=True,
        dropout=0.0,
        compile=False,
        mlp_num_cells=[hidden],
        mlp_layer_class=nn.Linear,
        mlp_activation_class=nn.Tanh,
    )


def acting_parts(model: SharedModel | Gru) -> list[nn.Module]:
    """Return what acts, one after the other, as modules of PyTorch.

    Args:
        model: A model of this library, or its GRU, whose weights are not in modules.
    """
    if isinstance(model, SharedModel):
        return [model.mean]
    memory = nn.GRU(model.input_features, model.hidden_size)
    # The library's own layer has a name of PyTorch's, without the number of the layer.
    own = {name.rpartition(".")[2]: one for name, one in model.gru.named_parameters()}
    memory.load_state_dict({f"{name}_l0": one.detach() for name, one in own.items()})
    layers = {name.removeprefix("params."): one for name, one in model.mlp.named_parameters()}
    widths = [one.shape for name, one in layers.items() if name.endswith("weight")]
    parts: list[nn.Module] = []
    for outputs, inputs in widths:
        parts += [nn.Linear(inputs, outputs), nn.Tanh()]
    answer = nn.Sequential(*parts[:-1])
    answer.load_state_dict({name: one.detach() for name, one in layers.items()})
    return [memory, answer]


def _network(layout: RowLayout | None, n_inputs: int, n_outputs: int, hidden: int) -> nn.Module:
    if layout is not None:
        return RowNetwork(layout, n_outputs // layout.n_rows, hidden)
    network = nn.Sequential(
        nn.Linear(n_inputs, hidden),
        nn.Tanh(),
        nn.Linear(hidden, hidden),
        nn.Tanh(),
        nn.Linear(hidden, n_outputs),
    )
    with torch.no_grad():
        # The first actions are almost 0, whatever is seen.
        for parameter in network[-1].parameters():
            parameter.mul_(0.01)
    return network
