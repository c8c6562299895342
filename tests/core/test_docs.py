"""Pages are generated, listed and linked as they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.source_tree import ROOT

DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]+)?\)")


def test_the_environments_pages_are_those_of_their_tasks() -> None:
    command = [sys.executable, "docs/_scripts/environment_pages.py", "--check"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_page_is_listed() -> None:
    listed = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for name, anchor in links_of(page):
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{name}{anchor}"
        assert not anchor or anchor[1:] in anchors_of(target), f"{name}{anchor}"


def links_of(page: Path) -> Iterator[tuple[str, str]]:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    yield from LINK.findall(text)


def anchors_of(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}
