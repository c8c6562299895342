"""Fidelity: limits, the audit's arithmetic, and what the preflight makes of what it saw."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcgym.backends.emulation.audit import preflight
from dcgym.backends.emulation.audit.fidelity import FidelityAudit
from dcgym.backends.emulation.audit.links import LinkAudit, rate_bounds_bps
from dcgym.backends.emulation.audit.machine_load import MachineLoad
from dcgym.backends.emulation.audit.preflight import Trace, evaluate
from dcgym.backends.fidelity import LIMITS, judge
from dcgym.backends.records import Fidelity
from dcgym.monitors import PORT, Snapshot
from dcgym.tasks.network.events import make_events
from dcgym.topologies import dumbbell
from dcgym.traffic.generators.view import CUT, FINISHED, REFUSED, RESET

ROOT = Path(__file__).resolve().parents[3]
IDLE = MachineLoad(0.0, 1000.0, 900.0, 0.0, 10_000, 0, 0, 0.0, 0.0)
NO_FLOWS = np.empty(0, [("start_ns", "<u8"), ("planned_start_ns", "<u8")])
RATE_BPS, BURST_BYTES = 10_000_000, 3_028


def later(seconds: float, **changes: float) -> MachineLoad:
    ticks = 200 * seconds
    values: dict[str, Any] = {
        "time_us": IDLE.time_us + seconds * 1e6,
        "cpu_ticks": IDLE.cpu_ticks + ticks,
        "idle_ticks": IDLE.idle_ticks + 0.8 * ticks,
        "pressure_us": 0.0,
        "packets": 20_000,
        "dropped": 0,
        "squeezed": 0,
        "waited_us": 0.0,
        "turns": 100.0,
    }
    return MachineLoad(**(values | changes))


def audit(met_empty: Any = lambda: np.zeros(1, np.uint64), **options: Any) -> FidelityAudit:
    links = LinkAudit([RATE_BPS], [RATE_BPS], [BURST_BYTES], [1514], met_empty)
    return FidelityAudit(IDLE, links, **options)


def snapshot(time_ns: int, tx_bytes: int, backlog_bytes: int = 0) -> Snapshot:
    ports = np.zeros(1, PORT)
    ports["tx_bytes"], ports["backlog_bytes"] = tx_bytes, backlog_bytes
    return Snapshot(time_ns, ports, np.zeros(0))


def test_each_limit_has_its_three_answers() -> None:
    for name, limit in LIMITS.items():
        sign = -1 if limit.is_least else 1
        beyond = {
            "ok": limit.degraded,
            "degraded": limit.invalid,
            "invalid": limit.invalid + sign * 1e-3,
        }
        for expected, value in beyond.items():
            verdict = judge({name: value})
            assert (verdict.status, len(verdict.reasons)) == (expected, expected != "ok"), name
        assert judge({name: math.nan}) == Fidelity(), name


def test_the_worst_figure_decides_and_each_bad_one_is_a_reason() -> None:
    figures = {"gap_share": 0.05, "softirq_dropped": 5000, "cpu_idle_share": 0.9}
    verdict = judge(figures, Fidelity("degraded", ("it is known",), {"load": 0.5}))
    assert verdict.status == "invalid"
    assert verdict.reasons == (
        "5.0% of the time belongs to no step",
        "soft interrupts lost 5000 packets before any queue",
        "it is known",
    )
    assert verdict.figures == {**figures, "load": 0.5}
    assert judge({}, Fidelity("degraded")).status == "degraded"


def test_the_guide_shows_the_same_limits() -> None:
    text = (ROOT / "docs/guides/fidelity.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([\d.]+) \| ([\d.]+) \|$", text, re.MULTILINE)
    found = {name: (float(degraded), float(invalid)) for name, degraded, invalid in rows}
    assert found == {name: (limit.degraded, limit.invalid) for name, limit in LIMITS.items()}


def test_a_quiet_episode_is_ok() -> None:
    watch = audit()
    for _ in range(100):
        watch.interval(80_000)
    watch.generator_silence(4_000_000)
    verdict = watch.verdict(later(5.0), NO_FLOWS)
    assert (verdict.status, verdict.reasons) == ("ok", ())
    assert verdict.figures["cpu_idle_share"] == pytest.approx(0.8)
    assert "generator_lag_ms_p99" not in verdict.figures


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"idle_ticks": 901.0}, "idle 0.1% of the time"),
        ({"pressure_us": 4.6e6}, "waited for a processor 92%"),
        ({"waited_us": 2e6}, "generator waited 20000 us"),
        ({"dropped": 5000}, "lost 5000 packets"),
    ],
)
def test_a_machine_that_could_not_keep_up_is_invalid(
    changes: dict[str, float], reason: str
) -> None:
    verdict = audit().verdict(later(5.0, **changes), NO_FLOWS)
    assert verdict.status == "invalid"
    assert reason in " ".join(verdict.reasons)


@pytest.mark.parametrize(("excess", "status"), [(0.0, "ok"), (0.03, "degraded"), (0.08, "invalid")])
def test_a_port_that_sends_more_than_its_rate_is_seen(excess: float, status: str) -> None:
    watch = audit()
    began_ns, passed_ns = 1_000_000_000, 400_000_000
    allowed = RATE_BPS * passed_ns / 8e9 + BURST_BYTES
    watch.links.look(snapshot(began_ns, 5000), began_ns + 10_000)
    watch.links.look(snapshot(began_ns + 1_000_000, 400_000), began_ns + 1_010_000)  # too soon
    ended_ns = began_ns + passed_ns - 10_000
    sent = 5000 + round(allowed * (1 + excess)) + 1514
    watch.links.look(snapshot(ended_ns, sent), began_ns + passed_ns)
    assert watch.verdict(later(1.0), NO_FLOWS).status == status


def watch_port(
    share: float, backlog_bytes: int = 3028, met_empty: Any = lambda: np.zeros(1, np.uint64)
) -> Fidelity:
    """Verdict on a port that sends this share of its rate for a second, a look every 50 ms."""
    watch = audit(met_empty)
    for number in range(21):
        time_ns = 10**9 + number * 50_000_000
        sent = round(number * 0.05 * RATE_BPS / 8 * share)
        watch.links.look(snapshot(time_ns, sent, backlog_bytes), time_ns)
    return watch.verdict(later(1.0), NO_FLOWS)


@pytest.mark.parametrize(("share", "status"), [(1.0, "ok"), (0.97, "degraded"), (0.9, "invalid")])
def test_a_port_that_falls_behind_its_rate_with_packets_waiting_is_seen(
    share: float, status: str
) -> None:
    verdict = watch_port(share)
    assert verdict.figures["rate_deficit"] == pytest.approx(1 - share, abs=1e-4)
    assert verdict.status == status


@pytest.mark.parametrize(
    ("lost", "status"), [(0, "ok"), (1, "degraded"), (2, "degraded"), (3, "invalid")]
)
def test_a_flow_that_a_tool_loses_is_seen(lost: int, status: str) -> None:
    watch = audit()
    outcomes = [REFUSED, RESET, REFUSED][:lost] + [FINISHED, CUT] * 100
    watch.tool_flows(np.array(outcomes[:200]))
    verdict = watch.verdict(later(1.0), NO_FLOWS)
    assert verdict.status == status
    assert any("lost" in reason for reason in verdict.reasons) == bool(lost)


def test_a_port_whose_queue_was_empty_now_and_then_may_send_less() -> None:
    arrivals = iter(range(100))
    for verdict in (
        watch_port(0.5, backlog_bytes=0),
        watch_port(0.5, met_empty=lambda: np.array([next(arrivals)], np.uint64)),
    ):
        assert verdict.status == "ok"
        assert "rate_deficit" not in verdict.figures


@pytest.mark.parametrize(("late", "status"), [(0, "ok"), (5, "degraded"), (20, "invalid")])
def test_a_generator_that_is_often_behind_is_seen(late: int, status: str) -> None:
    watch = audit()
    for look in range(100):
        watch.generator_silence(30_000_000 if look < late else 4_000_000)
    assert watch.verdict(later(1.0), NO_FLOWS).status == status


def test_flows_that_began_late_are_seen() -> None:
    flows = np.zeros(100, NO_FLOWS.dtype)
    flows["planned_start_ns"] = 10**9
    flows["start_ns"] = 10**9 + 200_000_000
    verdict = audit().verdict(later(1.0), flows)
    assert verdict.status == "invalid"
    assert verdict.figures["generator_lag_ms_p99"] == pytest.approx(200)


@pytest.mark.parametrize(
    ("lost", "status"), [(0, "ok"), (1, "degraded"), (1000, "degraded"), (1001, "invalid")]
)
def test_flow_records_that_nobody_read_are_seen(lost: int, status: str) -> None:
    watch = audit()
    watch.records_lost(lost)
    verdict = watch.verdict(later(1.0), NO_FLOWS)
    assert (verdict.status, verdict.figures["records_lost"]) == (status, lost)
    assert list(verdict.reasons) == (
        [f"{lost} flow records were overwritten before they were read"] if lost else []
    )


def test_the_preflight_is_part_of_every_verdict() -> None:
    verdict = audit(preflight={"preflight_rate_error": 0.5}).verdict(later(1.0), NO_FLOWS)
    assert verdict.status == "invalid"
    assert list(verdict.reasons) == ["preflight: a link's rate is 50.0% off"]


def filling(rate_bps: float, limit_bytes: int, mark_bytes: int) -> Trace:
    """A queue that fills at the rate it is emptied with, then drops; one look a millisecond."""
    time_ns = np.arange(600) * 1e6
    sent = time_ns * rate_bps / 8e9 // 1514 * 1514
    backlog = np.minimum(sent, limit_bytes // 1514 * 1514)
    return Trace(
        time_ns=time_ns,
        done_ns=time_ns + 20_000,
        backlog_bytes=backlog,
        peak_bytes=backlog,
        tx_bytes=sent,
        marks=np.maximum(backlog - mark_bytes, 0) // 1514,
        drops=np.maximum(sent - limit_bytes, 0) // 1514,
    )


def test_a_port_that_does_what_it_should_has_no_error() -> None:
    port = dumbbell().ports("s1")[0]
    assert evaluate(port, filling(10e6, 400_000, 30_000)) == {
        "preflight_rate_error": pytest.approx(0, abs=1e-3),
        "preflight_queue_error": 0.0,
        "preflight_mark_error": pytest.approx(0, abs=0.06),
    }


@pytest.mark.parametrize(
    ("name", "trace", "error"),
    [
        ("preflight_rate_error", filling(8e6, 400_000, 30_000), 0.2),
        ("preflight_rate_error", filling(12e6, 400_000, 30_000), 0.2),
        ("preflight_queue_error", filling(10e6, 300_000, 30_000), 0.25),
        ("preflight_queue_error", filling(10e6, 500_000, 30_000), 0.25),
        ("preflight_mark_error", filling(10e6, 400_000, 60_000), 0.95),
        ("preflight_mark_error", filling(10e6, 400_000, 1_000_000), 1.0),
    ],
)
def test_a_port_that_does_not_is_found_out(name: str, trace: Trace, error: float) -> None:
    figures = evaluate(dumbbell().ports("s1")[0], trace)
    assert figures[name] == pytest.approx(error, abs=0.03)
    others = {key: value for key, value in figures.items() if key != name}
    assert all(math.isnan(value) or value < 0.06 for value in others.values())


def test_a_queue_that_was_full_between_two_looks_has_no_error() -> None:
    trace = filling(10e6, 400_000, 30_000)
    missed = replace(trace, backlog_bytes=np.zeros(600))
    assert evaluate(dumbbell().ports("s1")[0], missed)["preflight_queue_error"] == 0.0


def test_what_was_not_loaded_is_not_judged() -> None:
    quiet = filling(10e6, 400_000, 30_000)
    still = Trace(*(np.zeros(600) for _ in vars(quiet)))
    assert all(math.isnan(value) for value in evaluate(dumbbell().ports("s1")[0], still).values())


@pytest.mark.parametrize(("seen_bps", "error"), [([9e6, 10e6], 0.0), ([9e6, 9e6], 0.1)])
def test_a_pause_of_the_machine_is_no_wrong_link(
    monkeypatch: pytest.MonkeyPatch, seen_bps: list[float], error: float
) -> None:
    traces = iter([filling(rate_bps, 400_000, 30_000) for rate_bps in seen_bps])
    right = filling(10e6, 400_000, 30_000)
    monkeypatch.setattr(preflight, "_fill", lambda *_: next(traces, right))
    monkeypatch.setattr(preflight, "_trace", lambda trace, _: trace)
    probe = preflight.Probe(
        look=lambda: pytest.fail("no look is needed"),
        burst=lambda *_: None,
        hold=lambda _: None,
        ping=lambda *_: "rtt min/avg/max/mdev = 0.5/0.5/0.5/0 ms",
        flush=lambda: None,
    )
    figures = preflight.run_preflight(dumbbell(), probe)
    assert figures["preflight_rate_error"] == pytest.approx(error, abs=5e-3)


def test_a_rate_that_an_event_changes_is_neither_excess_nor_deficit() -> None:
    topology = dumbbell()
    spec = [{"at": 1, "link": ["s1", "s2"], "action": "rate", "rate": "20Mbit"}]
    lowest, highest = rate_bounds_bps(topology, make_events(spec, topology))
    assert lowest == [10_000_000] * 6
    assert sorted(highest) == [10_000_000] * 4 + [20_000_000] * 2
    assert rate_bounds_bps(topology, ()) == ([10_000_000] * 6, [10_000_000] * 6)


@pytest.mark.parametrize(
    ("started", "late", "status"),
    [(99, 99, "ok"), (100, 1, "ok"), (100, 2, "degraded"), (100, 11, "invalid")],
)
def test_late_starts_count_from_a_hundred_flows_on(started: int, late: int, status: str) -> None:
    watch = audit()
    watch.starts(started, late)
    assert watch.verdict(later(1.0), NO_FLOWS).status == status


def test_late_links_and_full_ones_are_reasons() -> None:
    watch = audit()
    watch.link_delays({"delay_late_ms_p99": 12.0, "delay_late_ms_max": 30.0, "delay_overflow": 3})
    verdict = watch.verdict(later(5.0), NO_FLOWS)
    assert verdict.status == "invalid"
    assert verdict.reasons == (
        "links held packets 12.0 ms too long (p99)",
        "a link held a packet 30 ms too long",
        "links had no room for 3 packets on the wire",
    )


@pytest.mark.parametrize(
    ("fastest_ms", "excess_ms"), [(19.0, 1.0), (20.0, 0.0), (24.0, 0.0), (25.5, 1.5)]
)
def test_the_preflight_knows_delay_and_jitter(fastest_ms: float, excess_ms: float) -> None:
    core = {"delay": {"time": "10ms", "jitter": "2ms"}, "rate": "100Gbit"}
    topology = dumbbell(hosts=2, rate="100Gbit", tiers={"core": core})
    asked: list[tuple[Any, ...]] = []

    def ping(*arguments: Any) -> str:
        asked.append(arguments)
        return f"rtt min/avg/max/mdev = {fastest_ms}/30/40/1 ms"

    probe = preflight.Probe(*(lambda *_: None for _ in range(3)), ping=ping, flush=lambda: None)  # type: ignore[misc]
    found_ms = preflight._rtt_excess_ms(topology, probe, ["h1", "h2"])
    assert found_ms == pytest.approx(excess_ms, abs=1e-3)
    # Waits for the longest round trip, and a second.
    assert asked[0][2:] == (5, pytest.approx(1.024, abs=1e-4))


@pytest.mark.parametrize(("loss", "pings"), [(0.0, 5), (0.5, 49), (1.0, 201)])
def test_the_preflight_pings_until_an_answer_is_all_but_certain(loss: float, pings: int) -> None:
    # Both directions: log(1e-6) / log(1 - (1 - 0.5)^2) = 48.02.
    assert preflight._enough_pings((1 - loss) ** 2) == pings
