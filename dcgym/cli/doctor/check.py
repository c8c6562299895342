"""One line of the examination."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Check", "present"]


@dataclass(frozen=True)
class Check:
    """One line of the examination.

    Attributes:
        group: Heading the line belongs to.
        name: What was looked for.
        ok: Whether it is there.
        found: Version, amount or reason.
        required: Whether emulation cannot run without it.
        cost: What is lost while it is missing.
        remedy: How to get it.
    """

    group: str
    name: str
    ok: bool
    found: str
    required: bool
    cost: str
    remedy: str


def present(group: str, name: str, ok: bool, required: bool, cost: str, remedy: str) -> Check:
    """Return a check of something that is there or not.

    Args:
        group: Heading.
        name: What was looked for.
        ok: Whether it is there.
        required: Whether emulation cannot run without it.
        cost: What is lost while it is missing.
        remedy: How to get it.
    """
    found = "present" if ok else "missing"
    return Check(group, name, ok, found, required, cost, remedy)
