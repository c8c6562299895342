"""The suites of servers with accelerators: their cases run, their checks name what there is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dcgym
from dcgym.backends.records import FLOWS
from dcgym.backends.simulation import AcceleratorTwin
from dcgym.policies import LEARNERS, policy_names
from dcgym.suites import SUITES, find_verdicts, run_suite
from dcgym.suites.recorders.accelerators import batch_s, learning_metrics
from dcgym.suites.shapes import check_shapes
from dcgym.suites.suite import Suite
from dcgym.suites.verdicts import FAILS, HOLDS
from dcgym.tasks.accelerators.protocol import DeviceCommands, DeviceEpisode
from tests.support.suites import leave_figures_empty

pytestmark = pytest.mark.simulation


@pytest.fixture(autouse=True)
def empty_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_figures_empty(monkeypatch)


@pytest.mark.parametrize("name", ["p4mite", "p4hauler", "p4hauler-testbed", "p4wise"])
def test_shapes_are_of_cases_and_policies_that_there_are(name: str) -> None:
    suite = SUITES[name]
    check_shapes(suite.shapes, suite.case_names, suite.policies)
    for shape in suite.shapes:
        for term in (term for check in shape.checks for term in check.terms):
            assert suite.case(term.case).meets(term.policy), f"{shape.name}: {term}"
    assert suite.seeds >= 5


def part(name: str, cases: tuple[str, ...], shapes: tuple[str, ...]) -> Suite:
    """Return a suite of some cases and shapes, of two seeds."""
    whole = SUITES[name]
    return replace(
        whole,
        cases=tuple(replace(whole.case(one), episode_s=None) for one in cases),
        shapes=tuple(shape for shape in whole.shapes if shape.name in shapes),
        seeds=2,
    )


def test_runs_record_what_the_shapes_ask_for(tmp_path: Path) -> None:
    suite = part("p4hauler", ("vgg16-30", "reports-20"), ())
    records = list(run_suite(suite, tmp_path))
    assert len(records) == 2 * (4 + 1)
    for record in records:
        metrics = record["metrics"]
        rate = 30 if record["scenario"] == "vgg16-30" else 50
        assert metrics["throughput_per_s"] == pytest.approx(rate, rel=0.15)
        assert metrics["failed_share"] == 0
        assert metrics["latency_ms_p50"] <= metrics["latency_ms_p99"]
        if record["policy"] == "server-only":
            assert metrics["accelerator_share"] == 0
            # Four workers of 71.4 ms.
            assert metrics["processor_utilisation"] == pytest.approx(rate / 56, rel=0.15)


def test_a_batch_takes_until_its_last_answer() -> None:
    twin = AcceleratorTwin({"preset": "p4hauler-1", "requests": 100}, record_limit=1000)
    twin.reset([DeviceEpisode(7, 20.0)])
    twin.apply(DeviceCommands("server-only"))
    twin.advance(3 * 10**9)
    assert np.isnan(batch_s(twin.records(FLOWS), 100, 50_000)), "not all have come"
    twin.reset([DeviceEpisode(7, 20.0)])
    twin.advance(60 * 10**9)
    records = np.sort(twin.records(FLOWS), order="request")
    # One worker of constant time: Lindley's recursion.
    end_ns = 0
    for arrival_ns in records["arrival_ns"].tolist():
        end_ns = max(end_ns, arrival_ns) + round(1e9 / 18.2)
    took_s = (end_ns + 100_000 - int(records["arrival_ns"][0])) / 1e9
    assert len(records) == 100 and batch_s(records, 100, 50_000) == took_s


def test_what_a_learner_reached_is_read_off_its_rewards() -> None:
    # Sums of 100 rewards: 0 after 100 actions, 10 more with each that follows, 1000 after 200.
    found = learning_metrics(np.concatenate([np.zeros(100), np.full(150, 10.0)]))
    assert found == {"last_100_rewards": 1000.0, "actions_to_90": 190.0}
    nothing = learning_metrics(np.full(150, -1.0))
    assert nothing["last_100_rewards"] == -100 and np.isnan(nothing["actions_to_90"])


def test_batches_and_learning_are_recorded(tmp_path: Path) -> None:
    batches = replace(part("p4hauler", ("knn-batch-20-100",), ()), episode_s=80.0)
    for record in run_suite(batches, tmp_path / "batches"):
        took_s = record["metrics"]["batch_s"]
        # 100 requests at 20 a second: of the host alone never faster than it serves.
        assert 3 < took_s < 12
        assert record["policy"] != "server-only" or took_s > 99 / 18.2
    whole = part("p4wise", ("learning-0.5",), ())
    [record, _] = run_suite(replace(whole, episode_s=120 * 4.0), tmp_path / "learning")
    metrics = record["metrics"]
    assert metrics["last_100_rewards"] <= 1000 and 100 <= metrics["actions_to_90"] <= 120


POOL: dict[str, Any] = {
    "env": "AcceleratorBalancing-v0",
    "scenario": {"preset": "p4wise-64", "servers": 4},
    "interval": "2s",
    "settle": "0s",
}


@pytest.mark.parametrize("name", sorted({*policy_names("accelerators")} - {*LEARNERS}))
def test_runs_of_every_policy_are_equally_long(name: str) -> None:
    # Requests of 30 a second: the processors alone are a success of Algorithm 1 from the start on.
    [record] = dcgym.evaluate({**POOL, "rate": 30.0}, name, (1,), seconds=10.0).records
    metrics = record["metrics"]
    assert metrics["flows"] == pytest.approx(300, abs=60)
    assert np.isfinite([metrics[one] for one in ("reward_mean", "latency_ms_p99")]).all()


def test_a_run_ends_with_algorithm_1_where_that_is_asked_for() -> None:
    env = {**POOL, "rate": 30.0, "is_terminal": True}
    short = dcgym.evaluate(env, "server-only", (1,), seconds=10.0)
    # One interval, whatever the first observation has shown.
    assert short.mean("flows") == pytest.approx(60, abs=25) and short.mean("reward_mean") == 10


def test_a_batch_that_is_over_before_a_run_has_a_step() -> None:
    env = {**POOL, "rate": 30.0, "scenario": {**POOL["scenario"], "requests": 10}}
    [record] = dcgym.evaluate(env, "server-only", (1,), seconds=10.0).records
    metrics = record["metrics"]
    # All that came was before time 0; nothing is left for the rates and latencies of the run.
    assert metrics["flows"] == 0 and np.isnan(metrics["latency_ms_p99"])
    assert 0 < metrics["batch_s"] < 2


def test_verdicts_come_from_runs(tmp_path: Path) -> None:
    suite = part("p4mite", ("size-2-300", "size-2-1000", "size-2-2000"), ("e2-small",))
    records = list(run_suite(suite, tmp_path))
    verdicts = find_verdicts(tmp_path, records)
    # No request waits: 220 ms each, whatever the threshold.
    assert [one.verdict for one in verdicts] == [HOLDS]
    for record in records:
        if record["policy"] == "p4mite":
            expected_ms = 2 / 9.1 * 1e3 + 0.1
            assert record["metrics"]["latency_ms_p50"] == pytest.approx(expected_ms, abs=0.01)
    assert FAILS not in {finding.verdict for finding in verdicts[0].findings}
