"""Runs that crash, hang, eat memory or are killed: rows of their own, and the others go on."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from dcgym.cli.sweep import read_sweep
from dcgym.errors import ConfigError
from dcgym.processes import find_processes
from dcgym.suites import FailedRuns, Faults, Suite, finished_records, matrix, run_suite, sweep_suite
from dcgym.suites.cluster_work import do_work, installation
from dcgym.suites.faults import CRASHED, DEADLINE, MEMORY, Limits, load_failures
from dcgym.suites.results import write_json
from dcgym.suites.rollout import Progress
from dcgym.suites.spec import RunSpec, TrainingSpec
from dcgym.suites.work import Work, perform
from dcgym.suites.workers import Workers
from tests.support.commands import run_here
from tests.support.faulty import FOLDER, heal
from tests.support.gates import GATE_FOLDER, open_gate, waiting
from tests.support.suites import leave_figures_empty
from tests.support.waiting import wait_for

pytestmark = pytest.mark.simulation

ROOT = Path(__file__).parents[2]
FAKE = "dcgym.testing:FakeBackend"
ENV = {"topology": "dumbbell", "traffic": "pairs-udp", "interval": "100ms"}
KINDS = {
    "Crashing": CRASHED,
    "Killed": CRASHED,
    "Leaving": CRASHED,
    "Hanging": DEADLINE,
    "Stuck": DEADLINE,
    "Allocating": MEMORY,
}
# Time for a worker to start and run on a busy machine; those that hang take all of it.
DEADLINE_S = 30


@pytest.fixture(autouse=True)
def healer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of what heals runs, which the workers know."""
    leave_figures_empty(monkeypatch)
    folder = tmp_path / "healer"
    folder.mkdir()
    monkeypatch.setenv(FOLDER, str(folder))
    monkeypatch.setenv("DCGYM_TEST_PYTHON", sys.executable)
    return folder


def suite(*backends: str, env: Any = ENV, **changes: Any) -> Suite:
    named = [FAKE if name == "Fake" else f"tests.support.faulty:{name}" for name in backends]
    settings = {"seeds": 1, "episode_s": 1.0, "warmup_s": 0.2, **changes}
    return replace(sweep_suite(env, {"backend": named}, ("cubic",)), **settings)


def stamps(out: Path) -> dict[Path, int]:
    names = ("summary.json", "failure.json")
    return {path: path.stat().st_mtime_ns for name in names for path in out.rglob(name)}


@pytest.mark.timeout(400)
def test_each_fault_is_one_row_and_the_others_go_on(
    tmp_path: Path,
    healer: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    # Long because one batch is followed from its failures to their repetition.
    monkeypatch.setattr("dcgym.suites.workers.STOP_GRACE_S", 1.0)
    out, config = tmp_path / "out", tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(ENV))
    backends = [f"tests.support.faulty:{name}" for name in KINDS] + [FAKE]
    command = ["sweep", "--config", str(config), "--policies", "cubic", "--seeds", "1"]
    command += ["--set", f"backend={','.join(backends)}", "--seconds", "1", "--jobs", "3"]
    command += ["--memory-limit", "800MiB", "--out", str(out)]

    done = run_here(capfd, *command, "--run-deadline", str(DEADLINE_S), "--json")
    assert done.returncode == 1
    assert [run["backend"] for run in json.loads(done.stdout)] == ["fake"]
    found = {
        one.log.parent.name.rpartition(":")[2].split("-")[0]: one for one in load_failures(out)
    }
    assert {name: one.kind for name, one in found.items()} == KINDS
    assert found["Crashing"].reason == "KeyError: 'no such port'"
    assert "Traceback" in found["Crashing"].log.read_text()
    assert "SIGKILL" in found["Killed"].reason and "without a result" in found["Leaving"].reason
    assert found["Hanging"].seconds >= DEADLINE_S
    assert str(healer) not in find_processes(FOLDER), "a process of an ended run is left"
    *lines, last = done.stderr.splitlines()
    for one in found.values():
        assert f"failed: {one.name}: {one.reason}; log: {one.log}" in lines
    assert last == "dcgym: 6 of 7 runs failed; --retry-failed runs them again"
    assert "1 of 7 runs done, 6 failed, 0 running" in done.stderr
    assert pl.read_parquet(out / "results.parquet")["scenario"].to_list() == [f"backend={FAKE}"]
    page = (out / "report.html").read_text()
    assert "Failed runs" in page and "no such port" in page

    before = stamps(out)
    assert "6 of 7 runs failed" in run_here(capfd, *command).stderr
    assert stamps(out) == before

    heal(healer)
    done = run_here(capfd, *command, "--retry-failed")
    assert done.returncode == 0, done.stderr
    assert load_failures(out) == [] and stamps(out).items() >= {
        one for one in before.items() if one[0].name == "summary.json"
    }
    table = pl.read_parquet(out / "results.parquet")
    assert table.height == 7 and table["goodput_bps"].n_unique() == 1
    assert "Failed runs" not in (out / "report.html").read_text()


