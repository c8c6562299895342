"""The study of P4Wise runs in small."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from dcgym.policies.accelerators import MlpPolicy
from dcgym.policies.base import AnyAction, Info, Observation
from dcgym.suites.verdicts import VERDICTS
from experiments.papers.tajbakhsh import connections, end_host, learners, p4wise

pytestmark = pytest.mark.simulation


def test_the_study_of_p4wise_runs_in_small(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = p4wise.Args(
        seeds=1,
        episodes=101,
        trials=2,
        steps=2,
        scales=(64,),
        train_at=64,
        interval="3s",
        loads=(0.05, 0.1),
    )
    p4wise.main(tmp_path, small)
    tables = json.loads((tmp_path / "results.json").read_text())["tables"]
    assert [len(rows) for rows in tables.values()] == [2, 7, 3]
    assert {row["90 %"] for row in tables["figures 6.4-6.7"]} <= {*VERDICTS}
    assert "figure 6.3" in capsys.readouterr().out


def test_the_study_of_learners_runs_in_small(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = learners.Args(
        *(2, 2, 20, 3, 20),  # seeds, networks, samples, trials, episodes
        servers=2,
        interval="3s",
        train_s=0,
    )
    learners.main(tmp_path, small)
    results = json.loads((tmp_path / "results.json").read_text())
    assert [len(rows) for rows in results["tables"].values()] == [3, 6]
    assert results["verdict"] in ("holds", "within noise", "fails")
    assert "E14" in capsys.readouterr().out


def test_the_verdict_on_the_network_needs_a_drop() -> None:
    def verdict(*after: float) -> str:
        before = {"accuracies": [0.95, 0.95, 0.95]}
        return learners.verdict_of([before, {"accuracies": list(after)}])

    assert verdict(0.65, 0.66, 0.64) == "holds"
    assert verdict(0.94, 0.95, 0.95) == "fails"
    assert verdict(0.95, 0.5, 0.9) == "within noise"


def test_learners_are_scored_with_the_actions_that_they_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SixToOne(MlpPolicy):
        def act(self, observation: Observation, info: Info) -> AnyAction:
            # Real weights of 1 and 1/6.
            return np.array([1.0, -2 / 3, -2 / 3], np.float32)

    monkeypatch.setattr(learners, "trained_learner", lambda *_: SixToOne())
    args = learners.Args(seeds=2, trials=2, servers=2, interval="3s", loads=(0.8, 0.9))
    name = "ddpg, p99, real weights"
    found = learners.score_learners(args, tmp_path, (name,))
    # At 80 % and more 6:1 is right, and near the best.
    assert [accuracy for accuracy, _ in found[name]] == [1.0, 1.0]
    assert all(regret < 0.2 for _, regret in found[name])


def test_real_weights_use_accelerators_where_6_to_1_is_nearer_than_6_to_0() -> None:
    found = [
        learners.uses_accelerators(np.array(weights))
        for weights in ((6, 0, 0), (6, 1, 1), (1, 0.05, 0.08), (1, 0.05, 0.09), (0, 0.1, 0))
    ]
    assert found == [False, True, False, True, True]


def test_a_faster_accelerator_is_faster() -> None:
    plain, faster = (learners.pool_of(1, 2, one) for one in (1.0, 1.2))
    times = [
        [device["service_ns"]["knn"] for device in pool["groups"][0]["devices"]]  # type: ignore[index]
        for pool in (plain, faster)
    ]
    assert times[0][0] == times[1][0]
    assert times[0][1] / times[1][1] == pytest.approx(1.2) and times[1][1] == times[1][2]


def test_sums_of_the_last_hundred_rewards() -> None:
    sums = p4wise.last_hundred(np.concatenate([np.zeros(50), np.full(100, 10.0)]))
    assert (len(sums), sums[0], sums[-1]) == (51, 500, 1000)


@pytest.mark.emulation
@pytest.mark.native
@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_balancers_on_end_hosts_serve_the_same_requests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = end_host.Args(seeds=1, seconds=1.0, warm_up_s=0.0, busy_s=0.5)
    end_host.main(tmp_path, small)
    results = json.loads((tmp_path / "results.json").read_text())
    rows = {row["balancer"]: row for row in results["E8"]}
    assert list(rows) == list(end_host.PLACES)
    assert all(row["failed"] == 0 for row in rows.values())
    # A request takes 275 ms on a server, whoever sends it there.
    assert all(row["p99s"][0] >= 270 for row in rows.values())
    assert results["E4"]["nginx_us"] > 0 and len(results["verdicts"]) == 2
    assert "figure 4.5" in capsys.readouterr().out


def test_a_balancer_on_an_end_host_takes_a_worker() -> None:
    workers = {
        place: [device.workers for group in pool.servers for device in group.devices]
        for place in end_host.PLACES
        for pool in [end_host.pool_of(place)]
    }
    assert workers == {
        "network": [5, 5, 5, 5],
        "server": [4, 5, 5, 5],
        "smartnic": [5, 4, 5, 5],
    }


def test_cells_are_those_of_the_source() -> None:
    # CRC-16/ARC's check value.
    digits = np.frombuffer(b"123456789", np.uint8)[None]
    assert connections.crc16(digits).tolist() == [0xBB3D]
    packet = connections.frame(60_000, connections.SYN)
    five_tuple = packet[26:34] + packet[34:38] + packet[23:24]
    row = np.frombuffer(five_tuple, np.uint8)[None]
    cell = connections.cells_of(np.array([60_000]))
    assert cell.tolist() == (connections.crc16(row) % connections.CELLS).tolist()


def test_a_shared_cell_is_inherited_and_freed() -> None:
    table = connections.CellTable(np.random.default_rng(1))
    table.open(1, 7, 1000)
    table.open(2, 7, 1000)
    table.open(3, 8, 1000)
    assert table.inherited == 1 and table.homes[2] == table.homes[1]
    table.end(1, 7, 1000)
    table.send(2, 7, 1000)
    table.send(3, 8, 1000)
    assert table.broken == {2}


@pytest.mark.native
def test_no_connection_breaks_while_the_table_has_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = connections.Args(live=(300,), entries=(65_536, 64), changes=4, seeds=1, servers=8)
    connections.main(tmp_path, small)
    results = json.loads((tmp_path / "results.json").read_text())
    roomy, crowded = results["runs"]
    assert results["verdict"] == "holds" and roomy["broken"] == roomy["counted"] == 0
    assert roomy["connections"] == 300 + 4 * 15
    # With 64 entries most connections have none.
    assert crowded["missed"] > 0 and crowded["broken"] > 0
    assert "E15" in capsys.readouterr().out
