from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dcgym.cli.bench import varied
from dcgym.cli.tables import print_results
from dcgym.errors import BackendError, ConfigError
from dcgym.suites import (
    SUITES,
    Case,
    RunSpec,
    Suite,
    load_records,
    modern_congestion,
    quick,
    run_episode,
    write_report,
)
from dcgym.suites.balancing import balancing_classic, balancing_quick
from dcgym.suites.checks import check_suite
from dcgym.suites.fidelity import require
from dcgym.suites.matrix import Matrix, Run
from dcgym.suites.progress import progress_bars
from dcgym.suites.results import write_json, write_results
from dcgym.suites.spec import spec_to_dict
from dcgym.suites.statistics import METRICS, Sums, summarise
from dcgym.suites.suite import Training
from dcgym.suites.workers import Workers
from dcgym.tasks.balancing import make_scenario
from dcgym.testing.fake_backend import FakeBackend
from dcgym.writing import prepare_folder
from tests.support.pages import pictures_of
from tests.support.suites import leave_figures_empty
from tests.support.waiting import wait_for


def columns(**changes: list[float]) -> dict[str, Any]:
    names = ("reward", "goodput_bps", "queue_bytes", "rtt_us", "drops", "marks", "utilisation")
    values = {name: [0.0] * 4 for name in names}
    values |= {"time_s": [1.0, 2.0, 3.0, 4.0], "interval_us": [1e6] * 4}
    return {name: np.asarray(value) for name, value in {**values, **changes}.items()}


def test_metrics_leave_out_the_warmup() -> None:
    steps = columns(reward=[9.0, 9.0, 1.0, 2.0], queue_bytes=[9.0, 9.0, 1.0, 2.0])
    metrics = summarise(steps, 2.0, Sums(), 0.9)
    assert tuple(metrics) == METRICS
    assert metrics["reward_mean"] == metrics["queue_bytes_mean"] == 1.5
    assert metrics["jain"] == 0.9


def test_rates_are_of_the_whole_time_and_levels_of_the_steps_as_long_as_they_were() -> None:
    lengths_us = [1e6, 3e6, 1e6, 1e6]
    steps = columns(
        interval_us=lengths_us,
        reward=[4.0, 0.0, 0.0, 0.0],
        queue_bytes=[6.0, 2.0, 0.0, 0.0],
        utilisation=[0.0, 1.0, 0.0, 0.0],
        # Steps know nothing of what happened between them.
        goodput_bps=[1.0] * 4,
        drops=[1.0] * 4,
        marks=[1.0] * 4,
    )
    metrics = summarise(steps, 0.0, Sums(8.0, 1e6, 5.0, 7.0), 1.0)
    assert metrics["goodput_bps"] == 1e6
    assert (metrics["drops"], metrics["marks"]) == (5, 7)
    assert metrics["queue_bytes_mean"] == 2.0
    assert metrics["utilisation"] == 0.5
    assert metrics["reward_mean"] == 1.0


def test_rtt_quantiles_skip_steps_without_a_sample() -> None:
    steps = columns(rtt_us=[math.nan, 0.0, 100.0, 300.0])
    metrics = summarise(steps, 0.0, Sums(), 1.0)
    assert metrics["rtt_us_p50"] == 200.0


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"seeds": 0}, "seeds"),
        ({"warmup_s": 12.0, "episode_s": 12.0}, "episode_s: .* above the warm-up of 12 s"),
        ({"warmup_s": 2.0, "episode_s": 1.0}, "episode_s: .* above the warm-up of 2 s"),
        ({"jobs": 2, "is_alone": True}, "jobs: value 2"),
        ({"seeds": 3, "training": Training(trainings=5)}, "trainings: value 5"),
        ({"episode_s": "x"}, "episode_s: value 'x'"),
        ({"warmup_s": "x"}, "warmup_s: value 'x'"),
        ({"policies": ("cubik",)}, "cubic"),
        ({"policies": ()}, "policies"),
        ({"policies": ("cubic", "cubic")}, "once"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        check_suite(replace(quick(), **change))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, (3, 12.0, 2.0, 2)),
        ({"episode_s": 3.0}, (3, 3.0, 2.0, 2)),
        ({"episode_s": 1.2}, (3, 1.2, 0.2, 2)),
        ({"warmup_s": 15.0}, (3, 90.0, 15.0, 2)),
        ({"is_alone": True}, (3, 12.0, 2.0, 1)),
        ({"training": Training(trainings=5)}, (5, 12.0, 2.0, 2)),
        ({"cases": (Case({}, episode_s=0.6),)}, (3, 12.0, 0.1, 2)),
    ],
)
def test_a_default_gives_way(asked: dict[str, Any], expected: tuple[float, ...]) -> None:
    suite = replace(quick(), **asked)
    found = (suite.seeds, suite.episode_s, suite.warmup_s, suite.jobs)
    assert found == pytest.approx(expected)