def test_a_run_in_this_process_fails_alone(tmp_path: Path, healer: Path) -> None:
    chosen = suite("Crashing", "Fake", jobs=0)
    with pytest.raises(FailedRuns, match=r"^1 of 2 runs failed; .*KeyError: 'no such port'"):
        run_suite(chosen, tmp_path / "out")
    (failure,) = load_failures(tmp_path / "out")
    assert "Traceback" in failure.log.read_text()
    assert pl.read_parquet(tmp_path / "out" / "results.parquet").height == 1
    # With other settings it is another run, which has not failed yet.
    heal(healer)
    with pytest.raises(FailedRuns):
        run_suite(chosen, tmp_path / "out")
    assert len(run_suite(replace(chosen, episode_s=2.0), tmp_path / "out")) == 2
    assert load_failures(tmp_path / "out") == []


def test_a_repeated_run_that_leaves_nothing_has_no_result_of_before(
    tmp_path: Path, healer: Path
) -> None:
    chosen = suite("Leaving", jobs=1)
    heal(healer)
    # The test double says of itself that it is invalid, so that a better run is asked for.
    assert len(run_suite(chosen, tmp_path / "out")) == 1
    (healer / "healed").unlink()
    with pytest.raises(FailedRuns, match=r"1 of 1 runs failed; .*without a result"):
        run_suite(chosen, tmp_path / "out", "degraded")
    assert finished_records(chosen, tmp_path / "out") == []


def test_runs_fail_with_their_training_and_run_once_it_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[int] = []

    def act(spec: Work, progress: Progress) -> None:
        if isinstance(spec, RunSpec):
            return perform(replace(spec, checkpoint=None, policy="cubic"), progress)
        assert isinstance(spec, TrainingSpec)
        trained.append(spec.seed)
        if len(trained) == 1:
            raise RuntimeError("no gradient")
        curve = {"seed": spec.seed, "steps": 1, "seconds": 1.0, "checkpoint": spec.folder}
        write_json(Path(spec.folder) / "training.json", {**curve, "key": spec.key})
        return None

    monkeypatch.setattr(matrix, "perform", act)
    made = sweep_suite({**ENV, "backend": FAKE}, {}, ("cubic", "ppo"))
    chosen = replace(made, seeds=2, episode_s=1.0, warmup_s=0.2, jobs=0)
    out = tmp_path / "out"
    with pytest.raises(FailedRuns, match=r"2 of 4 runs failed; train ppo: RuntimeError: no grad"):
        run_suite(chosen, out)
    # A seed more needs the same training, and does not repeat it.
    with pytest.raises(FailedRuns, match="3 of 6 runs failed") as caught:
        run_suite(replace(chosen, seeds=3), out)
    assert len(trained) == 1 and len({one.log for one in caught.value.failures}) == 1
    assert len(run_suite(replace(chosen, seeds=3), out, faults=Faults(retry_failed=True))) == 6
    assert len(trained) == 2 and load_failures(out) == []


