"""A package from outside adds one of every kind, and uses all of it without touching ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.source_tree import ROOT

pytest.importorskip("dcgym.native._simulation", reason="the compiled simulation is not built")

SUPPORT = ROOT / "tests" / "support"
ADDED = {
    "topologies": "acme-pair",
    "plans": "acme-udp",
    "features": "acme_idle",
    "rewards": "acme_half_full",
    "scenarios": "acme-trio",
    "policies": "acme-constant",
    "learners": "acme-search",
    "suites": "acme-suite",
    "environments": "acme/Quiet-v0",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that looks as if the package had been installed there."""
    folder = tmp_path_factory.mktemp("site")
    package, metadata = folder / "acme", folder / "acme-1.0.dist-info"
    package.mkdir()
    metadata.mkdir()
    (package / "__init__.py").write_text('"""A package from outside."""\n')
    shutil.copy(SUPPORT / "outside" / "register.py", package / "register.py")
    shutil.copy(SUPPORT / "toy.py", package / "network.py")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[dcgym.plugins]\nacme = acme.register\n")
    return folder


def dcgym(site: Path, *arguments: str) -> str:
    """Run the command line as somebody who has installed the package."""
    done = subprocess.run(
        [sys.executable, "-m", "dcgym", *arguments],
        capture_output=True,
        text=True,
        cwd=site,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(site)))},
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_name_is_listed(site: Path) -> None:
    found = json.loads(dcgym(site, "list", "--json"))
    for kind, name in ADDED.items():
        assert name in found[kind], f"{name} is missing among {kind}"


def test_a_run_of_its_environment_is_recorded(site: Path, tmp_path: Path) -> None:
    common = ("--env", "acme/Quiet-v0", "--seconds", "1", "--json")
    out = tmp_path / "run"
    record = json.loads(dcgym(site, "run", *common, "--out", str(out)))[0]
    assert (record["env"], record["backend"]) == ("acme/Quiet-v0", "toy")
    # Half of 10 Mbit/s by one sender.
    assert record["metrics"]["goodput_bps"] == pytest.approx(5e6, rel=1e-3)
    assert record["metrics"]["reward_mean"] == pytest.approx(0.0, abs=1e-3)
    assert (out / "steps.parquet").is_file()


def test_its_learner_trains_and_its_checkpoint_acts(site: Path, tmp_path: Path) -> None:
    out = tmp_path / "trained"
    dcgym(site, "train", "--algo", "acme-search", "--env", "acme/Quiet-v0", "--out", str(out))
    arguments = ("--env", "acme/Quiet-v0", "--policy", "acme-search", "--seconds", "1", "--json")
    record = json.loads(dcgym(site, "run", *arguments, "--checkpoint", str(out)))[0]
    assert record["metrics"]["goodput_bps"] == pytest.approx(5e6, rel=1e-2)


def test_its_suite_runs_resumes_and_is_reported(site: Path, tmp_path: Path) -> None:
    out = tmp_path / "suite"
    # In one process: the sweep below has workers, which know the package too.
    arguments = ("bench", "acme-suite", "--jobs", "0", "--out", str(out), "--json")
    first = json.loads(dcgym(site, *arguments))
    assert [(r["policy"], r["seed"]) for r in first] == [
        (policy, seed) for seed in range(2) for policy in ("acme-constant", "acme-search")
    ]
    # The second time nothing is run: the records, durations included, are the same.
    assert json.loads(dcgym(site, *arguments)) == first
    assert "goodput" in dcgym(site, "report", str(out))
    assert "acme-search" in (out / "report.html").read_text()


def test_its_environment_is_swept(site: Path, tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    arguments = ("--env", "acme/Quiet-v0", "--policies", "acme-constant", "--seeds", "1")
    swept = ("--set", "topology.rate_bps=10000000,20000000", "--seconds", "1")
    records = json.loads(dcgym(site, "sweep", *arguments, *swept, "--out", str(out), "--json"))
    goodputs = [record["metrics"]["goodput_bps"] for record in records]
    assert goodputs == pytest.approx([5e6, 10e6], rel=1e-3)
    assert (out / "report.html").is_file()


def test_its_scenario_runs_in_our_environment(site: Path) -> None:
    arguments = ("run", "--env", "LoadBalancing-v1", "--policy", "sed", "--seconds", "5", "--json")
    config = site / "trio.yaml"
    config.write_text("scenario: acme-trio\n")
    record = json.loads(dcgym(site, *arguments, "--config", str(config)))[0]
    assert record["config"]["scenario"] == "acme-trio"
