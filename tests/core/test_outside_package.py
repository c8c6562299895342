"""A package from outside adds one of every kind, and uses all of it without touching ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.source_tree import ROOT

pytest.importorskip("dcgym.native._simulation", reason="the compiled simulation is not built")

SUPPORT = ROOT / "tests" / "support"
ADDED = {
    "topologies": "acme-pair",
    "plans": "acme-udp",
    "features": "acme_idle",
    "balancer-features": "acme_share",
    "rewards": "acme_half_full",
    "scenarios": "acme-trio",
    "policies": "acme-constant",
    "learners": "acme-search",
    "suites": "acme-suite",
    "environments": "acme/Quiet-v0",
    "congestion-controls": "acme-four",
}
# h1 and h3 are 15 ms apart: four packets fill no link.
FAR = {
    "backend": "simulation",
    "topology": {"name": "dumbbell", "hosts": 2, "rate": "100Mbit", "delay": "5ms"},
    "traffic": "pairs",
}
FOUR_PACKETS_BPS = 4 * 1448 * 8 / 30e-3
# Runs several commands in one process, and prints what each has printed: to start Python with the
# package takes seconds.
COMMANDS = """
import io, json, sys
from contextlib import redirect_stdout
from dcgym.cli import main

said = []
for command in json.loads(sys.argv[1]):
    out, code = io.StringIO(), 0
    with redirect_stdout(out):
        try:
            main(command)
        except SystemExit as ended:
            code = ended.code
    # The doctor's says whether this machine can emulate.
    said.append(out.getvalue() if code == 0 or command[0] == "doctor" else f"code {code}")
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that looks as if the package had been installed there."""
    folder = tmp_path_factory.mktemp("site")
    package, metadata = folder / "acme", folder / "acme-1.0.dist-info"
    package.mkdir()
    metadata.mkdir()
    (package / "__init__.py").write_text('"""A package from outside."""\n')
    for name in ("register.py", "acme_four.h"):
        shutil.copy(SUPPORT / "outside" / name, package / name)
    shutil.copy(SUPPORT / "toy.py", package / "network.py")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[dcgym.plugins]\nacme = acme.register\n")
    return folder


# Its feature in each face: the parts of the flows of 3 servers, and their changes.
FACES = """
import json
import gymnasium as gym
import numpy as np
import dcgym

given = {
    "backend": "simulation",
    "scenario": "acme-trio",
    "features": ["acme_share", "d_acme_share", "interarrival_mean"],
}
env = gym.make("dcgym/LoadBalancing-v1", **given)
seen = [env.reset(seed=0)[0]]
vector = gym.make_vec(
    "dcgym/LoadBalancing-v1", num_envs=2, vectorization_mode="vector_entry_point", **given
)
seen += [*vector.reset(seed=[0, 1])[0]]
agents = dcgym.parallel_env("LoadBalancing-v1", **given)
seen += agents.reset(seed=0)[0].values()
print(json.dumps([env.unwrapped.observation_labels, *np.array(seen).tolist()]))
"""


def dcgym(site: Path, *commands: Sequence[str]) -> list[str]:
    """Run commands as somebody who has installed the package."""
    said: list[str] = json.loads(run_program(site, COMMANDS, json.dumps(commands)))
    assert not any(text.startswith("code ") for text in said), said
    return said


def run_program(site: Path, *program: str) -> str:
    """Run a program as somebody who has installed the package, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", *program],
        capture_output=True,
        text=True,
        cwd=site,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(site))),
            "XDG_CACHE_HOME": str(site / "cache"),
        },
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_its_feature_of_balancers_is_seen_through_every_face(site: Path) -> None:
    labels, single, *others = json.loads(run_program(site, FACES))
    assert labels[:2] == ["server0.acme_share", "server0.d_acme_share"]
    assert len(single) == len(labels) == 3 * 2 + 1 + 3
    assert others[0] == single, "the same seed, the same flows"
    totals = [sum(one[0:6:2]) for one in (single, *others)]
    # A balancer may have no flow at that moment.
    assert any(totals) and all(total in (0.0, pytest.approx(1.0)) for total in totals)
    assert all(one[1:6:2] == [0.0] * 3 for one in (single, *others))


