"""Hook of MkDocs: pages that show a file of the repository's root."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHOWN = {"develop/contributing.md": "CONTRIBUTING.md", "develop/changes.md": "CHANGELOG.md"}


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return the file that a page shows, its links seen from the page.

    Args:
        markdown: The page's own text.
        page: The page.
    """
    name = SHOWN.get(page.file.src_uri)
    if name is None:
        return markdown
    text = (ROOT / name).read_text(encoding="utf-8")
    return text.replace("](docs/", "](../")
