"""The study of P4Wise runs in small."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dcgym.errors import FeatureNotSupported
from dcgym.policies.accelerators import MlpPolicy
from dcgym.policies.base import AnyAction, Info, Observation
from dcgym.suites.verdicts import VERDICTS
from experiments.papers.tajbakhsh import connections, cpu_quota, end_host, learners, p4wise
from experiments.papers.tajbakhsh.cpu_quota import CpuQuota

pytestmark = pytest.mark.simulation


def test_the_study_of_p4wise_runs_in_small(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = p4wise.Args(
        seeds=1,
        episodes=101,
        recovery=(2, 4),
        trials=2,
        steps=2,
        scales=(64,),
        train_at=64,
        interval="3s",
        loads=(0.05, 0.1),
    )
    p4wise.main(tmp_path, small)
    tables = json.loads((tmp_path / "results.json").read_text())["tables"]
    assert [len(rows) for rows in tables.values()] == [2, 8, 4]
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


@pytest.fixture
def quota() -> Iterator[CpuQuota]:
    try:
        made = CpuQuota(0.1)
    except FeatureNotSupported as error:
        pytest.skip(str(error))
    with made:
        yield made


def groups() -> list[Path]:
    return list(cpu_quota.GROUPS.glob(f"**/dcgym-{os.getpid()}-*"))


def test_a_quota_limits_its_processes_and_goes(quota: CpuQuota) -> None:
    script = """
import time
input()
begin_s, end_s = time.process_time(), time.monotonic() + 1
while time.monotonic() < end_s: pass
print(time.process_time() - begin_s)
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        quota.add(process.pid)
        used_s, _ = process.communicate(b"\n")
    # A tenth of a core; a busy machine may give less.
    assert 0 < float(used_s) < 0.2
    assert len(groups()) == 1
    quota.close()
    assert groups() == []


def test_a_quota_goes_with_an_exception_and_lets_its_processes_run(quota: CpuQuota) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        with pytest.raises(ValueError, match="amid"), quota:
            quota.add(process.pid)
            raise ValueError("amid")
        assert groups() == [] and process.poll() is None
        process.kill()


def test_a_quota_of_version_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_quota, "GROUPS", tmp_path)
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory\n")
    CpuQuota(0.05)
    [group] = groups()
    # A millisecond is the least quota; the period is as long as it must be.
    assert (group / "cpu.max").read_text() == "1000 20000"


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_nothing_is_measured_without_quotas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cpu_quota, "GROUPS", tmp_path / "none")
    end_host.main(tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())
    assert set(results["verdicts"].values()) == {end_host.NOT_MEASURABLE}
    assert "a quota of processor time is not available" in capsys.readouterr().out


def test_the_verdict_on_rates_compares_sweeps_of_one_seed() -> None:
    rows = [{"p99s": [1.0]}] * 3

    def verdict(nginx: list[float], network: list[float]) -> str:
        return end_host.verdicts(rows, {"nginx": nginx, "network": network})[end_host.CLAIMS[0]]

    assert verdict([300, 250], [3000, 8000]) == "holds"
    assert verdict([300, 250], [2000, 8000]) == "within noise"
    assert verdict([300, 250], [2000, 2000]) == "fails"
    # Without any rate of nginx there is no ratio.
    assert verdict([0], [8000]) == "fails"


@pytest.mark.emulation
@pytest.mark.native
@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_balancers_on_end_hosts_serve_the_same_requests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = end_host.Args(
        seeds=1, seconds=1.0, warm_up_s=0.0, busy_s=0.5, sweeps=1, rates=(20, 100), step_s=1.0
    )
    end_host.main(tmp_path, small)
    results = json.loads((tmp_path / "results.json").read_text())
    rows = {row["balancer"]: row for row in results["E8"]}
    assert list(rows) == list(end_host.PLACES)
    assert all(row["failed"] == 0 for row in rows.values())
    # A request takes 275 ms on a server, whoever sends it there.
    assert all(row["p99s"][0] >= 270 for row in rows.values())
    e4 = results["E4"]
    assert [list(one) for one in (e4["carried"], e4["costs_us"])] == [
        ["nginx", "network"],
        ["nginx", "BPF program"],
    ]
    assert e4["costs_us"]["nginx"] > 0 and len(results["verdicts"]) == 2
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
    # 300 of 50,000 cells are in use.
    [source] = results["source"]
    assert all(0 < source[name] < 0.02 * source["connections"] for name in ("inherited", "broken"))
    assert "E15" in capsys.readouterr().out
