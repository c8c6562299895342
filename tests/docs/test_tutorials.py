"""The tutorials, run as they are printed, in small."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import run_here
from tests.support.source_tree import ROOT
from tests.support.suites import leave_figures_empty

TUTORIALS = ROOT / "docs" / "tutorials"
OWN = TUTORIALS / "your_own"
PRINTED = {
    "beat_sed.md": ["beat_sed.py"],
    "dctcp_and_ppo.md": ["dctcp_and_ppo.py"],
    "your_own.md": [f"your_own/{path.name}" for path in OWN.iterdir() if path.is_file()],
}


def run(*arguments: str, path: str = "", cwd: Path | None = None) -> str:
    """Run Python with arguments, and return what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), path))),
            # Threads that wait for each other take minutes where tests share the processors.
            "OMP_NUM_THREADS": "1",
        },
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pages_print_the_files() -> None:
    blocks = {
        page: re.findall(r"```\w+\n(.*?)```", (TUTORIALS / page).read_text(), re.DOTALL)
        for page in PRINTED
    }
    missing = [
        f"{page}: {name}"
        for page, names in PRINTED.items()
        for name in names
        if (TUTORIALS / name).read_text() not in blocks[page]
    ]
    assert missing == []


@pytest.mark.docs
@pytest.mark.simulation
@pytest.mark.learning
@pytest.mark.timeout(600)
def test_a_short_training_beats_sed_and_equal_weights() -> None:
    printed = run(str(TUTORIALS / "beat_sed.py"), "120000")
    heading, *rows = (line.split("  ") for line in printed.splitlines())
    assert [cell.strip() for cell in heading if cell] == ["policy", "sed", "equal", "right", "ppo"]
    (times,) = (row for row in rows if row[0] == "FCT mean, s")
    sed, equal, _, ppo = (float(cell.split()[0]) for cell in times[1:] if cell.strip())
    assert ppo < equal < sed


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that looks as if the tutorial's package had been installed there."""
    folder = tmp_path_factory.mktemp("site")
    metadata = folder / "my_study-1.0.dist-info"
    metadata.mkdir()
    shutil.copy(OWN / "my_study.py", folder)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-study\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[dcgym.plugins]\nmy_study = my_study\n")
    return folder


def test_the_package_works_in_a_stand_in(site: Path) -> None:
    printed = run(str(OWN / "try_it.py"), path=str(site))
    assert 0.8 < float(printed.split()[-1]) <= 1.0


@pytest.mark.emulation
def test_the_package_runs_on_real_tcp(site: Path) -> None:
    common = ("-m", "dcgym", "run", "--config", str(OWN / "front_end.yaml"), "--json")
    found = {}
    for policy in ("cubic", "shared-aimd"):
        arguments = (*common, "--policy", policy, "--seconds", "4")
        found[policy] = json.loads(run(*arguments, path=str(site)))[0]["metrics"]
    # Without limits the queue fills; what halves at a twentieth of it keeps it far shorter.
    assert found["shared-aimd"]["queue_bytes_mean"] < found["cubic"]["queue_bytes_mean"] / 3
    assert found["shared-aimd"]["reward_mean"] > found["cubic"]["reward_mean"]


@pytest.mark.simulation
def test_parts_of_a_sweep_are_joined_by_copying(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    leave_figures_empty(monkeypatch)

    def command(*arguments: str) -> str:
        done = run_here(capfd, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def sweep(load: str, out: str) -> None:
        common = ("--env", "LoadBalancing-v1", "--policies", "sed,lsq", "--seeds", "1")
        values = ("--set", f"scenario.load={load}", "--seconds", "5", "--out", out)
        command("sweep", *common, *values, "--jobs", "0")

    sweep("0.5", "first")
    sweep("0.9", "second")
    for part in ("first", "second"):
        shutil.copytree(tmp_path / part / "runs", tmp_path / "all" / "runs", dirs_exist_ok=True)
    assert "0.9" in command("report", "all")
    import polars as pl

    runs = pl.read_parquet(tmp_path / "all" / "results.parquet")
    assert sorted(runs["scenario.load"].unique()) == [0.5, 0.9] and len(runs) == 4
    ended = {path: path.stat().st_mtime_ns for path in (tmp_path / "all").rglob("summary.json")}
    sweep("0.5,0.9", "all")
    assert ended == {path: path.stat().st_mtime_ns for path in ended}
    assert len(list((tmp_path / "all" / "runs").iterdir())) == 4


@pytest.mark.docs
@pytest.mark.emulation
@pytest.mark.learning
@pytest.mark.timeout(400)
def test_a_trained_policy_is_compared_on_real_tcp(tmp_path: Path) -> None:
    pytest.importorskip("ray.rllib")
    config = tmp_path / "network.yaml"
    config.write_text("backend: 'dcgym.testing:FakeBackend'\n")
    options = ("--config", str(config), "--seconds", "1", "--out", "ppo")
    run("-m", "dcgym", "train", "--algo", "ppo", *options, cwd=tmp_path)
    printed = run(str(TUTORIALS / "dctcp_and_ppo.py"), "ppo", "1", "3", cwd=tmp_path)
    rows = {line.split("  ")[0]: line.split()[-4:] for line in printed.splitlines()}
    assert rows["policy"] == ["cubic", "dctcp", "fair-share", "ppo"]
    cubic, dctcp, fair_share, _ = (float(cell) for cell in rows["queue mean, KB"])
    assert fair_share < dctcp < cubic
