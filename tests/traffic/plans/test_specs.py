"""Specs of traffic: who sends, how often, at what load."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.topologies import Link, Topology, dumbbell, fat_tree, make_topology
from dcgym.traffic import KINDS, PLANS, Plan, make_plan
from dcgym.traffic.arrivals.load import link_amounts
from dcgym.traffic.plans.options import MOST_FLOWS


@pytest.fixture(scope="module")
def fabric() -> Topology:
    return fat_tree(k=4, rate="1Gbit")


def ends(plan: Plan) -> list[tuple[int, int]]:
    return [(int(flow.src[1:]), int(flow.dst[1:])) for flow in plan.flows]


def offered_bps(plan: Plan, topology: Topology, duration_s: float) -> dict[str, float]:
    """Return what each link gets, from the flows themselves."""
    index = {host.name: host.index for host in topology.hosts}
    table = np.array([index[name] for name in plan.hosts])
    pairs = table[np.stack([plan.records["src"], plan.records["dst"]], axis=1)]
    amounts = link_amounts(topology, pairs, plan.records["size_bytes"] * 8 / duration_s)
    names = [f"{port.node}-{port.peer}" for port in topology.directed_ports]
    return dict(zip(names, amounts.tolist(), strict=True))


def test_incast_n_has_n_senders_and_one_receiver(fabric: Topology) -> None:
    pairs = ends(make_plan("incast-5", fabric, 3))
    assert len({src for src, _ in pairs}) == 5 == len(pairs)
    assert {dst for _, dst in pairs} == {16}
    with pytest.raises(ConfigError, match=r"'incast-16' .*at most 15"):
        make_plan("incast-16", fabric)


def test_random_n_sends_to_n_different_others(fabric: Topology) -> None:
    pairs = ends(make_plan("random-3", fabric, 3))
    assert len(set(pairs)) == len(pairs) == 48
    assert all(src != dst for src, dst in pairs)
    assert Counter(src for src, _ in pairs) == Counter(dict.fromkeys(range(1, 17), 3))
    everyone = Counter(
        dst for seed in range(200) for _, dst in ends(make_plan("random", fabric, seed))
    )
    # 3200 draws over 16 hosts; chi-squared with 15 degrees of freedom exceeds 37.7 in 0.1 %.
    assert sum((count - 200) ** 2 / 200 for count in everyone.values()) < 37.7


def test_hotspot_gathers_half_of_the_flows(fabric: Topology) -> None:
    shares = []
    for seed in range(100):
        counts = Counter(dst for _, dst in ends(make_plan("hotspot", fabric, seed)))
        shares.append(max(counts.values()) / 16)
    # 15 of 16 hosts choose the hot one with 1/2, and by chance with 1/2 * 1/15.
    expected = 15 / 16 * (0.5 + 0.5 / 15)
    assert np.mean(shares) == pytest.approx(expected, abs=4 * 0.5 / math.sqrt(1600))


def test_staggered_probabilities(fabric: Topology) -> None:
    """Hosts 2i-1 and 2i share an edge switch, four in a row a pod of the fat-tree (k=4)."""
    places: Counter[str] = Counter()
    for seed in range(100):
        for src, dst in ends(make_plan("staggered-0.5-0.3", fabric, seed)):
            assert src != dst
            near = (src - 1) // 2 == (dst - 1) // 2
            pod = (src - 1) // 4 == (dst - 1) // 4
            places["edge" if near else "pod" if pod else "far"] += 1
    for place, share in (("edge", 0.5), ("pod", 0.3), ("far", 0.2)):
        error = 4 * math.sqrt(share * (1 - share) / 1600)
        assert places[place] / 1600 == pytest.approx(share, abs=error)


def test_staggered_without_pods_sends_farther() -> None:
    pairs = ends(make_plan("staggered-0-1", dumbbell(hosts=8), 1))
    assert all((src <= 4) != (dst <= 4) for src, dst in pairs)


@pytest.mark.parametrize("kind", ["single-switch", "leaf-spine", "bcube", "jellyfish"])
def test_patterns_fit_every_topology(kind: str) -> None:
    topology = make_topology(kind)
    for name in PLANS:
        make_plan({"name": name}, topology, 1)


@pytest.mark.parametrize("link", ["bottleneck", "h1-s9", "s9-s1"])
def test_poisson_offers_the_stated_load_of_the_stated_link(fabric: Topology, link: str) -> None:
    names = [f"{port.node}-{port.peer}" for port in fabric.directed_ports]
    if link != "bottleneck":
        first = fabric.host_ports[0]
        uplink = next(p for p in fabric.ports(first.peer) if p.peer not in ("h1", "h2"))
        link = f"h1-{first.peer}" if link == "h1-s9" else f"{first.peer}-{uplink.peer}"
        assert link in names
    spec = {
        "name": "poisson",
        "sizes": {"name": "exponential", "mean": "100KB"},
        "load": 0.5,
        "link": link,
        "duration": "20s",
    }
    plan = make_plan(spec, fabric, 2)
    offered = offered_bps(plan, fabric, 20.0)
    bps = max(offered.values()) if link == "bottleneck" else offered[link]
    # About n flows of exponential size cross the link: relative deviation sqrt(2 / n).
    flows = 0.5e9 * 20 / 8e5
    # The fullest of 96 equal links lies up to 3.3 standard deviations above the mean.
    slack = 4 if link != "bottleneck" else 5
    assert bps / 1e9 == pytest.approx(0.5, rel=slack * math.sqrt(2 / flows))


def test_load_accounts_for_the_share_that_crosses_the_link() -> None:
    """All pairs of 4 hosts on a dumbbell: 1/3 of each side's flows go to the other neighbour."""
    spec = {"name": "poisson", "sizes": "10KB", "load": 0.9, "arrivals": "periodic"}
    plan = make_plan({**spec, "duration": "100s"}, dumbbell(hosts=4, rate="10Mbit"), 1)
    # 8 of 12 pairs cross, 4 in each direction: the core carries a third of all bytes one way.
    assert len(plan) == pytest.approx(0.9 * 1e7 * 100 / 8e4 * 3, abs=1)


