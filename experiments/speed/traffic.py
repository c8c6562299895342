"""Speed figures of the traffic engine, part of ``python -m experiments.speed``.

Short flows on a k=4 fat-tree, thousands of flows at a time, one bulk flow beside iperf3 in the same
network, and how exactly UDP keeps its rate.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.emulation.session.process import pid_of
from dcgym.errors import BackendError
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.testing import OneNetwork
from dcgym.topologies import Topology, fat_tree, make_topology
from dcgym.traffic import Flow, Plan
from experiments.speed.networks import FREE, Execute

__all__ = ["measure_bulk", "measure_many_flows", "measure_short_flows", "measure_udp"]

SHORT_FLOWS_PER_S = 2000
SHORT_FLOW_BYTES = 20_000
MANY_FLOWS = 5000
MANY_FLOWS_BPS = 100_000
BULK_SECONDS = 3.0
UDP_SECONDS = 3.0
UDP_RATES_BPS = (1_000_000, 10_000_000, 100_000_000, 1_000_000_000)
DEADLINE_S = 20.0


@contextmanager
def running(topology: Topology, plan: Plan) -> Iterator[OneNetwork]:
    """Yield a network that has just started a plan."""
    network = OneNetwork(EmulationNetwork(topology))
    network.start()
    try:
        network.reset(NetworkEpisode(plan))
        yield network
    finally:
        network.close()


def short_flows(topology: Topology, seconds: float, seed: int = 0) -> Plan:
    """Open-loop Poisson arrivals of small TCP flows between random hosts."""
    draw = np.random.default_rng(seed)
    count = round(SHORT_FLOWS_PER_S * seconds)
    starts_ns = np.sort(draw.uniform(0, seconds * 1e9, count)).astype(np.int64).tolist()
    hosts = [host.name for host in topology.hosts]
    pairs = (draw.choice(len(hosts), 2, replace=False).tolist() for _ in range(count))
    flows = [
        Flow(hosts[src], hosts[dst], start_ns=start_ns, size_bytes=SHORT_FLOW_BYTES)
        for (src, dst), start_ns in zip(pairs, starts_ns, strict=True)
    ]
    return Plan("short flows", seed, flows)


def measure_short_flows(seconds: float = 60.0) -> dict[str, Any]:
    """2,000 flows of 20 kB a second on a k=4 fat-tree: processor time, delay of the starts."""
    topology = fat_tree(k=4, rate="10Gbit")
    plan = short_flows(topology, seconds)
    with running(topology, plan) as network:
        engine = Engine(network)
        deadline = time.monotonic() + seconds + DEADLINE_S
        began_s, began = engine.cpu_s(), time.monotonic()
        while not network.finished() and time.monotonic() < deadline:
            network.advance(time.monotonic_ns() + 100_000_000)
        cores = (engine.cpu_s() - began_s) / (time.monotonic() - began)
        memory_bytes = engine.memory_bytes()
        network.apply(cuts_flows=True)
        records = network.flow_records()
    finished = records[records["outcome"] == 1]
    late_ms = (records["start_ns"] - records["planned_start_ns"]) / 1e6
    fct_ms = (finished["end_ns"] - finished["planned_start_ns"]) / 1e6
    return {
        "flows": len(plan),
        "unfinished": len(plan) - len(finished),
        "cores": cores,
        "late_p50_ms": float(np.percentile(late_ms, 50)),
        "late_p99_ms": float(np.percentile(late_ms, 99)),
        "fct_p50_ms": float(np.percentile(fct_ms, 50)),
        "fct_p99_ms": float(np.percentile(fct_ms, 99)),
        "memory_MB": memory_bytes / 1e6,
    }


def measure_many_flows() -> dict[str, Any]:
    """5,000 endless TCP flows at a time on a k=4 fat-tree: memory, time to cut them, a reset."""
    topology = fat_tree(k=4, rate="1Gbit")
    hosts = [host.name for host in topology.hosts]
    flows = [
        Flow(hosts[i % 16], hosts[(i % 16 + 1 + i // 16 % 15) % 16], rate_bps=MANY_FLOWS_BPS)
        for i in range(MANY_FLOWS)
    ]
    plan = Plan("many flows", 0, flows)
    with running(topology, plan) as network:
        engine = Engine(network)
        _await_flows(network)
        memory_bytes, began = engine.memory_bytes(), time.perf_counter()
        network.apply(cuts_flows=True)
        cut_ms = (time.perf_counter() - began) * 1e3
        records = network.flow_records()
        network.reset(NetworkEpisode(plan))
        _await_flows(network)
        began = time.perf_counter()
        network.reset(NetworkEpisode(Plan("idle", 0)))
        reset_ms = (time.perf_counter() - began) * 1e3
    return {
        "flows": MANY_FLOWS,
        "sending": int((records["bytes"] > 0).sum()),
        "memory_MB": memory_bytes / 1e6,
        "cut_all_ms": cut_ms,
        "reset_ms": reset_ms,
    }


def _await_flows(network: OneNetwork) -> None:
    """Wait until all of the many flows run, and some seconds more."""
    deadline = time.monotonic() + DEADLINE_S
    while network.snapshot().hosts["active_flows"].sum() < MANY_FLOWS:
        if time.monotonic() > deadline:
            raise BackendError(f"not all of {MANY_FLOWS} flows began")
        time.sleep(0.01)
    time.sleep(3.0)


def measure_bulk(measure_iperf3_bps: Callable[[Execute], float]) -> list[dict[str, Any]]:
    """One TCP flow over two switches: the engine's, and iperf3's in the same network.

    Args:
        measure_iperf3_bps: Runs iperf3 from h1 to h2 through the execute function it is given.
    """
    topology = make_topology(FREE)
    with running(topology, Plan("bulk", 0, [Flow("h1", "h2")])) as network:
        engine = Engine(network)
        time.sleep(1.0)
        received, cpu_s, began = _received_bytes(network), engine.cpu_s(), time.monotonic()
        time.sleep(BULK_SECONDS)
        ours = (_received_bytes(network) - received) * 8 / (time.monotonic() - began)
        cores = (engine.cpu_s() - cpu_s) / BULK_SECONDS
        network.apply(cuts_flows=True)
        theirs = measure_iperf3_bps(network.lab.execute)
    return [
        {"generator": "engine", "tcp_bps": ours, "cores": cores, "over_iperf3": ours / theirs},
        {"generator": "iperf3", "tcp_bps": theirs, "cores": float("nan"), "over_iperf3": 1.0},
    ]


def measure_udp() -> list[dict[str, Any]]:
    """One UDP flow at several rates: what is sent and what arrives, over what was asked for."""
    topology, rows = make_topology(FREE), []
    network = OneNetwork(EmulationNetwork(topology))
    network.start()
    try:
        for rate_bps in UDP_RATES_BPS:
            plan = Plan("udp", 0, [Flow("h1", "h2", "udp", rate_bps=rate_bps)])
            network.reset(NetworkEpisode(plan))
            network.advance(time.monotonic_ns() + 300_000_000)
            engine = Engine(network)
            before, cpu_s = engine.counters(), engine.cpu_s()
            network.advance(time.monotonic_ns() + round(UDP_SECONDS * 1e9))
            after, cores = engine.counters(), (engine.cpu_s() - cpu_s) / UDP_SECONDS
            seconds = (after[0] - before[0]) / 1e9
            sent, received = ((after[i] - before[i]) * 8 / seconds / rate_bps - 1 for i in (1, 2))
            row = {"asked_bps": float(rate_bps), "sent_error": f"{sent:+.2%}"}
            rows.append({**row, "received_error": f"{received:+.2%}", "cores": cores})
    finally:
        network.close()
    return rows


class Engine:
    """Looks at the generator's process of a running network."""

    def __init__(self, network: OneNetwork) -> None:
        self._generator = network.lab.generator
        self._pid = pid_of(network.lab.generator_process)

    def cpu_s(self) -> float:
        """Processor time used so far, user and system."""
        text = Path(f"/proc/{self._pid}/stat").read_text(encoding="ascii")
        fields = text.rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self) -> int:
        """Resident memory, the shared block included."""
        text = Path(f"/proc/{self._pid}/status").read_text(encoding="ascii")
        return int(text.split("VmRSS:")[1].split()[0]) * 1024

    def counters(self) -> tuple[int, int, int]:
        """Time in ns, bytes that h1 sent, bytes that h2 received."""
        header, hosts = self._generator.read()
        return int(header["sample_ns"]), int(hosts["tx_bytes"][0]), int(hosts["rx_bytes"][1])


def _received_bytes(network: OneNetwork) -> int:
    return int(network.snapshot().hosts["rx_bytes"].sum())
