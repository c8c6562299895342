"""Suites on a Ray cluster: nodes that die, a head that dies, and what is refused before."""

from __future__ import annotations

import os
import re
import socket
import tempfile
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from dcgym.backends.records import Record
from dcgym.cli import main
from dcgym.errors import BackendError, ConfigError
from dcgym.suites import FailedRuns, load_records, sweep_suite
from dcgym.suites.cluster import ClusterWorkers
from dcgym.suites.cluster_work import (
    LAST_FILES,
    do_work,
    examine_here,
    files_of,
    installation,
)
from dcgym.suites.faults import CRASHED, LOST, NO_LIMITS
from dcgym.suites.results import write_results
from dcgym.suites.runner import run_matrix
from dcgym.suites.spec import RunSpec
from dcgym.suites.suite import Suite
from dcgym.suites.workers import Workers
from dcgym.writing import write_files
from tests.support.gates import GATE_FOLDER, alive, open_gate, waiting
from tests.support.killed_sweeps import LOCAL, TAG, assert_same_results, sweep_here, workers_of
from tests.support.ray_clusters import NODE, client_address, kill_head, ray_cluster
from tests.support.source_tree import ROOT
from tests.support.waiting import wait_for

ENV = {
    "backend": "tests.support.gates:GatedBackend",
    "topology": "dumbbell",
    "traffic": "pairs-udp",
}
TIMES = ("duration_s", "finished")
START_S = 400.0  # Ray on a busy machine.
# Less than the gate stays closed, after which all would end by themselves.
ORPHAN_S = 100.0


