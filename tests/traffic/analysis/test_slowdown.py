"""Ideal completion times and slowdowns against cases computed by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dcgym.topologies import Topology, dumbbell, fat_tree
from dcgym.traffic import Flow, Plan, make_plan
from dcgym.traffic.analysis.ideal import ideal_completion_ns
from dcgym.traffic.analysis.progress import find_origin_ns
from dcgym.traffic.analysis.slowdown import (
    Runs,
    flow_metrics,
    gather_runs,
    size_table,
    slowdowns_by_length,
)
from dcgym.traffic.analysis.survival import Survival, enough_for
from dcgym.traffic.generators.view import CUT, FINISHED, RECORD_DTYPE, REFUSED

ORIGIN_NS = 10**12


def ideals(topology: Topology, *flows: Flow) -> list[float]:
    hosts = [host.name for host in topology.hosts]
    return ideal_completion_ns(Plan("test", 0, flows).to_records(hosts), topology).tolist()


def record(number: int, outcome: int, planned_ms: float, end_ms: float, size: int) -> Any:
    row = np.zeros(1, RECORD_DTYPE)
    row["id"], row["outcome"], row["bytes"] = number, outcome, size
    row["planned_start_ns"] = ORIGIN_NS + round(planned_ms * 1e6)
    row["end_ns"] = ORIGIN_NS + round(end_ms * 1e6)
    return row


def gather(
    topology: Topology, flows: tuple[Flow, ...], rows: list[Any], end_ms: float, warmup_ms: int = 0
) -> Runs:
    records = np.concatenate([np.zeros(0, RECORD_DTYPE), *rows])
    plan = Plan("test", 0, flows)
    return gather_runs(
        plan, records, topology, ORIGIN_NS + round(end_ms * 1e6), ORIGIN_NS, warmup_ms * 10**6
    )


@pytest.fixture(scope="module")
def line() -> Topology:
    """Three links of 10 Mbit/s in a row."""
    return dumbbell(hosts=2, rate="10Mbit")


def test_ideal_of_one_packet_over_three_links(line: Topology) -> None:
    # 1000 + 66 bytes take 852.8 us on each link; the handshake is 6 times 74 bytes, 59.2 us each.
    assert ideals(line, Flow("h1", "h2", size_bytes=1000)) == pytest.approx(
        [3 * 852_800 + 6 * 59_200]
    )
    # UDP: no handshake, 42 bytes of headers; sent at 100 Mbit/s it is limited by the link.
    udp = Flow("h1", "h2", "udp", size_bytes=1000, rate_bps=10**8)
    assert ideals(line, udp) == pytest.approx([3 * 833_600])


def test_ideal_of_many_packets_pipelines_them(line: Topology) -> None:
    # 10 packets of 1514 bytes on the bottleneck, the first one on two more links.
    (ideal_ns,) = ideals(line, Flow("h1", "h2", size_bytes=14_480))
    assert ideal_ns == pytest.approx((10 + 2) * 1_211_200 + 6 * 59_200)


def test_ideal_counts_a_partial_packet_as_a_packet(line: Topology) -> None:
    (ideal_ns,) = ideals(line, Flow("h1", "h2", size_bytes=1449))
    # 1449 bytes and two headers; a full first packet on the other links.
    assert ideal_ns == pytest.approx((1449 + 132) * 800 + 2 * 1_211_200 + 6 * 59_200)


def test_ideal_takes_the_slowest_link_and_the_delays() -> None:
    topology = dumbbell(hosts=2, rate="100Mbit", core_rate="10Mbit", delay="1ms")
    (ideal_ns,) = ideals(topology, Flow("h1", "h2", size_bytes=14_480))
    # Serialisation of 1514 bytes: 121.12 us at 100 Mbit/s; 74 bytes: 5.92 us and 59.2 us.
    data_ns = 10 * 1_211_200 + 2 * 121_120 + 3_000_000
    assert ideal_ns == pytest.approx(data_ns + 2 * (2 * 5_920 + 59_200 + 3_000_000))


def test_ideal_follows_the_mtu_of_the_path() -> None:
    jumbo = dumbbell(hosts=2, rate="10Mbit", mtu=9000)
    (ideal_ns,) = ideals(jumbo, Flow("h1", "h2", size_bytes=89_480))
    assert ideal_ns == pytest.approx((10 + 2) * 9014 * 800 + 6 * 59_200)
    # Behind one switch packets are of 9014 bytes, over the core of 1514.
    mixed = dumbbell(hosts=4, rate="10Mbit", mtu=9000, tiers={"core": {"mtu": 1500}})
    near, far = ideals(mixed, *(Flow("h1", dst, size_bytes=8948) for dst in ("h2", "h3")))
    assert near == pytest.approx(2 * 9014 * 800 + 4 * 59_200)
    assert far == pytest.approx((8948 + 7 * 66) * 800 + 2 * 1_211_200 + 6 * 59_200)


def test_ideal_honours_the_cap_of_the_flow(line: Topology) -> None:
    (ideal_ns,) = ideals(line, Flow("h1", "h2", size_bytes=14_480, rate_bps=10**6))
    assert ideal_ns == pytest.approx(14_480 * 8_000 + 2 * 1_211_200 + 6 * 59_200)


def test_flows_without_a_size_have_no_ideal(line: Topology) -> None:
    assert math.isnan(ideals(line, Flow("h1", "h2", duration_ns=5))[0])


def test_ideal_of_a_fabric_counts_its_hops() -> None:
    fabric = fat_tree(k=4, rate="1Gbit")
    near, pod, far = ideals(
        fabric, *(Flow("h1", dst, size_bytes=1448) for dst in ("h2", "h3", "h16"))
    )
    # 2, 4 and 6 links: 12.112 us of data and 2 * 0.592 us of handshake on each.
    assert [near, pod, far] == pytest.approx([n * (12_112 + 1_184) for n in (2, 4, 6)])


def test_runs_join_plan_and_records(line: Topology) -> None:
    flows = (
        Flow("h1", "h2", size_bytes=1000),
        Flow("h1", "h2", size_bytes=1000, start_ns=5_000_000),
        Flow("h1", "h2", size_bytes=1000, start_ns=6_000_000),
        Flow("h1", "h2", size_bytes=1000, start_ns=40_000_000),
        Flow("h1", "h2", duration_ns=10**9),
        Flow("h1", "h2", size_bytes=1000, start_ns=7_000_000),
    )
    rows = [
        record(0, FINISHED, 0, 4, 1000),
        record(5, REFUSED, 7, 8, 0),
        record(4, CUT, 0, 30, 9),
        record(1, CUT, 5, 30, 500),
    ]
    runs = gather(line, flows, rows, end_ms=30)
    # The third flow has no record and counts from its planned start; the fourth was not due.
    assert runs.elapsed_ns.tolist() == [4e6, 1e6, 25e6, 24e6]
    assert runs.is_finished.tolist() == [True, False, False, False]
    assert runs.is_failed.tolist() == [False, True, False, False]
    metrics = flow_metrics(runs)
    names = ("flows", "flows_finished", "flows_censored", "flows_failed")
    assert [metrics[name] for name in names] == [4, 1, 2, 1]


def test_flows_that_were_not_due_do_not_count(line: Topology) -> None:
    flows = tuple(Flow("h1", "h2", size_bytes=1000, start_ns=ms * 10**6) for ms in (0, 29, 31, 40))
    rows = [record(0, FINISHED, 0, 4, 1000), record(1, CUT, 29, 32, 9), record(2, CUT, 31, 32, 0)]
    assert gather(line, flows, rows, end_ms=30).elapsed_ns.tolist() == [4e6, 3e6]


def test_repeated_flows_count_each_run_and_the_open_one(line: Topology) -> None:
    flows = (Flow("h1", "h2", size_bytes=1000, repetitions=3, gap_ns=1_000_000),)
    rows = [record(0, FINISHED, 0, 4, 1000), record(0, FINISHED, 5, 9, 1000)]
    runs = gather(line, flows, rows, end_ms=30)
    assert runs.elapsed_ns.tolist() == [4e6, 4e6, 20e6]
    assert len(gather(line, flows, [*rows, record(0, CUT, 10, 30, 0)], end_ms=30)) == 3
    assert len(gather(line, flows, rows, end_ms=9.5)) == 2


def test_endless_repetitions_stay_open(line: Topology) -> None:
    flows = (Flow("h1", "h2", size_bytes=1000, repetitions=0),)
    runs = gather(line, flows, [record(0, FINISHED, 0, 4, 1000)], end_ms=30)
    assert runs.elapsed_ns.tolist() == [4e6, 26e6]


def test_waiting_flows_are_due_once_their_predecessor_ended(line: Topology) -> None:
    flows = (
        Flow("h1", "h2", size_bytes=1000),
        Flow("h1", "h2", size_bytes=1000, start_ns=2_000_000, after=0),
        Flow("h1", "h2", size_bytes=1000, start_ns=2_000_000, after=1),
    )
    runs = gather(line, flows, [record(0, FINISHED, 0, 4, 1000)], end_ms=30)
    assert runs.elapsed_ns.tolist() == [4e6, 24e6]
    assert gather(line, flows, [], end_ms=30).elapsed_ns.tolist() == [30e6]
    assert gather(line, flows, [record(0, CUT, 0, 30, 5)], end_ms=30).elapsed_ns.tolist() == [30e6]


def test_a_flow_ended_by_its_duration_is_unfinished(line: Topology) -> None:
    flows = (Flow("h1", "h2", size_bytes=1000, duration_ns=3_000_000),)
    runs = gather(line, flows, [record(0, FINISHED, 0, 3, 400)], end_ms=30)
    assert runs.is_finished.tolist() == [False]
    assert not runs.is_failed.any()


def test_warm_up_leaves_early_runs_out(line: Topology) -> None:
    flows = (Flow("h1", "h2", size_bytes=1), Flow("h1", "h2", size_bytes=1, start_ns=10**7))
    rows = [record(0, FINISHED, 0, 4, 1), record(1, FINISHED, 10, 12, 1)]
    assert gather(line, flows, rows, end_ms=30, warmup_ms=10).elapsed_ns.tolist() == [2e6]


def test_slowdown_is_the_ratio_to_the_ideal(line: Topology) -> None:
    flows = tuple(Flow("h1", "h2", size_bytes=1000, start_ns=i) for i in range(100))
    ideal_ms = (3 * 852.8 + 6 * 59.2) / 1e3
    rows = [
        record(i, FINISHED, i / 1e6, i / 1e6 + (1, 2, 3, 10)[i % 4] * ideal_ms, 1000)
        for i in range(100)
    ]
    metrics = flow_metrics(gather(line, flows, rows, end_ms=300))
    expected = {"mean": 4.0, "p50": 2.0, "p95": 10.0, "p99": 10.0}
    for name, value in expected.items():
        assert metrics[f"slowdown_{name}"] == pytest.approx(value, rel=1e-6)
    assert metrics["fct_us_mean"] == pytest.approx(4 * ideal_ms * 1e3, rel=1e-6)
    assert metrics["fct_us_p50"] == pytest.approx(2 * ideal_ms * 1e3, rel=1e-6)


def test_a_percentile_needs_flows_beyond_it(line: Topology) -> None:
    flows = tuple(Flow("h1", "h2", size_bytes=1000, start_ns=i) for i in range(99))
    rows = [record(i, FINISHED, i / 1e6, i / 1e6 + 50, 1000) for i in range(99)]
    metrics = flow_metrics(gather(line, flows, rows, end_ms=300))
    assert np.isnan(metrics["fct_us_p99"]) and np.isnan(metrics["slowdown_p99"])
    assert metrics["fct_us_p95"] == metrics["fct_us_mean"] == pytest.approx(50e3)
    assert [enough_for(0.99, n) for n in (99, 100)] == [False, True]
    assert [enough_for(0.9, n) for n in (9, 10)] == [False, True]


def test_sizes_are_told_apart_at_their_borders() -> None:
    sizes = np.array([1, 10_000, 10_001, 1_000_000, 1_000_001, 10**9])
    ones = np.ones(6)
    runs = Runs(sizes, ones, ones, np.ones(6, bool), np.zeros(6, bool))
    table = {row["sizes"]: row["flows"] for row in size_table(runs)}
    assert table == {"up to 10 KB": 2, "10 KB to 100 KB": 1, "100 KB to 1 MB": 1, "over 1 MB": 2}


def test_short_flows_are_up_to_100_kb_and_long_ones_over_1_mb() -> None:
    sizes = np.repeat([1, 100_000, 100_001, 1_000_000, 1_000_001], [60, 60, 100, 100, 2])
    elapsed_ns = sizes.astype(np.float64)
    finished = np.ones(len(sizes), bool)
    runs = Runs(sizes, elapsed_ns, np.ones(len(sizes)), finished, ~finished)
    found = slowdowns_by_length(runs)
    assert found["slowdown_mean_short"] == pytest.approx((1 + 100_000) / 2)
    assert found["slowdown_p99_short"] == 100_000
    assert found["slowdown_mean_long"] == 1_000_001
    # Two of them say nothing of a hundredth.
    assert np.isnan(found["slowdown_p99_long"])
    small = runs.select(sizes == 100_001)
    assert slowdowns_by_length(small) == {}


def test_the_origin_is_read_from_a_first_run() -> None:
    plan = Plan("test", 0, (Flow("h1", "h2", size_bytes=1, start_ns=3_000_000, repetitions=2),))
    again = record(0, FINISHED, 9, 10, 1)
    again["repetition"] = 1
    assert find_origin_ns(plan, again, 7) == 7
    both = np.concatenate([again, record(0, FINISHED, 3, 5, 1)])
    assert find_origin_ns(plan, both, 7) == ORIGIN_NS


def test_no_runs_have_no_metrics(line: Topology) -> None:
    assert flow_metrics(gather(line, (Flow("h1", "h2"),), [], end_ms=30)) == {}


def durations(*values: float) -> npt.NDArray[np.float64]:
    return np.array(values, np.float64)


def test_survival_without_censoring_is_the_plain_distribution() -> None:
    values = durations(4, 1, 3, 2, 2)
    survival = Survival(values, np.ones(5, bool))
    assert survival.mean() == pytest.approx(2.4)
    assert [survival.quantile(q) for q in (0.2, 0.21, 0.6, 0.8, 0.99)] == [1, 2, 2, 3, 4]


def test_survival_with_censoring_by_hand() -> None:
    """Ends at 1, 3, 4; unfinished at 2 and 5: S = 4/5, 4/5 * 2/3 = 8/15, 4/15."""
    survival = Survival(durations(1, 2, 3, 4, 5), np.array([True, False, True, True, False]))
    assert [survival.quantile(q) for q in (0.2, 0.4, 7 / 15, 0.7, 11 / 15)] == [1, 3, 3, 4, 4]
    assert math.isnan(survival.quantile(0.75))
    # Area under the steps up to the last time seen: 1 + 2 * 4/5 + 8/15 + 4/15.
    assert survival.mean() == pytest.approx(3.4)


def test_survival_is_unbiased_where_dropping_the_unfinished_is_not() -> None:
    """Exponential durations of mean 1, watched for exponential times of mean 2."""
    rng = np.random.default_rng(1)
    durations_s, watched_s = rng.exponential(1.0, 100_000), rng.exponential(2.0, 100_000)
    is_observed = durations_s <= watched_s
    survival = Survival(np.minimum(durations_s, watched_s), is_observed)
    assert survival.quantile(0.5) == pytest.approx(math.log(2), rel=0.02)
    assert survival.quantile(0.95) == pytest.approx(math.log(20), rel=0.03)
    assert durations_s[is_observed].mean() < 0.7


def test_large_plans_are_joined_by_columns() -> None:
    fabric = fat_tree(k=4, rate="1Gbit")
    spec = {"name": "poisson", "sizes": "10KB", "flows_per_s": 2000, "duration": "10s"}
    plan = make_plan(spec, fabric, 1)
    rows = np.zeros(len(plan), RECORD_DTYPE)
    rows["id"], rows["outcome"] = np.arange(len(plan))[::-1], FINISHED
    rows["bytes"] = 10_000
    rows["planned_start_ns"] = ORIGIN_NS + plan.records["start_ns"][::-1]
    rows["end_ns"] = rows["planned_start_ns"] + 1_000_000
    runs = gather_runs(plan, rows[10:], fabric, ORIGIN_NS + 10**10, ORIGIN_NS)
    metrics = flow_metrics(runs)
    assert metrics["flows"] == len(plan)
    assert metrics["flows_censored"] == 10
    assert metrics["fct_us_p50"] == 1000
