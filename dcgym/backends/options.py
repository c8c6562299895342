"""Options of backends: what may be chosen about one, whatever the task is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from dcgym.config import read_numbers

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["BackendOptions", "Values"]

Values: TypeAlias = Mapping[str, object]
"""Values of options by name; one that is missing has its default."""


@dataclass(frozen=True, kw_only=True)
class BackendOptions:
    """Options of a backend: those of one are the fields of a subclass; a backend may have none."""

    asks_nothing: ClassVar[Mapping[str, tuple[object, ...]]] = {}
    """Values beside its default with which an option asks for nothing that a backend without it
    does not do anyway: to leave something out, or to forbid something to processes that it has none
    of. Every backend of the protocol takes these and the default."""

    def __post_init__(self) -> None:
        """Read numbers, which other tools may have written."""
        read_numbers(self)

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of the options."""
        return sorted(one.name for one in fields(cls))

    @classmethod
    def neutral(cls, name: str) -> tuple[object, ...]:
        """Return the values of an option that backends without it take; none where it is not here.

        Args:
            name: Its name.
        """
        default = [one.default for one in fields(cls) if one.name == name]
        return (*default, *cls.asks_nothing.get(name, ()))

    @classmethod
    def read(cls, values: Values) -> Self:
        """Return options with their values.

        Args:
            values: By name, all of them known.

        Raises:
            ConfigError: A value is not allowed.
        """
        return cls(**values)
