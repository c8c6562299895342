"""How a message becomes plain data and descriptors, and a message again.

A message is a frozen dataclass of plain data. Fields of the type `Descriptor`, or a tuple of them,
hold file descriptors; these travel beside the data, and the data says by name which is which.
"""

from __future__ import annotations

import functools
import os
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, NewType, TypeAlias

from dcgym.errors import BackendError

__all__ = ["Content", "Descriptor", "Message", "pack", "unpack"]

Descriptor = NewType("Descriptor", int)
"""A file descriptor that crosses the channel: another number, and the same file, at either end."""

Content: TypeAlias = Mapping[str, object]
"""Plain data, as JSON can hold it."""


@dataclass(frozen=True)
class Message:
    """Base of all messages. A subclass can cross the channel once both sides have imported it."""

    kinds: ClassVar[dict[str, type[Message]]] = {}

    def __init_subclass__(cls) -> None:
        """Let the name of the class say on the channel what a message is."""
        Message.kinds[cls.__name__] = cls

    def descriptors(self) -> list[int]:
        """Return all descriptors that the message holds."""
        found: list[int] = []
        for name, is_many in _descriptor_fields(type(self).__name__).items():
            value = getattr(self, name)
            found += value if is_many else [value]
        return found

    def close_descriptors(self) -> None:
        """Close all descriptors that the message holds."""
        for fd in self.descriptors():
            os.close(fd)


def pack(message: Message) -> tuple[Content, list[int]]:
    """Return a message as plain data, and the descriptors in the order that the data names.

    Args:
        message: The message.
    """
    fds: list[int] = []
    places: dict[str, int | list[int]] = {}
    carried = _descriptor_fields(type(message).__name__)
    for name, is_many in carried.items():
        value = getattr(message, name)
        first = len(fds)
        fds += value if is_many else [value]
        places[name] = list(range(first, len(fds))) if is_many else first
    plain = {
        field.name: getattr(message, field.name)
        for field in fields(message)
        if field.name not in carried
    }
    return {"message": type(message).__name__, "fields": plain, "fds": places}, fds


def unpack(content: Mapping[str, typing.Any], fds: Sequence[int]) -> Message:
    """Return the message that `pack` took apart.

    Args:
        content: Its plain data.
        fds: Its descriptors, as this process numbers them.

    Raises:
        BackendError: There is no such message.
    """
    kind = Message.kinds.get(str(content["message"]))
    if kind is None:
        raise BackendError(f"unknown message {content['message']!r}")
    values = {name: _as_tuple(value) for name, value in content["fields"].items()}
    for name, place in content["fds"].items():
        many = isinstance(place, list)
        values[name] = tuple(fds[number] for number in place) if many else fds[place]
    return kind(**values)


def _as_tuple(value: object) -> object:
    """Return lists as the tuples that they were; what a mapping holds stays as it is."""
    return tuple(_as_tuple(one) for one in value) if isinstance(value, list) else value


@functools.cache
def _descriptor_fields(name: str) -> dict[str, bool]:
    """Return the names of a message's descriptors, and whether each stands for several."""
    kind = Message.kinds[name]
    hints = typing.get_type_hints(kind)
    many = tuple[Descriptor, ...]
    return {
        field.name: hints[field.name] == many
        for field in fields(kind)
        if hints[field.name] in (Descriptor, many)
    }
