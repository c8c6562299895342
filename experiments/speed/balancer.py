"""Cost of the balancer's program by BPF_PROG_TEST_RUN: by rule and pool, with samples and without.

Each figure is the mean of many runs on one packet, the least of several repetitions. A new flow's
includes that the entry of the flow before it times out: the same ports open again and again.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dcgym.monitors.balancer.layout import REGION, BalancerRegion
from dcgym.native import bpf_object, require
from dcgym.tasks.balancing import rules

__all__ = [
    "RULES",
    "benchmark_frame",
    "make_balancer",
    "measure_feature_reads",
    "measure_new_flows",
    "measure_packets",
]

RULES = {name: rules.RULES[name].number for name in rules.kernel_rules()}
# The others' decisions use messages up: `balancer_messages` times them.
OWN_RULES = [name for name in RULES if not rules.RULES[name].needs_messages]
POOLS = (8, 20, 64, 256)
SERVERS = 64  # where one pool is timed
FLOWS_PER_SERVER = 4  # ongoing while new flows are placed
RUNS, REPETITIONS, READS = 20_000, 7, 2000
SYN, ACK = 0x02, 0x10
HOUR_NS = 3600 * 10**9
MAC = "02:dc:00:00:00:63"


def measure_new_flows() -> list[dict[str, Any]]:
    """Time the placing of a new flow by rules that need no messages.

    Returns:
        Rows of rule, and for each pool the time in ns with `FLOWS_PER_SERVER` ongoing flows a
        server at random, that over ECMP's, and with no flow at all, when all servers tie.
    """
    rows: list[dict[str, Any]] = [{"rule": rule} for rule in OWN_RULES]
    for n in POOLS:
        idle, loaded = _new_flow_ns(n, 0), _new_flow_ns(n, FLOWS_PER_SERVER * n)
        for row in rows:
            rule = row["rule"]
            row[f"{n} servers"] = loaded[rule]
            row[f"{n}: over ecmp"] = loaded[rule] - loaded["ecmp"]
            row[f"{n}: idle"] = idle[rule]
    return rows


def measure_packets() -> list[dict[str, Any]]:
    """Time packets of flows by what routes them: counters alone, and samples too.

    Returns:
        Rows of packet, ns without samples, ns with them, and the difference.
    """
    without, with_samples = (_packet_ns(collect) for collect in (False, True))
    return [
        {
            "packet": what,
            "counters": without[what],
            "and samples": with_samples[what],
            "difference": with_samples[what] - without[what],
        }
        for what in without
    ]


def measure_feature_reads() -> dict[str, Any]:
    """Time a reader's copy of the counters and of all samples of 64 servers, in us."""
    balancer = make_balancer(SERVERS, collect=True)
    region = BalancerRegion(mmap.mmap(balancer.region_map_fd, REGION.itemsize))
    figures = {
        "counters (us)": _least(lambda: _mean_us(region.snapshot)),
        "samples (us)": _least(lambda: _mean_us(lambda: region.all_samples(SERVERS))),
    }
    balancer.close()
    return {"servers": SERVERS, **figures}


def _new_flow_ns(n_servers: int, flows: int) -> dict[str, int]:
    balancer = make_balancer(n_servers, collect=True)
    balancer.pools.set_rule(0, RULES["random"])
    for port in range(flows):
        for flags in (SYN, ACK):
            balancer.test_balance(benchmark_frame(2048 + port, flags))
    balancer.set_timeouts(0, HOUR_NS, HOUR_NS, HOUR_NS)
    frame, figures = benchmark_frame(1024, SYN), dict.fromkeys(OWN_RULES, 0)
    for rule in OWN_RULES:
        balancer.pools.set_rule(0, RULES[rule])
        figures[rule] = int(_least(lambda: balancer.time_select(frame, RUNS)))
    balancer.close()
    return figures


def _packet_ns(collect: bool) -> dict[str, int]:
    """Time one packet of each kind; the cookie names server 0."""
    stamped = benchmark_frame(1024, ACK, b"\x01\x01\x08\x0a" + bytes(8))
    table = {"in the table": benchmark_frame(1024, ACK), "missed": benchmark_frame(1025, ACK)}
    return {
        **_kinds_ns(table, collect),
        **_kinds_ns({"by cookie": stamped}, collect, consistency="cookie", flow_entries=0),
        **_kinds_ns({"by cookie, in a table": stamped}, collect, consistency="cookie"),
    }


def _kinds_ns(frames: dict[str, bytes], collect: bool, **options: Any) -> dict[str, int]:
    balancer = make_balancer(SERVERS, collect, **options)
    balancer.pools.replace(0, RULES["ecmp"], [0], [1.0])
    for flags in (SYN, ACK):
        balancer.test_balance(benchmark_frame(1024, flags))
    figures = {
        what: int(_least(lambda: balancer.time_select(frame, RUNS)))  # noqa: B023
        for what, frame in frames.items()
    }
    balancer.close()
    return figures


def make_balancer(n_servers: int, collect: bool, **options: Any) -> Any:
    """Return a balancer of 10.0.0.100:80 whose servers have weights from 1 to 2 at random."""
    balancer = require().Balancer(
        str(bpf_object("l4lb")), MAC, collect=collect, times_select=True, **options
    )
    balancer.add_vip(0, "10.0.0.100", 80)
    balancer.set_servers(0, {n: f"02:dc:00:00:01:{n:02x}" for n in range(n_servers)})
    weights = np.random.default_rng(1).uniform(1.0, 2.0, n_servers)
    balancer.pools.replace(0, RULES["ecmp"], list(range(n_servers)), list(weights))
    balancer.set_timeouts(HOUR_NS, HOUR_NS, HOUR_NS, HOUR_NS)
    return balancer


def benchmark_frame(port: int, flags: int, options: bytes = b"") -> bytes:
    """Return a client's frame of TCP to that address, of this port, flags and TCP options."""
    macs = bytes.fromhex(MAC.replace(":", "")) + bytes([2, 0, 0, 0, 0, 1])
    tcp_bytes = 20 + len(options)
    ip = bytes.fromhex("08004500") + (20 + tcp_bytes).to_bytes(2, "big")
    ip += bytes.fromhex("00000000400600000a0000010a000064") + port.to_bytes(2, "big")
    return macs + ip + bytes([0, 80, *bytes(8), tcp_bytes << 2, flags, *bytes(6)]) + options


def _least(measure: Callable[[], float]) -> float:
    return min(measure() for _ in range(REPETITIONS))


def _mean_us(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    for _ in range(READS):
        call()
    return (time.perf_counter() - began) * 1e6 / READS
