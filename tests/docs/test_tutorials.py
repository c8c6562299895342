"""The tutorials, run as they are printed, in small."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"


def test_the_page_prints_the_script() -> None:
    page = (TUTORIALS / "beat_sed.md").read_text()
    (printed,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert printed == (TUTORIALS / "beat_sed.py").read_text()


@pytest.mark.simulation
@pytest.mark.learning
@pytest.mark.timeout(600)
def test_a_short_training_beats_sed_and_equal_weights() -> None:
    command = [sys.executable, str(TUTORIALS / "beat_sed.py"), "120000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=590, check=False)
    assert done.returncode == 0, done.stderr
    heading, *rows = (line.split("  ") for line in done.stdout.splitlines())
    assert [cell.strip() for cell in heading if cell] == ["policy", "sed", "equal", "right", "ppo"]
    (times,) = (row for row in rows if row[0] == "FCT mean, s")
    sed, equal, _, ppo = (float(cell.split()[0]) for cell in times[1:] if cell.strip())
    assert ppo < equal < sed
