"""Orders to a pod's servers and balancers about what they tell each other."""

from __future__ import annotations

from dataclasses import dataclass

from dcgym.backends.emulation.wire.message import Message

__all__ = ["SetFault", "SetListeners"]


@dataclass(frozen=True)
class SetListeners(Message):
    """Say with which front ends idle servers register; answered by `Done`.

    Attributes:
        frontends: Their numbers.
    """

    frontends: tuple[int, ...]


@dataclass(frozen=True)
class SetFault(Message):
    """Let a server do something wrong; answered by `Done`.

    Attributes:
        server: Number of the server.
        fault: One of `dcgym.tasks.balancing.events.SERVER_FAULTS`.
        value: Share of its requests, or factor of its reports.
    """

    server: int
    fault: str
    value: float