def test_overload_is_refused_unless_allowed(fabric: Topology) -> None:
    spec: dict[str, Any] = {"name": "poisson", "sizes": "10KB", "load": 1.2, "duration": "10ms"}
    with pytest.raises(ConfigError, match=r"traffic\.load: value 1\.2 .* would get 1\.2"):
        make_plan(spec, fabric)
    make_plan({**spec, "allow_overload": True}, fabric)
    make_plan({**spec, "load": 1}, fabric)
    with pytest.raises(ConfigError, match=r"traffic\.flows_per_s: .*allow_overload"):
        make_plan({"name": "poisson", "sizes": "1MB", "flows_per_s": 1e5}, fabric)
    # Half a load of the core is more than the access link of the only sender carries.
    narrow = dumbbell(hosts=2, rate="10Mbit", core_rate="100Mbit")
    with pytest.raises(ConfigError, match="h1-s1 would get 5"):
        make_plan({**spec, "load": 0.5, "link": "s1-s2", "pairs": "pairs"}, narrow)


def test_incast_bursts_share_start_receiver_and_label(fabric: Topology) -> None:
    spec = {"name": "incast-bursts", "sizes": "32KB", "senders": 6, "flows_per_s": 600}
    plan = make_plan({**spec, "duration": "10s"}, fabric, 4)
    records = plan.records
    assert len(plan) % 6 == 0 and len(plan) == pytest.approx(6000, abs=4 * 6 * math.sqrt(1000))
    for burst in records.reshape(-1, 6)[:50]:
        assert len(set(burst["src"].tolist())) == 6
        assert len(set(burst["dst"].tolist())) == len(set(burst["start_ns"].tolist())) == 1
        assert len(set(burst["group"].tolist())) == 1
    groups = records["group"].reshape(-1, 6)[:, 0]
    assert groups.tolist() == list(range(1, len(groups) + 1))


