"""Sweeps whose driver and workers are killed: each run has one row in the end, the right one.

The long form, 200 runs on a cluster of three nodes, takes minutes: ``make soak``. What else runs is
killed by ``make kills``.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from dcgym.places import temporary_place
from dcgym.suites import FailedRuns
from dcgym.writing import prepare_folder
from tests.support.killed_sweeps import (
    TAG,
    assert_same_results,
    start_driver,
    sweep_here,
    workers_of,
)
from tests.support.ray_clusters import NODE, ray_cluster
from tests.support.waiting import wait_for

pytestmark = pytest.mark.simulation

FILES = {"summary.json", "steps.parquet", "flows.parquet", "log.txt", "suite.json"}
# A kill comes up to this long after the run that it was drawn to follow.
MOST_DELAY_S = 0.3


def rows_in(out: Path) -> int:
    return len(list(out.glob("runs/*/summary.json")))


def kill_and_go_on(
    out: Path, rows: int, jobs: int, victims: list[str], cluster: Any = None
) -> None:
    """Run a sweep until all is done; each victim is killed at a moment that is drawn."""
    address = None if cluster is None else cluster.address
    tag, drawn = os.environ.get(TAG, uuid.uuid4().hex), random.Random(rows)
    moments = sorted(drawn.sample(range(1, max(2, rows - 2 * jobs)), len(victims)))
    driver = start_driver(out, rows, jobs, tag, address)
    for moment, victim in zip(moments, victims, strict=True):
        wait_for(lambda: rows_in(out) >= moment or driver.poll() is not None, 500, 0.01)  # noqa: B023
        time.sleep(drawn.uniform(0, MOST_DELAY_S))
        if victim == "driver":
            driver.kill()
        elif victim == "node":
            cluster.remove_node(drawn.choice(others(cluster)), allow_graceful=False)
            cluster.add_node(**NODE)
        elif alive := workers_of(tag):
            end(drawn.choice(alive))
        if victim == "driver" or driver.poll() is not None:
            driver.communicate()
            driver = start_driver(out, rows, jobs, tag, address)
    _, errors = driver.communicate(timeout=500)
    # Once more where a killed worker has left a gap, which is one line below those of progress.
    if driver.returncode != 0:
        (last,) = errors.splitlines()[-1:]
        assert re.search(r"runs failed; .*: ended by SIGKILL", last), errors
        driver = start_driver(out, rows, jobs, tag, address)
        _, errors = driver.communicate(timeout=500)
    assert driver.returncode == 0, errors


def others(cluster: Any) -> list[Any]:
    """Return the nodes of a cluster beside the head."""
    return [node for node in cluster.list_all_nodes() if node is not cluster.head_node]


def end(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return


def check(out: Path, rows: int, tmp_path: Path) -> None:
    """Check that there is each row once, as in a sweep that nobody has killed."""
    assert pl.read_parquet(out / "results.parquet").height == rows
    sweep_here(tmp_path / "whole", rows, 0)
    assert_same_results(out, tmp_path / "whole")
    assert {path.name for path in out.rglob("*") if path.is_file()} <= {*FILES, "results.parquet"}


@pytest.mark.timeout(300)
def test_a_sweep_whose_driver_is_killed_three_times_has_each_row_once(tmp_path: Path) -> None:
    kill_and_go_on(tmp_path / "out", 16, 0, ["driver"] * 3)
    check(tmp_path / "out", 16, tmp_path)


@pytest.mark.timeout(120)
def test_a_killed_worker_is_one_line_and_its_run_is_repeated_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag = uuid.uuid4().hex
    monkeypatch.setenv(TAG, tag)

    def kill() -> None:
        wait_for(lambda: bool(workers_of(tag)), 60, 0.05)
        end(workers_of(tag)[0])

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(FailedRuns, match=r"1 of 2 runs failed.*ended by SIGKILL") as caught:
        sweep_here(tmp_path / "out", 2, 1)
    killer.join()
    assert "\n" not in str(caught.value)
    assert rows_in(tmp_path / "out") == 1
    sweep_here(tmp_path / "out", 2, 1, retry_failed=True)
    check(tmp_path / "out", 2, tmp_path)


def test_what_killed_processes_were_writing_is_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    run = tmp_path / "runs" / "one-0"
    run.mkdir(parents=True)
    left = [run / f".dcgym-0.{ended.pid}", tmp_path / f".dcgym-1.{ended.pid}"]
    kept = [run / f".dcgym-2.{os.getpid()}", run / f".mine.{ended.pid}", run / "steps.parquet"]
    for path in left + kept:
        path.touch()
    prepare_folder(tmp_path)
    assert [path.exists() for path in left + kept] == [False, False, True, True, True]


def test_the_place_of_a_killed_process_is_removed_and_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = Path(tempfile.mkdtemp(prefix=".dcgym-work-"))
    (left / "steps.parquet").touch()
    # A person's own, by its name or by who may read it.
    own = [tmp_path / ".dcgym-work-mine", tmp_path / ".dcgym-work-of_mine_"]
    for folder, mode in zip(own, (0o700, 0o755), strict=True):
        folder.mkdir(mode)
    with temporary_place("work") as first, temporary_place("work") as second:
        assert {*tmp_path.iterdir()} == {first, second, *own}
        (first / "folder").mkdir()
    assert {*tmp_path.iterdir()} == {*own}


def test_a_place_that_variables_name_has_room_for_sockets_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("x" * 80)))
    monkeypatch.setenv("DCGYM_TEST_SET", "mine")
    with temporary_place("training", "DCGYM_TEST_FREE", "DCGYM_TEST_SET") as place:
        assert os.environ["DCGYM_TEST_FREE"] == str(place) and len(str(place)) < 40
        assert os.environ["DCGYM_TEST_SET"] == "mine"
    assert "DCGYM_TEST_FREE" not in os.environ and not place.exists()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Start a cluster of three nodes, whose processes carry the mark."""
    monkeypatch.setenv(TAG, uuid.uuid4().hex)
    with ray_cluster(monkeypatch) as cluster:
        for _ in range(2):
            cluster.add_node(**NODE)
        yield cluster


@pytest.mark.ray
@pytest.mark.soak
@pytest.mark.learning
@pytest.mark.timeout(3000)
def test_two_hundred_runs_of_a_cluster_whose_nodes_driver_and_workers_are_killed(
    cluster: Any, tmp_path: Path
) -> None:
    victims = ["node", "driver", "node", "worker", "node"]
    kill_and_go_on(tmp_path / "out", 200, 3, victims, cluster)
    check(tmp_path / "out", 200, tmp_path)
