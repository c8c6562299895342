"""Requests and who answers them: an emulator is composed of parts that have commands each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from dcgym.backends.emulation.wire.message import Message
from dcgym.errors import BackendError

__all__ = ["Commands", "Part"]

_Request = TypeVar("_Request", bound=Message)


class Commands:
    """What an emulator answers, by the kind of the request."""

    def __init__(self) -> None:
        self._handlers: dict[type[Message], Callable[[Message], Message]] = {}
        self._beside: set[type[Message]] = set()

    def add(
        self,
        kind: type[_Request],
        handler: Callable[[_Request], Message],
        *,
        is_beside: bool = False,
    ) -> None:
        """Let a function answer the requests of a kind.

        Args:
            kind: The kind of the requests.
            handler: Called with a request; returns the answer. The descriptors of the request
                are closed afterwards.
            is_beside: Whether a thread of its own answers each such request, beside what else the
                emulator does. All others are answered in their order.

        Raises:
            BackendError: Requests of this kind are answered already.
        """
        if kind in self._handlers:
            raise BackendError(f"two parts answer {kind.__name__}")
        self._handlers[kind] = handler  # type: ignore[assignment]  # `answer` asks by the kind
        if is_beside:
            self._beside.add(kind)

    def runs_beside(self, request: Message) -> bool:
        """Tell whether a request is answered by a thread of its own."""
        return type(request) in self._beside

    def answer(self, request: Message) -> Message:
        """Carry a request out and return the answer.

        Raises:
            BackendError: No part knows such requests.
        """
        handler = self._handlers.get(type(request))
        if handler is None:
            raise BackendError(f"unknown command {type(request).__name__}")
        return handler(request)


class Part(Protocol):
    """A part of an emulator."""

    def register(self, commands: Commands) -> None:
        """Add the commands of this part."""
