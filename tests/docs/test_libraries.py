"""The scripts of the guide to learning libraries, run as they are printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

# Threads that wait for each other in turn take minutes where tests share the processors.
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "libraries.md"
SECTIONS = re.findall(r"^##+ (.*?)\n(.*?)(?=^##|\Z)", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
SCRIPTS = [
    (f"{title} {number}", script)
    for title, text in SECTIONS
    for number, script in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL), 1)
]
# To train in a process of its own takes too long for every run of the tests: tests/policies trains
# with these libraries.
LATER = {
    "Stable-Baselines3": [pytest.mark.docs],
    "TorchRL": [pytest.mark.docs],
    "BenchMARL": [pytest.mark.docs],
    "RLlib": [pytest.mark.docs, pytest.mark.ray],
}


def test_every_library_has_a_script() -> None:
    wanted = {"Gymnasium", "Stable-Baselines3", "RLlib", "PettingZoo", "TorchRL", "BenchMARL"}
    assert {name.rpartition(" ")[0] for name, _ in SCRIPTS} >= wanted


@pytest.mark.simulation
@pytest.mark.learning
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(text, id=name, marks=LATER.get(name.rpartition(" ")[0], []))
        for name, text in SCRIPTS
    ],
)
def test_a_script_runs_as_printed(script: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env=ONE_THREAD, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
