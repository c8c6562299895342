"""The example scripts, run in tiny form."""

from __future__ import annotations

import re

import pytest

from tests.docs.test_tutorials import run
from tests.support.source_tree import ROOT

EXAMPLES = ROOT / "docs" / "examples"
TINY = {
    "ppo_single_file.py": (["1024"], ["torch"], "1024 steps: "),
    "search.py": (["2", "960"], ["optuna", "safetensors"], "sigma"),
    "own_study.py": (["20"], [], "back-off"),
    "behaviour_cloning.py": ([], ["torch", "minari", "h5py"], "clone"),
}

pytestmark = [pytest.mark.docs, pytest.mark.simulation]


def test_every_example_has_a_tiny_form() -> None:
    assert sorted(TINY) == sorted(path.name for path in EXAMPLES.glob("*.py"))
    assert len((EXAMPLES / "own_study.py").read_text().splitlines()) <= 41


@pytest.mark.parametrize("name", TINY)
def test_an_example_runs(name: str) -> None:
    arguments, needed, words = TINY[name]
    for library in needed:
        pytest.importorskip(library)
    printed = run(str(EXAMPLES / name), *arguments)
    assert words in printed
    if name == "behaviour_cloning.py":
        (row,) = re.findall(r"^sojourn mean.*", printed, re.MULTILINE)
        teacher, clone, at_random = map(int, re.findall(r"  (\d+) ", row))
        assert clone < 2 * teacher < at_random / 2
