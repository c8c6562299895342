"""The state of a model: networks, optimisers, counters and replay; read without unpickling.

Episodes begin anew where a training goes on, because environments have no state to store. A
training that was killed has no replay buffer, which is written at its end: it is filled again
before learning goes on.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from dcgym.containers import check_tensors, open_archive
from dcgym.errors import ConfigError
from dcgym.reading import Kind, open_regular

__all__ = ["restore_state", "save_state"]

MODEL_FILE = "model.pt"
REPLAY_FILE = "replay.safetensors"
# Only the rows that fit a buffer are read.
REPLAY = Kind(10**12)
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
        buffer = model.replay_buffer
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
        with open_archive(folder / MODEL_FILE, "resume") as file:
            content = torch.load(file, map_location="cpu", weights_only=True)
        model.set_parameters(content["parameters"], exact_match=True, device="cpu")
        for name, tensor in content["variables"].items():
            getattr(model, name).data.copy_(tensor)
        model.num_timesteps = int(content["num_timesteps"])
        model._n_updates = int(content["n_updates"])
        if isinstance(model, OffPolicyAlgorithm):
            _restore_replay(model, folder / REPLAY_FILE)
    except ConfigError:
        raise
    except Exception as error:
        # Whatever torch's reader and the library raise for what is no state of theirs.
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        allowed = f"a state of this algorithm, whole and with the same networks ({reason})"
        raise ConfigError("resume", str(folder), allowed) from error


def _restore_replay(model: OffPolicyAlgorithm, path: Path) -> None:
    buffer = model.replay_buffer
    assert buffer is not None
    try:
        with open_regular(path, "resume", REPLAY) as file:
            check_tensors(file, path, "resume")
            n = _fill(buffer, file)
    except (OSError, SafetensorError):
        n = None
    if n is None:
        model.learning_starts += model.num_timesteps
        return
    buffer.pos, buffer.full = n % buffer.buffer_size, n == buffer.buffer_size


def _fill(buffer: ReplayBuffer, opened: BinaryIO) -> int | None:
    """Read the last rows, as many as the buffer holds; None where they are not its own."""
    # The library takes a path alone; this one leads to what was checked.
    with safe_open(f"/proc/self/fd/{opened.fileno()}", "numpy") as file:
        if {*file.keys()} != {*PARTS}:  # a file has no iterator
            return None
        stored = {part: file.get_slice(part) for part in PARTS}
        n_stored, *slots = stored["rewards"].get_shape()
        if tuple(slots) != buffer.rewards.shape[1:]:
            return None
        n = min(n_stored, buffer.buffer_size)
        for part, rows in stored.items():
            getattr(buffer, part)[:n] = rows[n_stored - n :]
    return int(n)