def test_an_interrupted_batch_says_how_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, out, config = tmp_path / "gate", tmp_path / "out", tmp_path / "config.yaml"
    gate.mkdir()
    monkeypatch.setenv(GATE_FOLDER, str(gate))
    config.write_text(yaml.safe_dump({**ENV, "backend": "tests.support.gates:GatedBackend"}))
    words = ["sweep", "--config", str(config), "--policies", "cubic", "--seconds", "1"]
    words += ["--set", "traffic.rate=2e6,4e6", "--seeds", "1", "--out", str(out)]
    program = [sys.executable, "-m", "dcgym"]
    batch = subprocess.Popen([*program, *words], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: waiting(gate) == 2, 120, 0.1)
    batch.send_signal(signal.SIGINT)
    _, said = batch.communicate(timeout=60)
    assert batch.returncode == 130 and "Traceback" not in said
    told = re.fullmatch(
        r"dcgym: interrupted: 0 of 2 runs done; to go on: dcgym (.*)", said.splitlines()[-1]
    )
    assert told and shlex.split(told[1]) == words
    assert not list(out.rglob("failure.json")), "nobody has failed"
    open_gate(gate)
    done = subprocess.run(
        [*program, *shlex.split(told[1]), "--json"], cwd=ROOT, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    goodput = [run["metrics"]["goodput_bps"] for run in json.loads(done.stdout)]
    assert goodput == pytest.approx([4e6, 8e6], rel=1e-3)


def test_a_full_disk_ends_the_batch_and_fails_no_run(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a tiny file system in a private namespace")
    config = tmp_path / "fake.yaml"
    config.write_text(yaml.safe_dump({**ENV, "backend": FAKE}))
    sweep = (
        f"{sys.executable} -m dcgym sweep --config {config} --policies cubic --seconds 1 "
        "--seeds 40 --jobs 2 --out /mnt/out"
    )
    whole = (
        "import json, pathlib; "
        "[json.loads(one.read_text()) for one in pathlib.Path('/mnt/out').rglob('*.json')]"
    )
    code = (
        f"mount -t tmpfs -o size=320k none /mnt && {sweep}; echo code $?; "
        f"find /mnt/out -type f; {sys.executable} -c {shlex.quote(whole)}"
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", code], capture_output=True, text=True, cwd=ROOT
    )
    assert "No space left on device" in done.stderr.splitlines()[-1], done.stderr
    assert "Traceback" not in done.stderr and "code 2" in done.stdout
    assert done.returncode == 0, "what was written is whole"
    files = [line for line in done.stdout.splitlines() if line.startswith("/mnt")]
    names = [Path(line).name for line in files]
    assert 0 < names.count("summary.json") < 40
    assert "failure.json" not in names and not [one for one in names if one.startswith(".dcgym")]


def test_a_worker_without_room_on_the_disk_has_not_failed(tmp_path: Path, healer: Path) -> None:
    chosen = suite("Full", "Fake", jobs=1)
    with pytest.raises(OSError, match="No space left") as caught:
        run_suite(chosen, tmp_path / "out")
    assert caught.value.errno == errno.ENOSPC
    # What comes after it would have no room either.
    assert stamps(tmp_path / "out") == {}
    heal(healer)
    assert len(run_suite(chosen, tmp_path / "out")) == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"run_deadline": "soon"}, "run_deadline: value 'soon'"),
        ({"run_deadline": 0}, "run_deadline: value 0"),
        ({"memory_limit": "4 elephants"}, "memory_limit: value '4 elephants'"),
        ({"memory_limit": "0GiB"}, "memory_limit: value '0GiB'"),
    ],
)
def test_limits_that_are_none_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        Faults(**given)
    with pytest.raises(ConfigError, match=re.escape(words)):
        read_sweep(None, given)


def test_limits_are_refused_where_nothing_holds_them(tmp_path: Path) -> None:
    for given in ({"run_deadline": "1min"}, {"memory_limit": "4GiB"}):
        with pytest.raises(ConfigError, match="jobs 0"):
            run_suite(suite("Fake", jobs=0), tmp_path / "out", faults=Faults(**given))
    assert not (tmp_path / "out").exists()


def test_deadlines_are_those_asked_for_or_follow_the_length_of_a_run() -> None:
    run = RunSpec(env={**ENV, "backend": "simulation"}, policy="cubic", steps=600)
    training = TrainingSpec(env=run.env, policy="ppo", folder="", train_s=50.0)
    # 60 s of 100 ms each; the test double says that it runs in real time.
    assert Faults().limits(run) == Limits(3600 + 600, None)
    assert Faults().limits(replace(run, env={**ENV, "backend": FAKE})) == Limits(120 + 600, None)
    asked = Faults("5min", "2GiB")
    assert asked.limits(run) == Limits(300, 2**31)
    assert asked.limits(training) == Limits(350, 2**31)


def test_a_machine_of_a_cluster_holds_the_limits_too(healer: Path, workers: Workers) -> None:
    def work(name: str, limits: Limits) -> tuple[str | None, str | None]:
        env = {**ENV, "backend": f"tests.support.faulty:{name}"}
        spec = RunSpec(env=env, policy="cubic", steps=5, folder="/runs/one-0")
        delivery = do_work(spec, {}, tuple(installation()), limits, workers)
        return delivery.kind, delivery.failure

    assert work("Crashing", Limits()) == (CRASHED, "KeyError: 'no such port'")
    kind, failure = work("Hanging", Limits(deadline_s=1.0))
    assert kind == DEADLINE and "deadline of 1 s" in str(failure)
    workers.stop()
    assert str(healer) not in find_processes(FOLDER)
