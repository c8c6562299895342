"""Arguments of an environment as JSON holds them, so that its specification can be written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dcgym.units import as_python

__all__ = ["plain_arguments"]


def plain_arguments(arguments: Mapping[str, object]) -> dict[str, object]:
    """Return arguments that say the same in plain data, as far as there is such a form.

    `gym.make` copies the fields of a scenario or a topology into its specification, which no
    environment could be made of again.

    Args:
        arguments: What an environment was made with.
    """
    plain = {str(name): _plain(value) for name, value in arguments.items()}
    if "backend" in plain:
        plain["backend"] = _named(plain["backend"])
    return plain


def _plain(value: object) -> object:
    value = as_python(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    made = value.to_dict() if not isinstance(value, type) and hasattr(value, "to_dict") else None
    return _plain(made) if isinstance(made, Mapping) else value


def _named(backend: object) -> object:
    """Return "module:name" of what another process can import; anything else as it is."""
    module, name = getattr(backend, "__module__", "__main__"), getattr(backend, "__qualname__", "")
    if isinstance(backend, str) or module == "__main__" or not name.isidentifier():
        return backend
    return f"{module}:{name}"
