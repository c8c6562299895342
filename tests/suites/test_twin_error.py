"""How far a twin is from the emulation: comparison, alignment, verdicts, tables, the command."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcgym.errors import BackendError, ConfigError
from dcgym.suites import SUITES
from dcgym.suites.checks import check_suite, fit_policies
from dcgym.suites.twin_error import TWIN_CASES, TwinError, congestion_suite, runs, twin_errors
from dcgym.suites.twin_error.comparison import BEYOND, MISSING, OK, OWN_SPREAD
from dcgym.suites.twin_error.congestion import congestion_policies, draws_actions
from dcgym.suites.twin_error.found import Comparison, percent, sample_text
from dcgym.suites.twin_error.markdown import markdown
from dcgym.suites.twin_error.quantities import BALANCING, NETWORK, TRACE, Quantity
from dcgym.suites.twin_error.traces import Trace, align
from dcgym.tasks.network.controls import AGENT_CONTROL, CONGESTION_CONTROLS
from tests.cli.test_cli import dcgym
from tests.support.pages import pictures_of

QUEUE = Quantity("queue_bytes_mean", "queue", "queue", "KB", 1e3, within=0.05, least=10.0)
FLOWS = Quantity("fct_us_p99", "FCT p99", "FCT")
DROPS = Quantity("drops", "drops", "drops", within=0.10, least=1.0)
STEP_S = 0.05


def run(
    backend: str,
    seed: int,
    *,
    policy: str = "cubic",
    status: str = "ok",
    plan: str = "same",
    **metrics: float,
) -> dict[str, Any]:
    reasons = [] if status == "ok" else ["the machine was busy"]
    return {
        "backend": backend,
        "scenario": f"case-{backend}",
        "policy": policy,
        "seed": seed,
        "metrics": metrics,
        "fidelity": {"status": status, "reasons": reasons},
        "plan": {"digest": plan},
    }


def pairs(twin: Sequence[float], real: Sequence[float], **options: Any) -> list[dict[str, Any]]:
    """Return runs of both backends with these queues."""
    return [
        run(backend, seed, queue_bytes_mean=value, **options)
        for backend, values in (("simulation", twin), ("emulation", real))
        for seed, value in enumerate(values)
    ]


def only(records: list[dict[str, Any]], quantity: Quantity = QUEUE, **options: Any) -> TwinError:
    (row,) = twin_errors(records, [quantity], **options)
    return row


def test_means_spreads_and_error_are_over_the_pairs() -> None:
    records = pairs([110.0, 270.0, 200.0], [100.0, 300.0, 200.0])
    records.append(run("simulation", 9, queue_bytes_mean=1e9))  # without its pair
    row = only(records)
    assert (row.case, row.policy) == ("case", "cubic")
    assert (row.emulation.mean, row.emulation.spread, row.emulation.runs) == (200, 100, 3)
    assert row.simulation.mean == pytest.approx(580 / 3)
    assert row.error == pytest.approx(580 / 600 - 1)
    # Residuals of the ratio 580/600 over the mean of 200, Student's t for two degrees of freedom.
    left = np.array([110, 270, 200]) - 580 / 600 * np.array([100, 300, 200])
    half = 4.303 * np.std(left / 200, ddof=1) / math.sqrt(3)
    assert row.half_width == pytest.approx(half, rel=1e-3)


@pytest.mark.parametrize(
    ("twin", "real", "verdict"),
    [
        ([1050.0, 1050.0], [1000.0, 1000.0], OK),
        ([1051.0, 1051.0], [1000.0, 1000.0], BEYOND),
        ([950.0, 950.0], [1000.0, 1000.0], OK),
        ([1100.0, 1100.0], [900.0, 1100.0], OWN_SPREAD),
        ([1101.0, 1101.0], [900.0, 1100.0], BEYOND),
        # One run has no spread to be within.
        ([1100.0], [1000.0], BEYOND),
        # Ten bytes are no difference, whatever they are of.
        ([10.0, 10.0], [0.0, 0.0], OK),
        ([11.0, 11.0], [0.0, 0.0], BEYOND),
    ],
)
def test_verdicts_begin_and_end_where_they_say(
    twin: list[float], real: list[float], verdict: str
) -> None:
    row = only(pairs(twin, real))
    assert row.verdict == verdict
    assert math.isnan(row.error) == (real[0] == 0)


def test_own_spread_is_that_of_runs_that_were_asked_the_same() -> None:
    twin, real = [1100.0, 1100.0], [900.0, 1100.0]
    assert only(pairs(twin, real), draws=lambda _: True).verdict == BEYOND
    records = pairs(twin, real)
    for record in records:
        record["plan"] = {"digest": f"of seed {record['seed']}"}
    assert only(records).verdict == BEYOND
    # The second seed once more, as far from its mean as the twin is from both.
    again = run("emulation", 1, plan="of seed 1", queue_bytes_mean=1300.0)
    records.append({**again, "scenario": "case-emulation-2"})
    row = only(records)
    assert (row.case, row.emulation.mean, row.emulation.runs) == ("case", 1100, 3)
    assert row.verdict == OK
    records[0]["metrics"]["queue_bytes_mean"] = 800.0
    assert only(records).verdict == OWN_SPREAD
    records[0]["metrics"]["queue_bytes_mean"] = 600.0
    assert only(records).verdict == BEYOND


def test_runs_of_poor_fidelity_do_not_count() -> None:
    records = pairs([100.0, 100.0], [100.0, 900.0])
    records[-1]["fidelity"]["status"] = "degraded"
    assert only(records, required="ok").emulation.mean == 100
    assert only(records, required="degraded").emulation.mean == 500
    row = only(pairs([100.0], [100.0], status="invalid"), required="ok")
    assert row.verdict == MISSING
    assert row.note == "emulation invalid: the machine was busy"


def test_what_was_not_measured_says_why() -> None:
    unknown = [run(backend, 0, fct_us_p99=math.nan) for backend in ("simulation", "emulation")]
    assert "too few flows" in only(unknown, FLOWS).note
    unknown[0]["metrics"]["fct_us_p99"] = 1.0
    assert only(unknown, FLOWS).note == "no value in the emulation"
    # No run of the policy knows the metric: it has no row.
    assert twin_errors(pairs([1.0], [1.0]), [FLOWS]) == []
    records = [*pairs([1.0], [1.0]), run("emulation", 0, policy="reno", queue_bytes_mean=1.0)]
    assert twin_errors(records, [QUEUE])[1].note == "no run in the twin"
    other = [run("simulation", 0, drops=1.0), run("emulation", 1, drops=1.0)]
    assert only(other, DROPS).note == "no seed was run in both"
    with pytest.raises(ConfigError, match="runs of both backends"):
        twin_errors([run("simulation", 0, drops=1.0)], [DROPS])


def trace(values: Sequence[float] | np.ndarray[Any, Any], begin_s: float = 0.0) -> Trace:
    queue = np.asarray(values, dtype=np.float64)
    return Trace(begin_s + STEP_S * np.arange(1, len(queue) + 1), queue)


def saw(count: int = 200, period: int = 70) -> np.ndarray[Any, Any]:
    """Return teeth: no shift within a period makes them alike but the right one."""
    return np.arange(count) % period * 1000.0


@pytest.mark.parametrize("shift", [-13, -1, 0, 1, 13, 20])
def test_alignment_finds_a_known_shift(shift: int) -> None:
    long = saw(300)
    found = align(trace(long[40:240]), trace(long[40 - shift : 240 - shift]))
    assert found.lag_s == pytest.approx(shift * STEP_S)
    assert found.rmse_bytes == pytest.approx(0, abs=1e-3)


def test_a_ramp_is_not_shifted() -> None:
    ramp = 1000.0 * np.arange(200)
    noise = np.random.default_rng(0).normal(0, 300, 200)
    assert align(trace(ramp), trace(ramp + noise)).lag_s == 0


def test_alignment_stays_within_its_bound() -> None:
    long = saw(300, 150)
    first, second = trace(long[40:240]), trace(long[20:220])
    assert align(first, second, bound_s=1.0).lag_s == pytest.approx(1.0)
    assert abs(align(first, second, bound_s=0.5).lag_s) <= 0.5 + 1e-9


def test_distance_is_the_root_mean_square() -> None:
    first, second = trace([3000.0] * 40), trace([3000.0, 3400.0] * 20)
    found = align(first, second)
    assert (found.lag_s, found.rmse_bytes) == (0, pytest.approx(400 / math.sqrt(2)))
    # Steps that were late are read at the even ones.
    late = Trace(first.time_s + np.linspace(0, STEP_S, 40), np.linspace(0, 39, 40))
    assert align(trace(np.arange(40)), late).rmse_bytes < 1
    with pytest.raises(ConfigError, match="common samples"):
        align(trace([1.0]), trace([1.0, 2.0]))
    with pytest.raises(ConfigError, match="common samples"):
        align(trace([1.0, 2.0]), trace([1.0, 2.0], begin_s=9.0))


RMSE = Quantity(TRACE, "trace", "trace", "KB", 1e3, within=0.05, least=1.0)


@pytest.mark.parametrize(
    ("apart", "own", "options", "verdict"),
    [
        (40.0, 0.0, {}, OK),
        (60.0, 0.0, {}, BEYOND),
        (60.0, 90.0, {}, OWN_SPREAD),
        # Other traffic, or other actions: runs of the emulation are no measure of each other.
        (60.0, 90.0, {"draws": lambda _: True}, BEYOND),
    ],
)
def test_traces_are_held_against_those_of_the_emulation_among_each_other(
    apart: float, own: float, options: dict[str, Any], verdict: str
) -> None:
    wave = 1000 + 100.0 * np.where(np.arange(100) % 20 < 10, 1.0, -1.0)
    noise = np.where(np.arange(100) % 2, 1.0, -1.0)
    real = [trace(wave), trace(wave + own * noise)]
    traces = {
        ("emulation", 0): real[0],
        ("emulation", 1): real[1],
        ("simulation", 0): trace(wave + apart),
        ("simulation", 1): trace(wave + own * noise + apart),
    }
    row = only(
        pairs([1.0, 1.0], [1.0, 1.0]),
        RMSE,
        trace_of=lambda record: traces[record["backend"], record["seed"]],
        **options,
    )
    assert row.verdict == verdict
    assert row.simulation.mean == pytest.approx(apart, rel=1e-6)
    assert row.error == pytest.approx(apart / np.mean([one.queue_bytes.mean() for one in real]))
    assert row.note == "twin late by 0 to 0 ms"
    assert row.emulation.runs == (0 if options else 1)


def test_runs_without_a_trace_are_not_measured() -> None:
    row = only(pairs([1.0], [1.0]), RMSE, trace_of=lambda _: None)
    assert (row.verdict, row.note) == (MISSING, "the steps hold no queue")


def found(*records: dict[str, Any]) -> Comparison:
    quantities = [QUEUE, DROPS]
    return Comparison(quantities, twin_errors(records, quantities, "ok"), records, "ok")


def test_markdown_marks_verdicts_and_gives_reasons() -> None:
    records = pairs([1100.0, 1100.0], [900.0, 1100.0])
    records += pairs([2000.0], [1000.0], policy="reno")
    records += pairs([1.0], [1.0], policy="dctcp", status="invalid")
    text = markdown(found(*records))
    assert "0 within tolerance, 1 within the emulation's own spread, 1 beyond" in text
    assert "| `cubic` | 1.00 ± 0.10, 1.10 ± 0.00: *+10 %* |" in text
    assert "| `reno` | 1.00, 2.00: **+100 %** |" in text
    assert "| `dctcp` | - |" in text
    assert "Not counted for their fidelity: 2 of 8 runs" in text
    assert "Not measured: everything of case dctcp: emulation invalid." in text


def test_runs_that_count_but_fell_behind_are_named() -> None:
    records = pairs([1.0], [1.0], status="degraded")
    told = Comparison([QUEUE], twin_errors(records, [QUEUE]), records).notes()
    assert told == [
        "The machine did not keep up in 2 of the runs that count: the machine was busy."
    ]


def test_numbers_are_short() -> None:
    twins = [1012.3, 900.4, 13000.0, 500.0]
    rows = [only(pairs([twin], [1000.0])) for twin in twins]
    assert [percent(row, QUEUE) for row in rows] == ["+1.2", "-10", ">999", "-50"]
    # No difference, though it is a large part of what there is; and one from nothing.
    assert percent(only(pairs([8.0], [1.0])), QUEUE) == "="
    assert percent(only(pairs([8.0], [0.0])), QUEUE) == "="
    assert percent(only(pairs([80.0], [0.0])), QUEUE) == ">0"
    row = only(pairs([1.0], [123456.0]))
    assert sample_text(row.emulation, QUEUE) == "123.5"


def test_cases_run_on_both_backends_with_every_policy_that_both_have() -> None:
    suite = congestion_suite()
    check_suite(suite)
    assert suite.case_names[:2] == ("dumbbell-10-simulation", "dumbbell-10-emulation")
    assert {case.env["backend"] for case in suite.cases} == {"simulation", "emulation"}
    assert {"cubic", "reno", "dctcp", "new-vegas", "fixed-share", "fair-share", "random"} <= {
        *suite.policies
    }
    fit, others = congestion_policies()
    assert fit == suite.policies and not set(fit) & set(others)
    assert {*CONGESTION_CONTROLS} - {AGENT_CONTROL} <= {*fit}
    assert draws_actions("random") and not draws_actions("cubic")
    assert SUITES.find("congestion-twin-error").cases == suite.cases


def test_a_case_has_a_length_of_its_own_unless_one_is_given() -> None:
    own = congestion_suite(["web-search"])
    assert {case.episode_s for case in own.cases} == {TWIN_CASES["web-search"].episode_s}
    assert {case.episode_s for case in congestion_suite(["web-search"], 5.0).cases} == {5.0}
    names = congestion_suite(["incast"], repeats=3).case_names
    assert names == ("incast-simulation", *(f"incast-emulation{n}" for n in ("", "-2", "-3")))


def test_policies_that_a_backend_cannot_run_do_not_fit() -> None:
    env = {"backend": "dcgym.testing:FakeBackend"}
    assert fit_policies(("cubic", "bbr"), env) == ("cubic", "bbr")
    assert fit_policies(("ppo",), {"backend": "simulation"}) == ("ppo",)


def test_balancing_is_compared_in_the_same_way() -> None:
    metrics = {one.metric: 1.0 for one in BALANCING}
    records = [
        {**run(backend, 0, **metrics), "scenario": backend}
        for backend in ("simulation", "emulation")
    ]
    rows = twin_errors(records, BALANCING)
    assert [row.metric for row in rows] == [one.metric for one in BALANCING]
    assert {(row.case, row.verdict) for row in rows} == {("", OK)}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--cases", "dumbell-10"), "cases: value 'dumbell-10' .*did you mean 'dumbbell-10'"),
        (("--cases", "incast,incast"), "each once"),
        (("--repeats", "0"), "repeats: value 0"),
        (("--seconds", "0"), "seconds: value 0.0"),
        (("--require-fidelity", "good"), "require_fidelity: value 'good'"),
        (("--out", "/proc/none"), "out: value '/proc/none'"),
        (("--markdown", "/proc/none.md"), "markdown: value '/proc/none.md'"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], words: str) -> None:
    done = dcgym("twin-error", "congestion", *arguments)
    assert done.returncode == 2, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("dcgym: ")]
    assert re.search(words, line)


def test_after_a_failure_the_finished_runs_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise BackendError("the emulator of dumbbell-10-emulation-reno-1 ended")

    finished = [
        {**record, "scenario": f"dumbbell-10-{record['backend']}", "metrics": {"drops": 5.0}}
        for record in pairs([1.0], [1.0])
    ]
    monkeypatch.setattr(runs, "run_matrix", fail)
    monkeypatch.setattr(runs, "finished_records", lambda *_: finished)
    command = ("twin-error", "congestion", "--cases", "dumbbell-10", "--out", str(tmp_path))
    done = dcgym(*command, "--markdown", str(tmp_path / "table.md"))
    assert done.returncode == 1 and "emulation-reno-1 ended" in done.stderr
    assert "1 within tolerance" in done.stdout
    assert "| `cubic` | - | 5.00, 5.00: +0.0 % |" in (tmp_path / "table.md").read_text()
    finished.pop()
    done = dcgym(*command)
    assert done.returncode == 1 and not done.stdout


def comparison(out: Path) -> list[str]:
    """Return the command of a small one."""
    command = ["twin-error", "congestion", "--cases", "dumbbell-10", "--policies", "cubic"]
    command += ["--seeds", "1", "--seconds", "3", "--require-fidelity", "invalid"]
    return [*command, "--out", str(out)]


@pytest.mark.emulation
@pytest.mark.simulation
def test_the_command_compares_both_backends(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    table = tmp_path / "table.md"
    command = [*comparison(tmp_path / "out"), "--markdown", str(table)]
    done = dcgym(*command)
    assert done.returncode == 0, done.stderr
    errors, found, _ = done.stdout.partition("within tolerance")
    # A table that a terminal has room for; prose is on one line in a file.
    assert found and max(map(len, errors.splitlines()[:-1])) <= 80
    assert " cubic " in errors
    assert "| `cubic` |" in table.read_text()
    page = (tmp_path / "out" / "report.html").read_text()
    assert pictures_of(page) and "The fullest queue" in page
    (tmp_path / "out" / "report.html").unlink()
    again = dcgym("report", str(tmp_path / "out"))
    assert again.returncode == 0 and "within tolerance" in again.stdout, again.stderr
    assert "The fullest queue" in (tmp_path / "out" / "report.html").read_text()
    rows = {row["metric"]: row for row in json.loads(dcgym(*command, "--json").stdout)}
    assert math.isfinite(rows["goodput_bps"]["error"]), "nothing was carried in the emulation"
    assert {one.metric for one in NETWORK if "fct" not in one.metric} >= rows.keys() >= {TRACE}


@pytest.mark.timing
@pytest.mark.emulation
@pytest.mark.simulation
def test_two_bulk_flows_fill_the_link_of_both_backends(tmp_path: Path) -> None:
    done = dcgym(*comparison(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    (error,) = [row["error"] for row in json.loads(done.stdout) if row["metric"] == "goodput_bps"]
    assert abs(error) < 0.1
