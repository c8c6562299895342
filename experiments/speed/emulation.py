"""Speed figures, measured side by side in one run: ``make benchmarks``.

Fabrics: the round trip of ping, one TCP flow and 64-byte datagrams by iperf3 and what they cost in
processor time, over two switches in a row, for the BPF fabric, Open vSwitch in user space, two
Linux bridges, and a bare veth pair. Environment: the time of a free-running ``env.step`` with every
action enforced. Stride: what 16 TCP flows on a fat-tree reach of their max-min fair share.
Emulator: build, reset in place, close. HTTP servers and clients. Balancer: new flows and packets by
rule, run in place and really forwarded. Plans: a large one, drawn and handed over.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.table import Table

import dcgym
from dcgym.backends.emulation.emulator.run import run
from dcgym.backends.emulation.network import EmulationBackend
from dcgym.errors import BackendError
from dcgym.testing.fair_share import measure_fair_share
from dcgym.topologies import fat_tree, make_topology
from dcgym.traffic import Plan, make_plan
from experiments.speed.balancer import (
    measure_feature_reads,
    measure_new_flows,
    measure_packets,
)
from experiments.speed.balancer_forwarding import measure_forwarding
from experiments.speed.fabric import measure_small_packets_pps, measure_tcp
from experiments.speed.http import measure_idle_server, measure_twenty_servers
from experiments.speed.pod import measure_pod
from experiments.speed.traffic import (
    measure_bulk,
    measure_many_flows,
    measure_short_flows,
    measure_udp,
)

__all__ = ["main"]

Execute = Callable[..., str]
PINGS = 200
STEPS = 2000
FILE_COLUMNS = 160
# In the order of the tables.
TITLES = {
    "plans": "Plan of 2,000 flows/s for 60 s (ms)",
    "fabric": "Two switches: ping, one TCP flow (bit/s, processor ms per Gbit), 64-byte datagrams",
    "step": "Free-running env.step, every action enforced",
    "stride": "16 TCP flows between pods, all links of a k=4 fat-tree alike",
    "deadlines": "Steps of 10 ms under load",
    "life": "Emulator: build, reset in place, close",
    "short_flows": "Traffic: 2,000 short TCP flows a second, k=4 fat-tree",
    "many_flows": "Traffic: 5,000 TCP flows at a time",
    "bulk": "Traffic: one bulk TCP flow (bit/s) beside iperf3",
    "udp": "Traffic: rate of one UDP flow",
    "idle_server": "HTTP: requests of 1 ms to an idle server",
    "twenty_servers": "HTTP: 2,000 requests a second, 20 servers",
    "new_flows": "Balancer: a new flow (ns)",
    "balanced_packets": "Balancer: a packet of a flow (ns)",
    "forwarding": "Balancer: packets really forwarded",
    "feature_reads": "Balancer: reading all features",
    "pod": "Balancing: the testbed of 20 servers at 85 %, SED",
}
# Rate of the links, and the seconds after which CUBIC's windows have grown: 400 KB of queue are a
# round trip of 160 ms at 20 Mbit/s, twice, where data waits behind and acknowledgements ahead.
STRIDES = (("20Mbit", 15.0), ("50Mbit", 4.0), ("100Mbit", 2.0))
TIMED_STEPS = 1000
MISS_US = 1000
SERVER_DEADLINE_S = 5.0
LARGE = {"name": "dumbbell", "hosts": 1024, "rate": "100Gbit", "queue": "64MB"}
# Above what any fabric here carries: the figure is the fabric's, not the shaper's.
FREE = {"name": "dumbbell", "hosts": 2, "rate": "200Gbit", "queue": "64MB"}


class PlainNetwork:
    """Two namespaces joined by a veth pair, or through two Linux bridges in a third one."""

    def __init__(self, bridges: bool) -> None:
        self._holders = [self._hold() for _ in range(3)]
        a, b, middle = (holder.pid for holder in self._holders)
        if bridges:
            self._bridge(a, b, middle)
        else:
            self._inside(a, f"ip link add eth0 type veth peer name eth0 netns {b}")
        for number, pid in enumerate((a, b), start=1):
            self._inside(pid, f"ip addr add 10.0.0.{number}/24 dev eth0")
            self._inside(pid, "ip link set eth0 up")

    def _bridge(self, a: int, b: int, middle: int) -> None:
        for name in ("s1", "s2"):
            self._inside(middle, f"ip link add {name} type bridge")
            self._inside(middle, f"ip link set {name} up")
        self._inside(middle, f"ip link add p1 type veth peer name eth0 netns {a}")
        self._inside(middle, f"ip link add p2 type veth peer name eth0 netns {b}")
        self._inside(middle, "ip link add c1 type veth peer name c2")
        for port, switch in (("p1", "s1"), ("c1", "s1"), ("p2", "s2"), ("c2", "s2")):
            self._inside(middle, f"ip link set {port} master {switch} up")

    @staticmethod
    def _hold() -> subprocess.Popen[bytes]:
        holder = subprocess.Popen(["unshare", "-n", "sleep", "600"])
        own, deadline = os.readlink("/proc/self/ns/net"), time.monotonic() + SERVER_DEADLINE_S
        while os.readlink(f"/proc/{holder.pid}/ns/net") == own:
            if time.monotonic() > deadline:
                raise BackendError("unshare made no network namespace")
            time.sleep(0.002)
        return holder

    @staticmethod
    def _inside(pid: int, command: str) -> str:
        return run("nsenter", "-t", str(pid), "-n", *command.split())

    def execute(self, host: str, *argv: str, timeout_s: float = 30.0) -> str:
        """Run a command in host h1 or h2."""
        pid = self._holders[int(host[1:]) - 1].pid
        return run("nsenter", "-t", str(pid), "-n", *argv, timeout_s=timeout_s)

    def close(self) -> None:
        """End the holders, and the namespaces with them."""
        for holder in self._holders:
            # What was started in the namespace must end too: it would keep the namespace alive.
            for pid in _processes_in(holder.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            holder.wait()


def _processes_in(namespace_of: int) -> list[int]:
    wanted = os.readlink(f"/proc/{namespace_of}/ns/net")
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{entry}/ns/net") == wanted:
                found.append(int(entry))
    return found


@contextlib.contextmanager
def network(kind: str) -> Iterator[Execute]:
    """Yield the execute function of two hosts h1, h2 over the network of that kind."""
    if kind in ("ebpf", "ovs"):
        backend = EmulationBackend(make_topology(FREE), switch=kind)
        backend.start()
        try:
            yield backend.execute
        finally:
            backend.close()
    else:
        plain = PlainNetwork(bridges=kind == "bridge")
        try:
            yield plain.execute
        finally:
            plain.close()


def _interface(execute: Execute, host: str) -> str:
    listing = execute(host, "ip", "link", "show")
    for found in re.finditer(r"^\d+: ([\w-]+)@", listing, re.MULTILINE):
        if found[1] != "lo":
            return str(found[1])
    raise BackendError(f"{host} has no interface")


def measure_rtt_us(execute: Execute) -> float:
    """Mean round trip of ping."""
    output = execute("h1", "ping", "-n", "-q", "-c", str(PINGS), "-i", "0.002", "10.0.0.2")
    found = re.search(r"= [\d.]+/([\d.]+)/", output)
    if found is None:
        raise BackendError(f"ping printed no round trip: {output.strip()}")
    return float(found[1]) * 1000


def measure_fabric(kind: str) -> dict[str, Any]:
    """All figures of one kind of network."""
    with network(kind) as execute:
        result: dict[str, Any] = {"network": kind, "rtt_us": measure_rtt_us(execute)}
        result["tcp_gso_bps"], result["gso_ms_per_gbit"] = measure_tcp(execute)
        for host in ("h1", "h2"):
            name = _interface(execute, host)
            execute(host, "ethtool", "-K", name, "tso", "off", "gso", "off", "gro", "off")
        result["tcp_1500_bps"], result["1500_ms_per_gbit"] = measure_tcp(execute)
        result["small_kpps"] = measure_small_packets_pps(execute) / 1e3
    return result


def _make_env(topology: Any, traffic: str, interval: str, steps: int) -> gym.Env[Any, Any]:
    dcgym.register_envs()
    return gym.make(
        "dcgym/CongestionControl-v0",
        topology=topology,
        traffic=traffic,
        interval=interval,
        max_episode_steps=steps + 1,
        disable_env_checker=True,
    )


def _draw_actions(env: gym.Env[Any, Any], steps: int) -> Any:
    """Draw a new action for each step, so that all limits change."""
    shape = (steps, *(env.action_space.shape or ()))
    return np.random.default_rng(0).uniform(0.2, 1.0, shape).astype(np.float32)


def measure_steps(topology: Any, traffic: str) -> dict[str, Any]:
    """Free-running steps, a new random action each, all limits changed and acknowledged."""
    env = _make_env(topology, traffic, "0ms", STEPS)
    try:
        env.reset(seed=0)
        taken_ns = np.empty(STEPS)
        for index, action in enumerate(_draw_actions(env, STEPS)):
            began_ns = time.perf_counter_ns()
            env.step(action)
            taken_ns[index] = time.perf_counter_ns() - began_ns
    finally:
        env.close()  # type: ignore[no-untyped-call]
    p50, p99 = np.percentile(taken_ns, [50, 99]) / 1e3
    return {
        "topology": topology if isinstance(topology, str) else topology.name,
        "p50_us": p50,
        "p99_us": p99,
    }


def measure_deadlines(topology: Any, traffic: str) -> dict[str, Any]:
    """Steps of 10 ms under load.

    A deadline was missed if the step woke over 1 ms after it; an action was late if it was in
    force so late that an interval of its own began.
    """
    env = _make_env(topology, traffic, "10ms", TIMED_STEPS)
    try:
        env.reset(seed=0)
        infos = [env.step(action)[4] for action in _draw_actions(env, TIMED_STEPS)]
    finally:
        env.close()  # type: ignore[no-untyped-call]
    late_us = np.array([info["deadline_overrun_us"] for info in infos])
    action_us = np.array([info["action_latency_us"] for info in infos])
    return {
        "topology": topology.name,
        "woke_p50_us": float(np.percentile(late_us, 50)),
        "woke_p99_us": float(np.percentile(late_us, 99)),
        "missed_%": float((late_us > MISS_US).mean() * 100),
        "action_p50_us": float(np.percentile(action_us, 50)),
        "action_p99_us": float(np.percentile(action_us, 99)),
        "late_action_%": 100 * float(np.mean([info["is_restarted"] for info in infos])),
    }


def measure_stride(topology: Any, warmup_s: float) -> dict[str, Any]:
    """One TCP flow from each host to one of another pod, against the max-min share of its path."""
    backend = EmulationBackend(topology, flow_matrix=True)
    try:
        backend.start()
        plan = make_plan("stride-8", topology, 0)
        measured = measure_fair_share(backend, plan, warmup_s, seconds=4.0)
        reached_bps, fair_bps = measured["reached_bps"].sum(), measured["fair_bps"].sum()
        fidelity = backend.fidelity()
        return {
            "links_bps": topology.links[0].rate_bps,
            "reached_bps": float(reached_bps),
            "fair_bps": float(fair_bps),
            "share_percent": float(100 * reached_bps / fair_bps),
            "deficit_%": 100 * fidelity["figures"].get("rate_deficit", math.nan),
            "idle_%": 100 * fidelity["figures"]["cpu_idle_share"],
            "fidelity": "; ".join([fidelity["status"], *fidelity["reasons"]]),
        }
    finally:
        backend.close()


def measure_life(topology: Any) -> dict[str, Any]:
    """Build, reset in place under load, close."""
    network_graph = make_topology(topology)
    backend = EmulationBackend(network_graph)
    plan = make_plan("pairs" if network_graph.name == "dumbbell" else "stride-1", network_graph, 0)
    times = {}

    def timed(what: str, call: Callable[[], object]) -> None:
        began = time.perf_counter()
        call()
        times[what] = (time.perf_counter() - began) * 1e3

    timed("build_ms", backend.start)
    try:
        backend.reset(plan, congestion_control={}, marking=False)
        backend.wait_until(time.monotonic_ns() + 1_000_000_000)
        timed("reset_ms", lambda: backend.reset(plan, congestion_control={}, marking=False))
    finally:
        timed("close_ms", backend.close)
    return {"topology": network_graph.name, "hosts": len(network_graph.hosts), **times}


def measure_plan(topology: Any) -> dict[str, Any]:
    """Time a plan of 120,000 flows: drawing it, and handing it to another process."""
    spec = {"name": "poisson", "sizes": "web-search", "scale": 1e-3, "flows_per_s": 2000}
    hosts = [host.name for host in topology.hosts]
    make_plan({**spec, "duration": "1s"}, topology)  # routes are worked out once a topology
    started = time.perf_counter()
    plan = make_plan(spec, topology, 1)
    drawn = time.perf_counter()
    records = plan.to_records(hosts)
    handed_over = time.perf_counter()
    Plan.from_bytes(plan.to_bytes())
    crossed = time.perf_counter()
    return {
        "flows": len(plan),
        "draw": (drawn - started) * 1e3,
        "as records": (handed_over - drawn) * 1e3,
        "to another process": (crossed - handed_over) * 1e3,
        "MB": records.nbytes / 1e6,
    }


def _print(console: Console, title: str, rows: Sequence[dict[str, Any]]) -> None:
    table = Table(title=title, title_justify="left")
    for name in rows[0]:
        table.add_column(name, justify="left" if isinstance(rows[0][name], str) else "right")
    for row in rows:
        table.add_row(*(_format(name, value) for name, value in row.items()))
    console.print(table)


def _format(name: str, value: Any) -> str:
    if name.endswith("_bps"):
        return f"{value / 1e9:.2f} G"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure everything and print it; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    as_json = parser.parse_args(argv).json
    k4 = fat_tree(k=4)
    results = {
        "plans": [measure_plan(k4)],
        "fabric": [measure_fabric(kind) for kind in ("veth", "ebpf", "bridge", "ovs")],
        "step": [measure_steps("dumbbell", "pairs"), measure_steps(k4, "stride-8")],
        "stride": [
            measure_stride(fat_tree(k=4, rate=rate), warmup_s) for rate, warmup_s in STRIDES
        ],
        "short_flows": [measure_short_flows()],
        "many_flows": [measure_many_flows()],
        "bulk": measure_bulk(lambda execute: measure_tcp(execute)[0]),
        "udp": measure_udp(),
        "deadlines": [measure_deadlines(k4, "stride-8")],
        "life": [measure_life(spec) for spec in ("dumbbell", k4, fat_tree(k=8), LARGE)],
        "idle_server": [measure_idle_server()],
        "twenty_servers": [measure_twenty_servers()],
        "new_flows": measure_new_flows(),
        "balanced_packets": measure_packets(),
        "forwarding": measure_forwarding(),
        "feature_reads": [measure_feature_reads()],
        "pod": [measure_pod()],
    }
    if as_json:
        print(json.dumps(results, indent=2))
        return 0
    console = Console(width=None if sys.stdout.isatty() else FILE_COLUMNS)
    for name, title in TITLES.items():
        _print(console, title, results[name])
    return 0


if __name__ == "__main__":
    sys.exit(main())
