"""Output that any locale takes: what a stream cannot write becomes what it can."""

from __future__ import annotations

import codecs
import io
import sys
import unicodedata

__all__ = ["write_in_any_locale"]

_HANDLER = "dcgym.plain"
# Signs of our tables that have no decomposition into plain ones.
_PLAIN = {
    "\u2212": "-",
    "\u2013": "-",
    "—": "-",
    "·": ".",
    "•": "*",
    "\u00d7": "x",
    "±": "+-",
    "→": "->",
    "≤": "<=",
    "≥": ">=",
    "µ": "u",
    "█": "#",
    "░": ".",
    "“": '"',
    "”": '"',
    "\u2019": "'",
}


def write_in_any_locale() -> None:
    """Let standard output and error write every text, whatever their encoding.

    A run of an hour must not end in an encoding error when its table is printed.
    """
    codecs.register_error(_HANDLER, _replace)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def _replace(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(map(_plain, error.object[error.start : error.end])), error.end


def _plain(character: str) -> str:
    if character in _PLAIN:
        return _PLAIN[character]
    # An accent is less than its letter.
    letters = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return letters or "?"
