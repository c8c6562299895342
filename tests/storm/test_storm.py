"""The storm of ``make kills`` sees what is left, and what does not go on."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storm import remains
from tests.storm.remains import Place, Remains
from tests.storm.trial import Reference, run_trial
from tests.storm.workloads import WORKLOADS, Workload

pytestmark = pytest.mark.emulation


LEAVES = """
import os, subprocess, sys, tempfile
subprocess.Popen(["sleep", "300"], start_new_session=True, stdout=subprocess.DEVNULL)
open(os.path.join(tempfile.gettempdir(), "file"), "w").close()
open(sys.argv[1], "w").close()
print("ready", flush=True)
input()
"""


@pytest.fixture(autouse=True)
def tools() -> None:
    if shutil.which("bpftool") is None:
        pytest.skip("needs bpftool: apt-get install bpftool")


@pytest.fixture
def shared() -> Iterator[Path]:
    path = Path("/dev/shm", f"dcgym-test-{uuid.uuid4().hex}")
    yield path
    path.unlink(missing_ok=True)


def test_what_a_killed_process_leaves_is_seen_and_ended(tmp_path: Path, shared: Path) -> None:
    place = Place(tmp_path)
    left = Remains(place)
    assert "processes" not in left.in_kernel()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    words = [sys.executable, "-c", LEAVES, str(shared)]
    with subprocess.Popen(words, env=place.environment(), **pipes) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        process.kill()
        process.wait()
    found = left.in_kernel()
    assert len(found["processes"]) == 1 and str(shared) in found["shared memory"]
    assert left.files(None) == ["TMPDIR/file"]
    left.close()
    assert "processes" not in left.in_kernel()


def of_lives(*lives: str) -> Workload:
    """Return a workload whose lives are these programs, the last of them for ever."""
    rest = iter(lives)
    return Workload("test", lambda _: [next(rest, lives[-1]), "300"])


@pytest.mark.parametrize(
    ("lives", "result", "went_on"),
    [
        (["sleep", "true"], None, True),
        (["sleep", "true"], "another result", False),
        (["sleep", "false"], None, False),
    ],
)
def test_a_trial_goes_on_after_a_kill_and_is_compared(
    lives: list[str], result: object, went_on: bool, tmp_path: Path
) -> None:
    reference = Reference(0.1, result, frozenset(), frozenset(), ())
    trial = run_trial(of_lives(*lives), reference, tmp_path / "trial", random.Random(0), most=1)
    assert trial.kills == Counter(driver=1) and trial.went_on is went_on
    assert not trial.later
    assert bool(trial.problems) is (lives[-1] == "false")


def test_what_stays_after_the_deadline_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remains, "DEADLINE_S", 0.2)
    leaves = "import subprocess as s; s.Popen(['sleep', '300'], start_new_session=True)"
    reference = Reference(0.1, None, frozenset(), frozenset(), ())
    workload = Workload("test", lambda _: [sys.executable, "-c", leaves])
    trial = run_trial(workload, reference, tmp_path / "trial", random.Random(0), most=0)
    assert "processes" in [one.partition(":")[0] for one in trial.at_once]


def test_workloads_have_names_of_their_own() -> None:
    assert len({one.name for one in WORKLOADS}) == len(WORKLOADS)