def test_the_own_warm_up_and_seeds_of_a_suite_give_way_on_the_command_line() -> None:
    assert varied(quick(), None, trainings=4).seeds == 4
    assert varied(balancing_classic(), None).seeds == 3
    assert varied(quick(), 5, trainings=4).seeds == 5
    assert balancing_classic(episode_s=60.0).warmup_s == pytest.approx(10.0)
    with pytest.raises(ConfigError, match=r"^trainings: value 4"):
        varied(quick(), 3, trainings=4)


def spec(folder: Path, policy: str = "cubic", seed: int = 0) -> RunSpec:
    return RunSpec(
        env={"topology": "dumbbell", "traffic": "pairs", "interval": "50ms"}
        | {"backend": FakeBackend},
        policy=policy,
        seed=seed,
        steps=80,
        warmup_s=2.0,
        folder=str(folder / "runs" / f"{policy}-{seed}"),
    )


def cubic_alone(**changes: Any) -> Suite:
    return replace(quick(), policies=("cubic",), seeds=1, **changes)


def matrix_of(suite: Suite, out: Path, require_fidelity: str = "invalid") -> Matrix:
    return Matrix(suite, out, Workers(), progress_bars(), require_fidelity)


def kept(matrix: Matrix, run: Run, fidelity: dict[str, Any]) -> dict[str, Any]:
    """Return what the summary of a finished run holds."""
    return {**spec_to_dict(matrix.spec(run)), "fidelity": fidelity}


def test_a_suite_is_made_for_a_backend_a_length_and_its_own_options() -> None:
    moved = quick().made_for("simulation", 6.0, {"traffic": "stride-1", "generator": None})
    env = moved.cases[0].env
    assert (env["backend"], env["traffic"], "generator" in env) == ("simulation", "stride-1", False)
    # Its learners train where it runs. A warm-up that is too long gives way.
    assert (moved.cases[0].train_env, moved.episode_s, moved.warmup_s) == (None, 6.0, 2.0)
    assert quick().made_for(None, 1.2).warmup_s == pytest.approx(0.2)
    busy = balancing_classic().made_for(own={"load": 0.5}).cases[0].env["scenario"]
    assert make_scenario(busy).workload.load == 0.5
    step = balancing_quick().made_for(episode_s=100.0).case("capacity-step").env["scenario"]
    assert make_scenario(step).events[0].at_ns == 50_000_000_000
    real = modern_congestion().made_for("emulation")
    assert real.is_alone and real.cases[0].env["topology"]["rate"] == "20Mbit"
    iroko = SUITES["iroko-dumbbell-10m"].made_for("emulation", 30.0)
    assert iroko.cases[0].env["backend"] == "emulation" and iroko.episode_s == 30.0
    # What has no maker trains where it did.
    assert iroko.cases[0].train_env["backend"] == "simulation"


def test_episode_writes_steps_and_summary(tmp_path: Path) -> None:
    record = run_episode(spec(tmp_path))
    run = tmp_path / "runs" / "cubic-0"
    steps = pl.read_parquet(run / "steps.parquet")
    assert steps.height == 80
    assert steps["time_s"][-1] == pytest.approx(4.0)
    assert steps["goodput_bps"].tail(40).mean() == pytest.approx(record["metrics"]["goodput_bps"])
    assert json.loads((run / "summary.json").read_text())["policy"] == "cubic"
    # Two fluid flows of 10 Mbit/s each fill the core link of the dumbbell.
    assert record["metrics"]["goodput_bps"] == pytest.approx(10e6, rel=0.15)


def test_results_and_report_hold_every_run(tmp_path: Path) -> None:
    for policy in ("cubic", "fair-share"):
        for seed in (0, 1):
            run_episode(spec(tmp_path, policy, seed))
    records = load_records(tmp_path)
    frame = pl.read_parquet(write_results(tmp_path, records))
    assert sorted(frame["policy"]) == ["cubic", "cubic", "fair-share", "fair-share"]
    page = write_report(tmp_path, records).read_text()
    assert "fair-share" in page
    assert page.count("<figcaption>") == len(pictures_of(page)) >= 10
    assert "goodput, Mbit/s" in page
    assert "<script" not in page and 'src="http' not in page and 'href="http' not in page
    assert len(page) < 500_000
    assert "How this was made" in page and "commit" in page and "prefers-color-scheme" in page