def test_traffic_needs_two_hosts() -> None:
    link = Link("h1", "s1", 10**7, 400_000, None)
    alone = Topology.build("alone", [("h1", "host"), ("s1", "switch")], [link])
    for name in ("pairs", "random", "incast-bursts-0.3", "cache-0.5"):
        with pytest.raises(ConfigError, match=r"topology\.hosts: value 1 .*two hosts or more"):
            make_plan(name, alone)


def test_closed_loop_chains_the_requests_of_each_user() -> None:
    spec = {"name": "closed-loop", "sizes": "10KB", "think": "5ms", "users": 2, "requests": 3}
    plan = make_plan(spec, dumbbell(hosts=4))
    assert [flow.after for flow in plan.flows] == [None, 0, 1, None, 3, 4, None, 6, 7, None, 9, 10]
    assert {flow.start_ns for flow in plan.flows} == {5_000_000}
    assert [flow.src for flow in plan.flows] == ["h1"] * 6 + ["h2"] * 6


def test_a_timed_closed_loop_plans_what_an_empty_network_could_carry() -> None:
    """10 KB take 8 ms at 10 Mbit/s, and 2 ms of thought: a request every 10 ms."""
    spec = {"name": "closed-loop", "sizes": "10KB", "think": "2ms", "duration": "1s"}
    plan = make_plan({**spec, "start": "1s"}, dumbbell(hosts=2, rate="10Mbit"))
    assert len(plan) == 100
    assert plan.records["start_ns"][:2].tolist() == [1_002_000_000, 2_000_000]


def test_mix_puts_parts_together_with_their_own_numbers(fabric: Topology) -> None:
    bursts = {"name": "incast-bursts", "sizes": "32KB", "flows_per_s": 80, "duration": "1s"}
    loop = {"name": "closed-loop", "sizes": "1KB", "requests": 2}
    plan = make_plan({"mix": [bursts, loop, bursts, "stride-8"]}, fabric, 9)
    alone = make_plan({"mix": [bursts]}, fabric, 9)
    n, m = len(alone), 16
    assert plan.name == "incast-bursts+closed-loop+incast-bursts+stride-8"
    assert np.array_equal(plan.records[:n], alone.records)
    # The same spec twice is not the same traffic twice.
    assert not np.array_equal(plan.records["start_ns"][n + m : -16], alone.records["start_ns"])
    assert plan.records["after"][n : n + 4].tolist() == [-1, n, -1, n + 2]
    groups = plan.records["group"]
    assert groups[n + m] == groups[:n].max() + 1
    assert not groups[n : n + m].any() and not groups[-16:].any()


@pytest.mark.parametrize(
    "text",
    [
        "time_s,size_bytes,src,dst\n5.5,100,h1,h2\n5,50,10.0.0.3,h4\n",
        "time_s;size_bytes;src;dst\n5,5;1e2;h1;h2\n5;50;10.0.0.3;h4\n",
    ],
)
def test_recorded_arrivals_keep_times_sizes_and_ends(
    text: str, fabric: Topology, tmp_path: Path
) -> None:
    path = tmp_path / "arrivals.csv"
    path.write_text(text, "utf-8")
    spec = {"name": "recorded", "file": str(path), "time_compression": 10, "scale": 2}
    plan = make_plan({**spec, "start": "1s"}, fabric)
    found = [(flow.src, flow.dst, flow.start_ns, flow.size_bytes) for flow in plan.flows]
    assert found == [("h3", "h4", 10**9, 100), ("h1", "h2", 1_050_000_000, 200)]


