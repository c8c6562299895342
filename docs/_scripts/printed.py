"""What pages print: shell commands one by one, and the Python of a page as one program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "Block", "all_pages", "blocks_of", "commands_of", "program_of"]

ROOT = Path(__file__).resolve().parents[2]

SHELL, PYTHON = "sh", "python"
# What is no command: files, output, and code that only the build sees.
OTHERS = ("yaml", "toml", "json", "text", "c")
_FENCE = re.compile(r"^(\s*)```\s*(\S*)")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        language: What its fence names.
        line: Number of its first line, from 1.
        text: What is inside, without the indent of the fence.
    """

    language: str
    line: int
    text: str


def all_pages() -> list[Path]:
    """Return README and the pages of the site."""
    docs = ROOT / "docs"
    return [
        ROOT / "README.md",
        *sorted(page for page in docs.rglob("*.md") if docs / "_scripts" not in page.parents),
    ]


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page.

    Args:
        page: A Markdown file.

    Raises:
        ValueError: A block names a language that nobody decided about.
    """
    found, inside, language, first, indent = [], [], "", 0, ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        fence = _FENCE.match(line)
        if fence is None:
            if first:
                inside.append(line.removeprefix(indent))
        elif first:
            found.append(Block(language, first, "\n".join(inside)))
            inside, first = [], 0
        else:
            indent, language, first = fence[1], fence[2], number + 1
            if language not in (SHELL, PYTHON, *OTHERS):
                raise ValueError(f"{page}:{number}: nobody decided about {language!r} blocks")
    return found


def commands_of(page: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each shell command, without comment, on one line.

    Args:
        page: A Markdown file.
    """
    for block in blocks_of(page):
        if block.language != SHELL:
            continue
        begun = ""
        for number, line in enumerate(block.text.splitlines(), start=block.line):
            text = re.sub(r"(^|\s+)#\s.*$", "", line).strip()
            begun = f"{begun} {text}".strip()
            if begun.endswith("\\"):
                begun = begun[:-1].rstrip()
            elif begun:
                yield number, begun
                begun = ""


def program_of(page: Path) -> str:
    """Return the Python of a page as one program, each line where the page has it.

    Args:
        page: A Markdown file.
    """
    lines: list[str] = []
    for block in blocks_of(page):
        if block.language == PYTHON:
            lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    return "\n".join(lines) + "\n" if lines else ""