def suite(loads: list[str], env: object = None, seeds: int = 1) -> Suite:
    made = sweep_suite(env or ENV, {"traffic.rate": loads}, ("cubic",))
    return replace(made, seeds=seeds, episode_s=1.0, warmup_s=0.2)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("head", "host:port"),
        ("head:0x1", "host:port"),
        ("ray://head", "ray://host:port"),
        ("head:99999", "host:port"),
    ],
)
def test_an_address_that_is_none_is_refused(address: str, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        ClusterWorkers(address)


def test_an_unreachable_cluster_is_one_line_and_leaves_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    out = tmp_path / "out"
    words = ["sweep", "--env", "LoadBalancing-v1", "--out", str(out)]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--address", f"127.0.0.1:{port}"])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert f"127.0.0.1:{port}" in line
    assert "nobody answers within 5 s" in line
    assert not out.exists()


def test_shipping_without_a_cluster_is_one_line_and_leaves_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as ended:
        main(["sweep", "--env", "LoadBalancing-v1", "--ship", "--out", str(out)])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "ship" in line
    assert "--address" in line
    assert not out.exists()


def test_a_server_for_clients_that_does_not_start_is_asked_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("grpc")
    # The first process ends at once, the second one answers that it is attached.
    program = "import sys; from multiprocessing.connection import Connection; "
    program += "from pathlib import Path; path = Path(__file__).with_name('begun')\n"
    program += "if not path.exists():\n    path.touch(); sys.exit('no server')\n"
    program += "other = Connection(int(sys.argv[1])); other.recv(); other.send(None)\n"
    program += "try:\n    other.recv()\nexcept EOFError:\n    pass\n"
    (tmp_path / "half_a_ray.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("dcgym.suites.cluster.PROGRAM", "half_a_ray")
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
        ClusterWorkers(f"ray://{place}").stop()
        (tmp_path / "begun").unlink()
        with pytest.raises(ConfigError, match="no server"):
            ClusterWorkers(place)


def test_files_come_back_as_they_were_without_the_state_of_a_training(tmp_path: Path) -> None:
    files = {"summary.json": b"{}", "best/actor.json": b"1", "steps.parquet": bytes(3)}
    write_files(tmp_path, "out", {**files, "state/replay.bin": b"large"}, LAST_FILES)
    assert files_of(tmp_path) == files


def test_a_machine_with_another_version_does_nothing(workers: Workers) -> None:
    wanted = installation()._replace(dcgym="0.0.0", native="abc")
    spec = RunSpec(env=ENV, policy="cubic", steps=1)
    delivery = do_work(spec, {}, tuple(wanted), NO_LIMITS, workers)
    assert (delivery.files, delivery.kind) == ({}, None)
    assert re.search(r"dcgym \S+ and not 0\.0\.0, native parts \w+ and not abc", delivery.failure)
    # A wheel of another machine's dcgym mends it, where Python is the same.
    assert [
        found[1]
        for changed in (wanted, wanted._replace(python="2.7"))
        if (found := examine_here(changed, False)) is not None
    ] == [True, False]
    # What one of the two does not know is not compared.
    unknown = installation()._replace(commit=None)
    assert not installation()._replace(commit="1").differences(unknown)


def test_a_machine_without_tools_cannot_emulate(monkeypatch: pytest.MonkeyPatch) -> None:
    assert examine_here(installation(), False) is None
    monkeypatch.setenv("PATH", "")
    assert re.search(r"'dcgym doctor' misses .*\bmnexec\b", str(examine_here(installation(), True)))


def test_a_machine_without_room_for_the_work_is_a_failure_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: Workers
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    spec = RunSpec(env=ENV, policy="cubic", steps=1)
    delivery = do_work(spec, {}, tuple(installation()), NO_LIMITS, workers)
    assert delivery.kind == CRASHED
    assert "gone" in str(delivery.failure)


@pytest.fixture(scope="module")
def lasting_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Keep a cluster for tests that leave its head alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(GATE_FOLDER, str(tmp_path_factory.mktemp("gate")))
        with ray_cluster(patch) as cluster:
            yield cluster


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "gate"
    folder.mkdir()
    # What the nodes start inherits it.
    monkeypatch.setenv(GATE_FOLDER, str(folder))
    return folder


@pytest.fixture
def cluster(gate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with ray_cluster(monkeypatch) as cluster:
        yield cluster


def run(chosen: Suite, out: Path, address: str | None, ship: bool = False) -> list[Record]:
    return run_matrix(chosen, out, "invalid", lambda *_: None, address, ship=ship)[0]


def kept(record: Record) -> Record:
    """Return a record without the time that it took."""
    return {name: value for name, value in record.items() if name not in TIMES}


@pytest.mark.ray
@pytest.mark.learning
def test_runs_of_a_node_that_dies_are_repeated_elsewhere(
    cluster: Any, gate: Path, tmp_path: Path
) -> None:
    # The head takes none.
    _, second = (cluster.add_node(**NODE, resources={"emulation": 1}) for _ in range(2))
    out = tmp_path / "out"

    def kill_one() -> None:
        # Two emulations, as the two nodes have one each; the others wait.
        wait_for(lambda: waiting(gate) == 2, START_S, 0.2)
        cluster.remove_node(second, allow_graceful=False)
        # What runs there outlives its node by a moment, and could still answer.
        wait_for(lambda: alive(gate) < 2, START_S, 0.2)
        open_gate(gate)

    killer = threading.Thread(target=kill_one)
    killer.start()
    loads = ["1Mbit", "2Mbit", "3Mbit", "4Mbit"]
    complete = run(suite(loads), out, cluster.address)
    killer.join()
    assert len(complete) == 4
    # The run of the dead node began twice.
    assert waiting(gate) == 5
    assert sorted(path.name for path in (out / "runs").iterdir()) == [
        f"rate={load}-cubic-0" for load in loads
    ]
    assert not list(out.rglob(".dcgym-*"))
    table = pl.read_parquet(write_results(out, load_records(out)))
    assert table["traffic.rate"].sort().to_list() == loads
    # Two senders each, all that they send arrives below 10 Mbit/s.
    goodput = {r["sweep"]["traffic.rate"]: r["metrics"]["goodput_bps"] for r in complete}
    assert goodput["1Mbit"] == pytest.approx(2e6, rel=1e-3)
    assert goodput["4Mbit"] == pytest.approx(8e6, rel=1e-3)


@pytest.mark.ray
@pytest.mark.simulation
@pytest.mark.learning
def test_a_cluster_seen_from_outside_gives_the_same_records_as_this_machine(
    lasting_cluster: Any, tmp_path: Path
) -> None:
    remote, here = tmp_path / "remote", tmp_path / "here"
    sweep_here(remote, 4, 2, client_address(lasting_cluster))
    sweep_here(here, 4, 0)
    assert_same_results(remote, here)


@pytest.mark.ray
@pytest.mark.learning
def test_emulations_wait_for_each_other_and_killed_ones_are_failed_rows(
    lasting_cluster: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match=r"ray start --resources=.*emulation"):
        run(suite(["1Mbit"]), tmp_path / "none", lasting_cluster.address)
    node = lasting_cluster.add_node(**NODE, resources={"emulation": 1})
    alone = {**ENV, "backend": "tests.support.gates:LonelyBackend"}
    assert len(run(suite(["1Mbit"], alone, 3), tmp_path / "out", lasting_cluster.address)) == 3
    # Each process of Ray's that has it is killed, the first one and each repeat.
    killing = {**ENV, "backend": "tests.support.gates:TaskKillingBackend"}
    with pytest.raises(FailedRuns, match="1 of 1 runs failed") as caught:
        run(suite(["1Mbit"], killing), tmp_path / "killed", lasting_cluster.address)
    [failure] = caught.value.failures
    assert failure.kind == LOST
    lasting_cluster.remove_node(node)
    # Ray writes nothing here, whatever dies.
    assert "raylet" not in capfd.readouterr().out


@pytest.mark.ray
@pytest.mark.learning
@pytest.mark.timeout(600)
def test_nodes_with_another_dcgym_or_none_are_named_or_given_this_one(
    lasting_cluster: Any,
    gate: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "other" / "dcgym").mkdir(parents=True)
    (tmp_path / "other" / "dcgym" / "__init__.py").write_text("raise ImportError('not here')")
    # Ray's workers import from the folder that somebody calls in.
    monkeypatch.chdir(tmp_path)
    own = {"PYTHONPATH": f"{tmp_path / 'other'}{os.pathsep}{ROOT}", GATE_FOLDER: str(gate)}
    # On one machine, one node would unpack what it is given over that of another.
    place = {"runtime_env_dir_name": "given"}
    node = lasting_cluster.add_node(**NODE, **place, resources={"emulation": 1}, env_vars=own)
    words = ["sweep", "--env", "LoadBalancing-v1", "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--address", lasting_cluster.address])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "has no dcgym of this version (not here)" in line
    assert "--ship" in line
    assert not (tmp_path / "out").exists()
    open_gate(gate)
    loads = ["1Mbit", "2Mbit"]
    given = run(suite(loads), tmp_path / "given", lasting_cluster.address, ship=True)
    # No other node has the resource.
    assert waiting(gate) == 2
    here = run(suite(loads), tmp_path / "here", None)
    assert [kept(record) for record in given] == [kept(record) for record in here]
    # The twins run on both nodes, asked by a machine that is not of the cluster.
    sweep_here(tmp_path / "twins", 4, 2, client_address(lasting_cluster), ship=True)
    lasting_cluster.remove_node(node)
    sweep_here(tmp_path / "twins-here", 4, 0)
    assert_same_results(tmp_path / "twins", tmp_path / "twins-here")


@pytest.mark.ray
@pytest.mark.learning
def test_a_lost_head_is_one_line_and_the_sweep_goes_on_here(
    cluster: Any, gate: Path, tmp_path: Path
) -> None:
    cluster.add_node(**NODE, resources={"emulation": 1})

    def kill() -> None:
        wait_for(lambda: waiting(gate) == 1, START_S, 0.2)
        kill_head(cluster)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(BackendError, match=r"the cluster at .* is lost: ") as caught:
        run(suite(["1Mbit", "2Mbit"]), tmp_path / "out", cluster.address)
    killer.join()
    assert "\n" not in str(caught.value)
    # Nobody's work goes on.
    wait_for(lambda: alive(gate) == 0, ORPHAN_S, 0.2)
    open_gate(gate)
    complete, _ = run_matrix(
        suite(["1Mbit", "2Mbit"]), tmp_path / "out", "invalid", lambda *_: None
    )
    assert len(complete) == 2


@pytest.mark.ray
@pytest.mark.soak
@pytest.mark.emulation
@pytest.mark.learning
@pytest.mark.timeout(1200)
def test_twenty_emulations_of_three_machines_with_one_place_run_one_at_a_time(
    gate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag, seen = uuid.uuid4().hex, [0]
    monkeypatch.setenv(TAG, tag)
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.2):
            seen.append(len(workers_of(tag, LOCAL)))

    with ray_cluster(monkeypatch) as cluster:
        cluster.add_node(**NODE)
        cluster.add_node(**NODE, resources={"emulation": 1})
        watcher = threading.Thread(target=watch)
        watcher.start()
        made = sweep_suite(
            {"traffic": "pairs-udp"}, {"traffic.rate": ["1Mbit", "2Mbit"]}, ("cubic", "reno")
        )
        lasting = replace(made, seeds=5, episode_s=1.0, warmup_s=0.2)
        complete = run(lasting, tmp_path / "out", cluster.address)
        over.set()
        watcher.join()
    assert len(complete) == 20
    assert {record["backend"] for record in complete} == {"emulation"}
    assert max(seen) == 1