def test_recorded_arrivals_without_ends_are_spread(fabric: Topology, tmp_path: Path) -> None:
    path = tmp_path / "arrivals.csv"
    rows = "".join(f"{i * 1000},{i + 1}\n" for i in range(500))
    path.write_text("time_ns,size_bytes\n" + rows, "utf-8")
    plan = make_plan({"name": "recorded", "file": path, "pairs": "stride-4"}, fabric, 1)
    assert plan.records["start_ns"].tolist() == [i * 1000 for i in range(500)]
    assert plan.records["size_bytes"].tolist() == list(range(1, 501))
    assert len(plan.pair_counts()) == 16
    assert all((dst - src) % 16 == 4 for src, dst in ends(plan))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time_s,size_bytes\n1,5\n-1,5\n", r"a\.csv, line 3, time_s: value '-1'"),
        ("time_s,size_bytes\n1,x\n", r"a\.csv, line 2, size_bytes: value 'x'"),
        ("time_s,size_bytes\nnan,5\n", r"a\.csv, line 2, time_s: value 'nan'"),
        ("time_s,size_bytes\n1e300,5\n", r"a\.csv, line 2, time_s"),
        ("time_s,size_bytes,src,dst\n1,5,h1,h99\n", r"line 2, dst: value 'h99' .*mean 'h9'"),
        ("time_s,size_bytes,src\n1,5,h1\n", "both src and dst"),
        ("time_s,time_ns,size_bytes\n1,1,1\n", "one of the columns"),
        ("when,size_bytes\n1,1\n", r"a\.csv, column: value 'when'"),
        ("time_s\n1\n", "a column size_bytes"),
    ],
)
def test_wrong_recordings_name_row_and_column(
    text: str, message: str, fabric: Topology, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=message):
        make_plan({"name": "recorded", "file": path}, fabric)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"name": "poisson", "load": 0.5}, "traffic.sizes: value None"),
        ({"name": "poisson", "sizes": "1KB", "load": 0.1, "flows_per_s": 5}, "either a load or"),
        ({"name": "poisson", "sizes": "1KB", "load": -1}, "traffic.load: value -1"),
        ({"name": "poisson", "sizes": "1KB", "load": 0.5, "link": "s1-s99"}, "traffic.link: value"),
        ({"name": "poisson", "sizes": "1KB", "load": 0.5, "pairs": "idle"}, "a pair or more"),
        ({"name": "poisson", "sizes": "1KB", "load": 0.5, "pairs": "strid-1"}, "did you mean"),
        ({"name": "poisson", "sizes": 1, "flows_per_s": 1e6}, f"most {MOST_FLOWS} flows"),
        (
            {"name": "poisson", "load": 0.5, "sizes": {"name": "pareto", "min": 9, "shape": 1}},
            "a finite mean",
        ),
        (
            {
                "name": "poisson",
                "load": 0.5,
                "sizes": "1KB",
                "arrivals": {"name": "pareto", "shape": 1},
            },
            "arrivals.shape: value 1",
        ),
        ({"name": "web-search-0.6", "lod": 0.3}, "did you mean 'load'"),
        ("web-search-1.5", "allow_overload"),
        ("staggered-0.8-0.3", "at most 1 together"),
        ({"name": "closed-loop", "sizes": "1KB", "requests": 1, "duration": 1}, "either requests"),
        ({"name": "closed-loop", "sizes": 1, "think": 0, "duration": "1h"}, "flows"),
        ({"name": "incast-bursts", "sizes": 9, "load": 0.1, "senders": 16}, "senders: value 16"),
        ({"mix": []}, "traffic.mix"),
        ({"name": "web-search-incast", "duration": 1}, "no options beside the name of a mix"),
        ({"mix": [{"load": 1}]}, r"traffic.mix\[0\]"),
        ({"mix": ["pairs"], "load": 1}, "traffic field: value 'load'"),
    ],
)
def test_bad_specs_give_one_line(spec: Any, message: str, fabric: Topology) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        make_plan(spec, fabric)
    assert "\n" not in str(caught.value)


