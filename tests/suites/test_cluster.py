"""Suites on a Ray cluster: two nodes, one of which dies, and what is refused before."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from dcgym.cli import main
from dcgym.errors import ConfigError
from dcgym.suites import load_records, sweep_suite
from dcgym.suites.cluster import ClusterWorkers, deliver, files_of, work_here
from dcgym.suites.results import write_results
from dcgym.suites.runner import run_matrix
from dcgym.suites.spec import RunSpec
from dcgym.suites.suite import Suite
from tests.support.gates import GATE_FOLDER, alive, open_gate, waiting
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[2]
ENV = {
    "backend": "tests.support.gates:GatedBackend",
    "topology": "dumbbell",
    "traffic": "pairs-udp",
}
START_S = 400.0  # Ray on a busy machine.
# The controllers of Ray tell dead nodes after half a minute.
SOON = {
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 4,
}


def suite(loads: list[str], env: object = None, seeds: int = 1) -> Suite:
    made = sweep_suite(env or ENV, {"traffic.rate": loads}, ("cubic",))
    return replace(made, seeds=seeds, episode_s=1.0, warmup_s=0.2)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("head", "host:port"),
        ("head:0x1", "host:port"),
        ("ray://head:10001", "host:port"),
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


def test_files_come_back_as_they_were_without_the_state_of_a_training(tmp_path: Path) -> None:
    files = {"summary.json": b"{}", "best/actor.json": b"1", "steps.parquet": bytes(3)}
    deliver({**files, "state/replay.bin": b"large"}, tmp_path)
    assert files_of(tmp_path) == files


def test_a_machine_with_another_version_does_nothing() -> None:
    delivery = work_here(RunSpec(env=ENV, policy="cubic", steps=1), {}, "0.0.0")
    assert delivery.files == {}
    assert "not 0.0.0" in str(delivery.failure)


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "gate"
    folder.mkdir()
    # What the nodes start inherits these.
    monkeypatch.setenv(GATE_FOLDER, str(folder))
    # As docs/guides/cluster.md says: workers that are as urgent as what runs beside them.
    monkeypatch.setenv("RAY_worker_niceness", "0")
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=":")
    return folder


@pytest.fixture
def nodes(gate: Path) -> Iterator[object]:
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    one = {"num_cpus": 1, "resources": {"emulation": 1}, "object_store_memory": 80_000_000}
    head = {**one, "include_dashboard": False, "_system_config": SOON}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.second = cluster.add_node(**one)
    try:
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.mark.ray
@pytest.mark.learning
def test_runs_of_a_node_that_dies_are_repeated_elsewhere(
    nodes: object, gate: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    chosen = suite(["1Mbit", "2Mbit", "3Mbit", "4Mbit"])

    def kill_one() -> None:
        # Two emulations, as the two nodes have one each; the others wait.
        wait_for(lambda: waiting(gate) == 2, START_S, 0.2)
        nodes.remove_node(nodes.second, allow_graceful=False)  # type: ignore[attr-defined]
        # What runs there outlives its node by a moment, and could still answer.
        wait_for(lambda: alive(gate) < 2, START_S, 0.2)
        open_gate(gate)

    killer = threading.Thread(target=kill_one)
    killer.start()
    address = nodes.address  # type: ignore[attr-defined]
    complete, refused = run_matrix(chosen, out, "invalid", lambda *_: None, address)
    killer.join()
    assert (len(complete), refused) == (4, [])
    # The run of the dead node began twice.
    assert waiting(gate) == 5
    assert sorted(path.name for path in (out / "runs").iterdir()) == [
        f"rate={load}Mbit-cubic-0" for load in (1, 2, 3, 4)
    ]
    assert not list(out.rglob(".dcgym-*"))
    table = pl.read_parquet(write_results(out, load_records(out)))
    assert table["traffic.rate"].sort().to_list() == [f"{load}Mbit" for load in (1, 2, 3, 4)]
    # Two senders each, all that they send arrives below 10 Mbit/s.
    goodput = {r["sweep"]["traffic.rate"]: r["metrics"]["goodput_bps"] for r in complete}
    assert goodput["1Mbit"] == pytest.approx(2e6, rel=1e-3)
    assert goodput["4Mbit"] == pytest.approx(8e6, rel=1e-3)