def test_learners_train_on_a_backend_and_are_scored_on_another(tmp_path: Path) -> None:
    suite = replace(quick(), policies=("ppo",)).trained_on("simulation")
    matrix = matrix_of(suite, tmp_path)
    run = Run("", "ppo", 0)
    assert matrix.training(run).env == {**quick().cases[0].env, "backend": "simulation"}
    assert "backend" not in matrix.spec(run).env
    with pytest.raises(ConfigError, match="backend: value 'nowhere' is not allowed"):
        check_suite(cubic_alone().trained_on("nowhere"))


def test_finished_runs_are_found_and_changed_settings_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run("", "cubic", 0)
    matrix = matrix_of(cubic_alone(), tmp_path)
    assert matrix.finished(run) is None
    record = kept(matrix, run, {"status": "ok", "reasons": []})
    write_json(tmp_path / "runs" / "cubic-0" / "summary.json", record)
    assert matrix.finished(run) is not None
    longer = cubic_alone(episode_s=20.0)
    assert matrix_of(longer, tmp_path).finished(run) is None
    # Metrics of another version may mean something else: they are no part of this suite.
    monkeypatch.setattr("dcgym.suites.matrix.METRICS_VERSION", 1)
    assert matrix_of(cubic_alone(), tmp_path).finished(run) is None


@pytest.mark.parametrize(
    ("status", "required", "is_kept"),
    [
        ("ok", "ok", True),
        ("degraded", "ok", False),
        ("degraded", "degraded", True),
        ("invalid", "degraded", False),
        ("invalid", "invalid", True),
    ],
)
def test_runs_of_poor_fidelity_are_refused_and_run_again(
    tmp_path: Path, status: str, required: str, is_kept: bool
) -> None:
    matrix, run = matrix_of(cubic_alone(), tmp_path, required), Run("", "cubic", 0)
    fidelity = {"status": status, "reasons": ["tasks waited for a processor 95% of the time"]}
    record = kept(matrix, run, fidelity)
    write_json(tmp_path / "runs" / "cubic-0" / "summary.json", record)
    assert (matrix.finished(run) is not None) == is_kept
    results = matrix.results()
    assert (len(results.complete), len(results.refused)) == (is_kept, not is_kept)
    if is_kept:
        require(results.complete, required)
        return
    with pytest.raises(BackendError, match=rf"refused 1 of 1 .*cubic-0 {status}.*95%") as caught:
        require(results.refused, required)
    assert "\n" not in str(caught.value)


def test_report_and_table_say_what_was_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_figures_empty(monkeypatch)
    # The test double says of itself that it is invalid.
    records = [run_episode(spec(tmp_path, seed=seed)) for seed in (0, 1)]
    page = write_report(tmp_path, records).read_text()
    assert "did not keep up in 2 of 2 runs: test double, not a network" in page
    print_results(records)
    printed = capsys.readouterr().out
    assert "invalid" in printed and "test double, not a network" in printed


def test_damaged_summary_counts_as_unfinished(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "cubic-0"
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text('{"half')
    assert matrix_of(cubic_alone(), tmp_path).finished(Run("", "cubic", 0)) is None


def test_out_that_is_a_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(ConfigError, match=r"out: .*can be written") as caught:
        prepare_folder(path)
    assert "\n" not in str(caught.value)


def test_full_disk_is_one_line() -> None:
    if not Path("/dev/full").exists() or os.geteuid() != 0:
        pytest.skip("needs root to mount a tiny file system in a private namespace")
    code = (
        "mount -t tmpfs -o size=16k none /mnt && exec "
        f"{sys.executable} -m dcgym bench quick --policies cubic --out /mnt/out"
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_failed_worker_reports_its_last_line(tmp_path: Path, workers: Workers) -> None:
    broken = RunSpec(env={"env": "Nothing-v0"}, policy="cubic", steps=1)
    with pytest.raises(BackendError, match=r"^env: value 'dcgym/Nothing-v0'"):
        workers.run(broken, tmp_path / "bad" / "log.txt", lambda *_: None)


def test_worker_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    child = (
        "import os, sys, time; from dcgym.suites.worker import end_with_parent; "
        "end_with_parent(os.getppid()); "
        f"open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    )
    parent = (
        "import subprocess, sys, time; "
        f"subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", parent])
    wait_for(lambda: mark.exists() and mark.read_text() != "")
    process.kill()
    process.wait()
    status = Path(f"/proc/{mark.read_text()}/stat")
    wait_for(lambda: not status.exists() or status.read_text().split()[2] == "Z")
