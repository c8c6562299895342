"""The files of a trained network: numbers in safetensors, the rest in JSON, nothing that runs.

Reading them never unpickles: a checkpoint of a stranger can act badly, and do no more.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path

import numpy as np

from dcgym.config import check_flag, check_in, check_int, check_keys
from dcgym.containers import check_tensors
from dcgym.errors import ConfigError, MissingDependency
from dcgym.json_text import json_text
from dcgym.policies.checkpoint import CheckpointNote, parse_object, read_note, write_note
from dcgym.policies.learned.acting import ActorPolicy
from dcgym.policies.learned.actor import Actor, Array, Linear
from dcgym.policies.learned.memory import MEMORIES
from dcgym.policies.learned.view import MOST_FRAMES, View
from dcgym.reading import TEXT, WEIGHTS, Kind, read_bytes, reading
from dcgym.tasks.common.rows import RowLayout
from dcgym.writing import write_file

__all__ = [
    "ACTOR_FILE",
    "WEIGHTS_FILE",
    "load_actor",
    "require_safetensors",
    "write_actor",
]

ACTOR_FILE = "actor.json"
# What a note calls the digests of files that were to come when their process was killed.
FOLLOWING = "following"
WEIGHTS_FILE = "actor.safetensors"
FORMAT = 3
# What the files of older formats did not have.
ADDED: Mapping[int, Mapping[str, object]] = {
    1: {"choices": [], "memory": None, "view": None, "masked": False},
    2: {"masked": False},
    3: {},
}
# Files of format 2 said whether they had the one memory that there was.
OLD_MEMORY = "lstm"
KEYS = ("format", "layers", "activation", "output", "low", "high", "rows", *ADDED[1])
VIEW_KEYS = ("size", "frames", "rows", "scaled")
PADDED = "is_padded"
MOST_LAYERS = 64
MOST_CHOICES = 10_000


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

    facts = {
        "format": FORMAT,
        "layers": len(actor.layers),
        "activation": actor.activation,
        "output": actor.output,
        "low": actor.low.tolist(),
        "high": actor.high.tolist(),
        "rows": None if actor.rows is None else asdict(actor.rows),
        "choices": list(actor.choices),
        "memory": None if actor.memory is None else actor.memory.name,
        "view": None if actor.view is None else _view_facts(actor.view),
        "masked": actor.is_masked,
    }
    weights = {"constants": actor.constants}
    for number, layer in enumerate(actor.layers):
        weights |= {_weight(number): layer.weight, _bias(number): layer.bias}
    if (memory := actor.memory) is not None:
        weights |= {f"{memory.name}.{part}": getattr(memory, part) for part in memory.parts}
    if actor.view is not None and actor.view.is_scaled:
        weights |= {"view.mean": actor.view.mean, "view.scale": actor.view.scale}
    dense = {name: np.ascontiguousarray(array, np.float32) for name, array in weights.items()}
    contents = {
        ACTOR_FILE: (json_text(facts) + "\n").encode(),
        WEIGHTS_FILE: save(dense),
    }
    digests = {name: _digest(content) for name, content in contents.items()}
    _announce(folder, digests)
    for name, content in contents.items():
        write_file(folder / name, "checkpoint", content)
    return {"sha256": digests}


def _announce(folder: Path, digests: Mapping[str, str]) -> None:
    """Name the files to come in the note that is there, should this process be killed meanwhile."""
    with contextlib.suppress(ConfigError):
        note = read_note(folder)
        write_note(folder, replace(note, details={**note.details, FOLLOWING: digests}))


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
    following = note.details.get(FOLLOWING)
    known = [digests, *([following] if isinstance(following, Mapping) else [])]
    facts = _read(folder, ACTOR_FILE, known, TEXT)
    weights = _read(folder, WEIGHTS_FILE, known, WEIGHTS)
    check_tensors(io.BytesIO(weights), folder / WEIGHTS_FILE, "checkpoint")
    try:
        actor = _actor(_known(parse_object(facts)), weights)
        return ActorPolicy(note.algorithm, actor, tuple(note.columns))
    except ValueError as error:
        allowed = f"a network of {ACTOR_FILE} and {WEIGHTS_FILE} ({error})"
        raise ConfigError("checkpoint", str(folder), allowed) from error


def _known(facts: Mapping[str, object]) -> dict[str, object]:
    """Return the facts of the newest format, with what an older one did not have."""
    number = check_int("format", facts.get("format"), 1)
    if number > FORMAT:
        newer = f"{FORMAT} or less; a newer dcgym has written it, which reads it"
        raise ConfigError("format", number, newer)
    found = {**ADDED[number], **facts}
    if number == 2 and OLD_MEMORY in found:
        has_memory = check_flag(OLD_MEMORY, found.pop(OLD_MEMORY))
        found["memory"] = OLD_MEMORY if has_memory else None
    check_keys(found, KEYS, ACTOR_FILE)
    if missing := [name for name in KEYS if name not in found]:
        raise ConfigError(ACTOR_FILE, facts, f"a mapping with {missing[0]}")
    return found


def _actor(facts: Mapping[str, object], weights: bytes) -> Actor:
    """Return the network that the files hold; any ValueError says what is wrong with them."""
    n_layers = check_int("layers", facts["layers"], 1, MOST_LAYERS)
    arrays = _arrays(weights)
    pairs = [(_weight(number), _bias(number)) for number in range(n_layers)]
    wanted = {"constants", *(name for pair in pairs for name in pair)}
    told = facts["memory"]
    memory = None if told is None else MEMORIES[check_in("memory", str(told), MEMORIES)]
    memory_parts = [] if memory is None else [f"{told}.{part}" for part in memory.parts]
    view_facts = facts["view"]
    if view_facts is not None:
        view_facts = check_keys(view_facts, VIEW_KEYS, "view")
    is_scaled = view_facts is not None and check_flag("view.scaled", view_facts.get("scaled"))
    wanted |= {*memory_parts, *(("view.mean", "view.scale") if is_scaled else ())}
    if {*arrays} != wanted:
        raise ConfigError(WEIGHTS_FILE, sorted(arrays), sorted(wanted))
    return Actor(
        layers=tuple(Linear(arrays[weight], arrays[bias]) for weight, bias in pairs),
        activation=str(facts["activation"]),
        output=str(facts["output"]),
        low=_numbers("low", facts["low"]),
        high=_numbers("high", facts["high"]),
        rows=_rows(facts["rows"]),
        constants=arrays["constants"],
        choices=_choices(facts["choices"]),
        memory=None if memory is None else memory(*(arrays[part] for part in memory_parts)),
        view=None if view_facts is None else _view(view_facts, arrays),
        is_masked=check_flag("masked", facts["masked"]),
    )


def _choices(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > MOST_CHOICES:
        raise ConfigError("choices", value, "a list of numbers of choices")
    return tuple(check_int("choices", one, 2, MOST_CHOICES) for one in value)


def _view_facts(view: View) -> dict[str, object]:
    rows = None if view.rows is None else asdict(view.rows)
    return {"size": view.size, "frames": view.frames, "rows": rows, "scaled": view.is_scaled}


def _view(facts: Mapping[str, object], arrays: Mapping[str, Array]) -> View:
    size = check_int("view.size", facts.get("size"), 1)
    frames = check_int("view.frames", facts.get("frames"), 1, MOST_FRAMES)
    scale = [arrays[name] for name in ("view.mean", "view.scale") if name in arrays]
    return View(size, _rows(facts.get("rows")), frames, *scale)


def _rows(value: object) -> RowLayout | None:
    if value is None:
        return None
    names = [one.name for one in fields(RowLayout) if one.name != PADDED]
    given = check_keys(value, [*names, PADDED], "rows")
    sizes = {name: check_int(f"rows.{name}", given.get(name), 0) for name in names}
    # Files that were written before it was thought of have none.
    return RowLayout(**sizes, is_padded=check_flag(f"rows.{PADDED}", given.get(PADDED, False)))


def _arrays(weights: bytes) -> dict[str, Array]:
    from safetensors import SafetensorError, deserialize

    try:
        views = deserialize(weights)
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


def _read(folder: Path, name: str, known: Sequence[Mapping[str, object]], kind: Kind) -> bytes:
    with reading(folder, "checkpoint", f"a folder with {name}"):
        content = read_bytes(folder / name, "checkpoint", kind)
    if _digest(content) not in [digests.get(name) for digests in known]:
        allowed = f"one whose {name} is what the training wrote; this file has been changed"
        raise ConfigError("checkpoint", str(folder), allowed)
    return content


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _weight(number: int) -> str:
    return f"layers.{number}.weight"


def _bias(number: int) -> str:
    return f"layers.{number}.bias"
