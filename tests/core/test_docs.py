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

import dcgym
from dcgym.tasks.balancing.actions import WEIGHT_ACTIONS
from dcgym.tasks.balancing.features import BALANCER_FEATURES
from dcgym.tasks.balancing.rewards import BALANCING_REWARDS
from dcgym.tasks.congestion.actions import ACTIONS
from dcgym.tasks.network.features import FEATURES
from dcgym.tasks.network.rewards import NETWORK_REWARDS
from dcgym.tasks.paths.actions import WEIGHTINGS
from tests.support.source_tree import ROOT

DOCS = ROOT / "docs"
# What scripts read is no page.
SITE = sorted(page for page in DOCS.rglob("*.md") if DOCS / "_scripts" not in page.parents)
PAGES = [*SITE, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]+)?\)")


@pytest.mark.parametrize(
    "script", ["environment_pages", "preset_page", "page_tables", "reached_table"]
)
def test_generated_pages_are_those_of_the_code(script: str) -> None:
    command = [sys.executable, f"docs/_scripts/{script}.py", "--check"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_page_is_listed() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    assert sorted(pages_of(nav)) == sorted(str(page.relative_to(DOCS)) for page in SITE)


def test_every_link_leads_somewhere() -> None:
    broken = []
    for page in PAGES:
        for name, anchor in links_of(page):
            target = (page.parent / name).resolve() if name else page
            if not target.exists() or (anchor and anchor[1:] not in anchors_of(target)):
                broken.append(f"{page.relative_to(ROOT)}: {name}{anchor}")
    assert broken == []


def test_every_reward_and_feature_has_its_formula() -> None:
    page = (DOCS / "envs" / "formulas.md").read_text(encoding="utf-8")
    names = [*NETWORK_REWARDS.names(), *BALANCING_REWARDS.names(), *FEATURES.names()]
    names += BALANCER_FEATURES.names()
    names += [*ACTIONS.names(), *WEIGHTINGS.names(), *WEIGHT_ACTIONS.names()]
    assert [name for name in names if f"| `{name}` |" not in page] == []


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == dcgym.__version__
    assert citation["cff-version"] == "1.2.0"
    assert citation["authors"] and citation["title"].startswith("dcgym")


def pages_of(nav: object) -> Iterator[str]:
    """List the pages of a navigation, whose sections are mappings of a title to a list."""
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for inner in nav.values():
            yield from pages_of(inner)
    elif isinstance(nav, list):
        for inner in nav:
            yield from pages_of(inner)


def links_of(page: Path) -> Iterator[tuple[str, str]]:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    yield from LINK.findall(text)


def anchors_of(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}
