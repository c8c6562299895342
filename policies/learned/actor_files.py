"""The files of a trained network: numbers in safetensors, the rest in JSON, nothing that runs.

Reading them never unpickles: a checkpoint of a stranger can act badly, and do no more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np

from dcgym.config import check_int, check_keys
from dcgym.errors import ConfigError, MissingDependency
from dcgym.policies.checkpoint import CheckpointNote, parse_object, write_whole
from dcgym.policies.learned.acting import ActorPolicy
from dcgym.policies.learned.actor import Actor, Array, Linear
from dcgym.tasks.common.rows import RowLayout

__all__ = [
    "ACTOR_FILE",
    "WEIGHTS_FILE",
    "load_actor",
    "require_safetensors",
    "write_actor",
]

ACTOR_FILE = "actor.json"
WEIGHTS_FILE = "actor.safetensors"
FORMAT = 1
KEYS = ("format", "layers", "activation", "output", "low", "high", "rows")
MOST_LAYERS = 64


def require_safetensors() -> None:
    """Import what reads and writes weights.

    Raises:
        MissingDependency: It is not installed.
    """
    try:
        import safetensors.numpy  # noqa: F401
    except ImportError as error:
        raise MissingDependency("safetensors", "learned") from error


def write_actor(folder: Path, actor: Actor) -> dict[str, object]:
    """Write a network into a checkpoint folder.

    Args:
        folder: The folder, which exists.
        actor: The network.

    Returns:
        What the note of the checkpoint says of the files, for `load_actor`.
    """
    from safetensors.numpy import save

    rows = None if actor.rows is None else asdict(actor.rows)
    facts = {
        "format": FORMAT,
        "layers": len(actor.layers),
        "activation": actor.activation,
        "output": actor.output,
        "low": actor.low.tolist(),
        "high": actor.high.tolist(),
        "rows": rows,
    }
    weights = {"constants": actor.constants}
    for number, layer in enumerate(actor.layers):
        weights |= {_weight(number): layer.weight, _bias(number): layer.bias}
    dense = {name: np.ascontiguousarray(array, np.float32) for name, array in weights.items()}
    contents = {
        ACTOR_FILE: (json.dumps(facts, indent=2) + "\n").encode(),
        WEIGHTS_FILE: save(dense),
    }
    for name, content in contents.items():
        write_whole(folder / name, content)
    return {"sha256": {name: _digest(content) for name, content in contents.items()}}


def load_actor(folder: Path, note: CheckpointNote) -> ActorPolicy:
    """Load the policy of a checkpoint folder; it needs NumPy alone to act.

    Args:
        folder: The folder.
        note: Its note.

    Raises:
        ConfigError: A file is missing, is not the one that the note names, or has other content.
        MissingDependency: safetensors is not installed.
    """
    require_safetensors()
    digests = note.details.get("sha256")
    if not isinstance(digests, Mapping) or not {ACTOR_FILE, WEIGHTS_FILE} <= {*digests}:
        allowed = f"one with {ACTOR_FILE} and {WEIGHTS_FILE}; train those of older versions anew"
        raise ConfigError("checkpoint", str(folder), allowed)
    facts, weights = (_read(folder, name, digests[name]) for name in (ACTOR_FILE, WEIGHTS_FILE))
    try:
        return ActorPolicy(note.algorithm, _actor(parse_object(facts), weights))
    except ValueError as error:
        allowed = f"a network of {ACTOR_FILE} and {WEIGHTS_FILE} ({error})"
        raise ConfigError("checkpoint", str(folder), allowed) from error


def _actor(facts: Mapping[str, object], weights: bytes) -> Actor:
    """Return the network that the files hold; any ValueError says what is wrong with them."""
    check_keys(facts, KEYS, ACTOR_FILE)
    if missing := [name for name in KEYS if name not in facts]:
        raise ConfigError(ACTOR_FILE, facts, f"a mapping with {missing[0]}")
    check_int("format", facts["format"], FORMAT, FORMAT)
    n_layers = check_int("layers", facts["layers"], 1, MOST_LAYERS)
    rows = None if facts["rows"] is None else _rows(facts["rows"])
    arrays = _arrays(weights)
    pairs = [(_weight(number), _bias(number)) for number in range(n_layers)]
    wanted = {"constants", *(name for pair in pairs for name in pair)}
    if {*arrays} != wanted:
        raise ConfigError(WEIGHTS_FILE, sorted(arrays), sorted(wanted))
    return Actor(
        layers=tuple(Linear(arrays[weight], arrays[bias]) for weight, bias in pairs),
        activation=str(facts["activation"]),
        output=str(facts["output"]),
        low=_numbers("low", facts["low"]),
        high=_numbers("high", facts["high"]),
        rows=rows,
        constants=arrays["constants"],
    )


def _rows(value: object) -> RowLayout:
    names = [one.name for one in fields(RowLayout)]
    given = check_keys(value, names, "rows")  # type: ignore[arg-type]  # it checks just that
    return RowLayout(**{name: check_int(f"rows.{name}", given.get(name), 0) for name in names})


def _arrays(weights: bytes) -> dict[str, Array]:
    from safetensors import SafetensorError, deserialize

    try:
        views = deserialize(weights)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise ValueError(f"{WEIGHTS_FILE}: {error}") from error
    arrays = {}
    for name, view in views:
        if view["dtype"] != "F32":
            raise ConfigError(name, view["dtype"], "F32")
        arrays[name] = np.frombuffer(view["data"], "<f4").reshape(view["shape"])
    return arrays


def _numbers(field: str, value: object) -> Array:
    try:
        # What is too large becomes infinite, which the actor refuses.
        with np.errstate(over="ignore"):
            return np.array(value, np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(field, value, "numbers") from error


def _read(folder: Path, name: str, digest: object) -> bytes:
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        allowed = f"a folder with {name} ({error.strerror})"
        raise ConfigError("checkpoint", str(folder), allowed) from error
    if _digest(content) != digest:
        allowed = f"one whose {name} is what the training wrote; this file has been changed"
        raise ConfigError("checkpoint", str(folder), allowed)
    return content


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _weight(number: int) -> str:
    return f"layers.{number}.weight"


def _bias(number: int) -> str:
    return f"layers.{number}.bias"