def test_every_name_is_listed_and_its_scenario_runs_in_our_environment(site: Path) -> None:
    config = site / "trio.yaml"
    config.write_text("scenario: acme-trio\n")
    run = ("run", "--env", "LoadBalancing-v1", "--policy", "sed", "--seconds", "5", "--json")
    listed, ran = dcgym(site, ("list", "--json"), (*run, "--config", str(config)))
    found = json.loads(listed)
    for kind, name in ADDED.items():
        assert name in found[kind], f"{name} is missing among {kind}"
    assert json.loads(ran)[0]["config"]["scenario"] == "acme-trio"


def test_its_environment_is_recorded_and_its_learner_trains_and_acts(
    site: Path, tmp_path: Path
) -> None:
    out, trained = tmp_path / "run", str(tmp_path / "trained")
    quiet = ("--env", "acme/Quiet-v0")
    run = ("run", *quiet, "--seconds", "1", "--json")
    _, constant, learned = dcgym(
        site,
        ("train", "--algo", "acme-search", *quiet, "--out", trained),
        (*run, "--out", str(out)),
        (*run, "--policy", "acme-search", "--checkpoint", trained),
    )
    record = json.loads(constant)[0]
    assert (record["env"], record["backend"]) == ("acme/Quiet-v0", "toy")
    # Half of 10 Mbit/s by one sender.
    assert record["metrics"]["goodput_bps"] == pytest.approx(5e6, rel=1e-3)
    assert record["metrics"]["reward_mean"] == pytest.approx(0.0, abs=1e-3)
    assert (out / "steps.parquet").is_file()
    goodput_bps = json.loads(learned)[0]["metrics"]["goodput_bps"]
    assert goodput_bps == pytest.approx(5e6, rel=1e-2)


def test_its_suite_resumes_and_is_reported_and_its_environment_is_swept(
    site: Path, tmp_path: Path
) -> None:
    suite, grid = tmp_path / "suite", tmp_path / "sweep"
    # In one process: the sweep has workers, which know the package too.
    bench = ("bench", "acme-suite", "--jobs", "0", "--out", str(suite), "--json")
    sweep = ("sweep", "--env", "acme/Quiet-v0", "--policies", "acme-constant", "--seeds", "1")
    rates = ("--set", "topology.rate_bps=10000000,20000000", "--seconds", "1")
    first, again, report, swept = dcgym(
        site,
        bench,
        bench,
        ("report", str(suite)),
        (*sweep, *rates, "--out", str(grid), "--json"),
    )
    assert [(r["policy"], r["seed"]) for r in json.loads(first)] == [
        (policy, seed) for seed in range(2) for policy in ("acme-constant", "acme-search")
    ]
    # The second time nothing is run: the records, durations included, are the same.
    assert json.loads(again) == json.loads(first)
    assert "goodput" in report
    assert "acme-search" in (suite / "report.html").read_text()
    goodputs = [record["metrics"]["goodput_bps"] for record in json.loads(swept)]
    assert goodputs == pytest.approx([5e6, 10e6], rel=1e-3)
    assert (grid / "report.html").is_file()


def test_its_congestion_control_is_one_header_and_one_row(site: Path, tmp_path: Path) -> None:
    """It is a policy, an environment trains with it, and a suite compares and reports it."""
    config, suite = tmp_path / "far.json", tmp_path / "suite"
    config.write_text(json.dumps({**FAR, "congestion_control": "acme-four"}))
    env = ("--env", "CongestionControl-v2", "--config", str(config))
    ran, _, benched, report, doctor = dcgym(
        site,
        ("run", *env, "--policy", "acme-four", "--seconds", "3", "--json"),
        ("train", "--algo", "cma-es", *env, "--steps", "40", "--out", str(tmp_path / "trained")),
        ("bench", "acme-windows", "--jobs", "0", "--out", str(suite), "--json"),
        ("report", str(suite)),
        ("doctor", "--json"),
    )
    assert json.loads(ran)[0]["metrics"]["goodput_bps"] == pytest.approx(FOUR_PACKETS_BPS, rel=0.01)
    goodputs = {one["policy"]: one["metrics"]["goodput_bps"] for one in json.loads(benched)}
    assert goodputs["acme-four"] == pytest.approx(FOUR_PACKETS_BPS, rel=0.01)
    assert goodputs["cubic"] > 10 * goodputs["acme-four"]
    assert "acme-four" in report
    [check] = [one for one in json.loads(doctor)["checks"] if one["name"] == "acme-four"]
    assert check["found"] == "compiled" or shutil.which("clang") is None
