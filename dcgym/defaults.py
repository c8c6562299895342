"""Values of arguments that nobody gave: a default gives way to what was asked for.

Some values of two arguments cannot be together, such as a queue and a marking threshold above it.
Where one of them is a default, it is one of these types, which are otherwise the plain value, and
whoever checks the two together puts a fitting value in its place. What was asked for is never
changed, not even where it is equal to the default.
"""

from __future__ import annotations

__all__ = ["Default", "DefaultCount", "DefaultNumber", "DefaultTimes"]


class Default(str):
    """A text that nobody gave."""

    __slots__ = ()


class DefaultCount(int):
    """A whole number that nobody gave."""

    __slots__ = ()


class DefaultNumber(float):
    """A number that nobody gave."""

    __slots__ = ()


class DefaultTimes(tuple[int, ...]):
    """Times that nobody gave."""

    __slots__ = ()