# SHA-256 of the flows on a k=4 fat-tree of 1 Gbit/s with seed 1. A change here changes every
# result that was made with that traffic: it needs a new name, or a line in the release notes.
DIGESTS = {
    "pairs": "9a21ddb5ef36ec1d",
    "pairs-udp": "c3f24cb364353ef7",
    "incast": "c5072f17b018a931",
    "all-to-all": "164a513bec4fdbd7",
    "random": "694c79c3b6cfc09f",
    "random-bijection": "b787ff79959e069d",
    "permutation": "b787ff79959e069d",
    "hotspot": "0e2121c7b270f22b",
    "idle": "4f53cda18c2baa0c",
    "stride-1": "8480ed1077994c1c",
    "incast-2": "98cd84b32939403e",
    "staggered-0.5-0.3": "a0fad498e0df51cc",
    "web-search-0.6": "add0620b115aa028",
    "data-mining-0.6": "913c3092bd46aa03",
    "cache-0.6": "3115d936bd6c300a",
    "hadoop-0.6": "a5cb829ff3154415",
    "hadoop-closed-loop": "74d82f69583cc6f4",
    "web-search-incast": "7594f99c8d551fbd",
    "incast-bursts-0.3": "31c66dd12ac1cb3a",
}


@pytest.mark.parametrize("name", PLANS)
def test_named_plans_never_change(name: str, fabric: Topology) -> None:
    spec = {"name": name}
    if PLANS[name].get("name") in KINDS:
        spec["duration"] = "1s"
    plan = make_plan(spec, fabric, 1)
    assert plan.digest()[:16] == DIGESTS[name]
    assert make_plan(spec, fabric, 1) == plan


def test_the_name_of_a_load_stands_for_its_mapping(fabric: Topology) -> None:
    short = make_plan({"name": "cache-0.25", "duration": "1s"}, fabric, 5)
    spec = {"name": "poisson", "sizes": "cache", "load": 0.25, "duration": "1s"}
    assert short.digest() == make_plan(spec, fabric, 5).digest()
    slower = make_plan({"name": "cache-0.25", "duration": "1s", "flows_per_s": 9}, fabric, 5)
    assert len(slower) < 30 < len(short)


def test_changing_the_sizes_leaves_arrivals_and_pairs_alone(fabric: Topology) -> None:
    """Every use of chance has a stream of its own: comparisons stay paired."""
    spec = {"name": "poisson", "flows_per_s": 100, "duration": "1s"}
    one = make_plan({**spec, "sizes": "1KB"}, fabric, 5).records
    other = make_plan({**spec, "sizes": {"name": "exponential", "mean": "1KB"}}, fabric, 5).records
    assert np.array_equal(one[["src", "dst", "start_ns"]], other[["src", "dst", "start_ns"]])


DRAWN = {
    "name": "poisson",
    "sizes": {"name": "lognormal", "mean": "50KB", "sigma": 2},
    "arrivals": {"name": "pareto", "shape": 1.5},
    "flows_per_s": 1000,
    "duration": "20s",
}
PLAIN_CPU = f"""
from dcgym.topologies import fat_tree
from dcgym.traffic import make_plan

print(make_plan({DRAWN!r}, fat_tree(k=4, rate="1Gbit"), 1).digest())
"""


def test_plans_do_not_depend_on_the_processor(fabric: Topology) -> None:
    """NumPy without any of its vector extensions beyond the baseline draws the same plan."""
    umath = getattr(np, "_core", None) or np.core
    extensions = " ".join(umath._multiarray_umath.__cpu_dispatch__)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PLAIN_CPU],
        env={**os.environ, "NPY_DISABLE_CPU_FEATURES": extensions},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == make_plan(DRAWN, fabric, 1).digest()


def test_bursts_arrive_as_a_poisson_process(fabric: Topology) -> None:
    spec = {"name": "incast-bursts", "sizes": 1, "senders": 4, "flows_per_s": 4000}
    records = make_plan({**spec, "duration": "20s"}, fabric, 4).records
    gaps_s = np.sort(np.diff(records["start_ns"][::4], prepend=0)) / 1e9
    steps = np.arange(1, len(gaps_s) + 1) / len(gaps_s)
    analytic = 1 - np.exp(-gaps_s * 1000)
    distance = max(np.abs(steps - analytic).max(), np.abs(steps - 1 / len(gaps_s) - analytic).max())
    # Kolmogorov's distribution exceeds 1.95 in one of a thousand samples.
    assert distance * math.sqrt(len(gaps_s)) < 1.95
    assert gaps_s.mean() == pytest.approx(1e-3, rel=4 / math.sqrt(len(gaps_s)))
