"""The state of a model: networks, optimisers, counters and replay; read without unpickling.

Episodes begin anew where a training goes on, because environments have no state to store. A
training that was killed has no replay buffer, which is written at its end: it is filled again
before learning goes on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from dcgym.errors import ConfigError

__all__ = ["restore_state", "save_state"]

MODEL_FILE = "model.pt"
REPLAY_FILE = "replay.safetensors"
PARTS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def save_state(model: BaseAlgorithm, folder: Path, with_replay: bool) -> None:
    """Write the state of a model.

    Args:
        model: The model.
        folder: A folder for it.
        with_replay: Whether its replay buffer is written, too.
    """
    _, variables = model._get_torch_save_params()
    content = {
        "parameters": model.get_parameters(),
        "variables": {name: getattr(model, name).detach() for name in variables},
        "num_timesteps": model.num_timesteps,
        "n_updates": getattr(model, "_n_updates", 0),
    }
    torch.save(content, folder / MODEL_FILE)
    if with_replay and isinstance(model, OffPolicyAlgorithm) and model.replay_buffer is not None:
        buffer: Any = model.replay_buffer
        n = buffer.size()
        # The oldest first, so that it fits a buffer of any size.
        order = np.roll(np.arange(n), -buffer.pos) if buffer.full else np.arange(n)
        save_file({part: getattr(buffer, part)[order] for part in PARTS}, folder / REPLAY_FILE)


def restore_state(model: BaseAlgorithm, folder: Path) -> None:
    """Bring an untrained model into a state.

    Args:
        model: The model.
        folder: What `save_state` wrote.

    Raises:
        ConfigError: The state is damaged, or of another model.
    """
    try:
        content = torch.load(folder / MODEL_FILE, map_location="cpu", weights_only=True)
        model.set_parameters(content["parameters"], exact_match=True, device="cpu")
        for name, tensor in content["variables"].items():
            getattr(model, name).data.copy_(tensor)
        model.num_timesteps = int(content["num_timesteps"])
        model._n_updates = int(content["n_updates"])
        if isinstance(model, OffPolicyAlgorithm):
            _restore_replay(model, folder / REPLAY_FILE)
    except Exception as error:
        # Whatever torch's reader and the library raise for what is no state of theirs.
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        allowed = f"a state of this algorithm, whole and with the same networks ({reason})"
        raise ConfigError("resume", str(folder), allowed) from error


def _restore_replay(model: OffPolicyAlgorithm, path: Path) -> None:
    buffer: Any = model.replay_buffer
    try:
        arrays = load_file(path)
    except (OSError, SafetensorError):
        arrays = {}
    slots = buffer.rewards.shape[1:]
    if {*arrays} != {*PARTS} or arrays["rewards"].shape[1:] != slots:
        model.learning_starts += model.num_timesteps
        return
    n = min(len(arrays["rewards"]), buffer.buffer_size)
    for part in PARTS:
        getattr(buffer, part)[:n] = arrays[part][-n:]
    buffer.pos, buffer.full = n % buffer.buffer_size, n == buffer.buffer_size
