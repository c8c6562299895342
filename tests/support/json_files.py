"""JSON as strict programs read it."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["strict"]


def strict(text: str) -> Any:
    """Return what JSON holds; numbers that RFC 8259 does not have are an error.

    Args:
        text: The text.
    """
    return json.loads(text, parse_constant=_refuse)


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")
