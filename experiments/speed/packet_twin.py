"""Speed of the packet twin: hops of packets a second, times real time, and environments stepped.

All on one core, in its CPU time; with several threads, by the clock on the wall. A hop is a packet
that has passed a queue. Through `step`, the packets are those of the batch that the environment
runs on.
"""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import dcgym
from dcgym.backends.simulation.packets import PacketTwin
from dcgym.cli.console import table_console
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.topologies import make_topology
from dcgym.traffic import make_plan
from dcgym.units import NS_PER_S

__all__ = ["measure", "show"]

DUMBBELL = {"name": "dumbbell", "hosts": 4, "rate": "10Mbit", "queue": "400KB"}
LARGE = {"name": "dumbbell", "hosts": 1024, "rate": "100Gbit", "queue": "64MB"}
# Topology, traffic, transport, simulated seconds.
NETWORKS: tuple[tuple[dict[str, Any], str, str, float], ...] = (
    (DUMBBELL, "pairs", "cubic", 600.0),
    (DUMBBELL, "pairs", "dctcp", 600.0),
    ({"name": "fat-tree", "k": 4, "rate": "100Mbit"}, "stride-8", "cubic", 10.0),
    ({"name": "fat-tree", "k": 4, "rate": "100Mbit"}, "stride-8", "dctcp", 10.0),
    ({"name": "fat-tree", "k": 8, "rate": "100Mbit"}, "stride-64", "dctcp", 2.0),
    (LARGE, "pairs-udp", "cubic", 0.2),
)
CONGESTION = "dcgym/CongestionControl-v2"
INTERVAL_S = 0.05
STEPS, WIDTHS, MEMORY_ENVS = 20_000, (8, 64, 512), 256
INFOS = ("full", "none")
THREADS = 2


def twin_figures(spec: dict[str, Any], traffic: str, transport: str, run_s: float) -> Any:
    """Measure one network, without anybody who looks at it."""
    topology = make_topology(spec)
    twin = PacketTwin(topology)
    controls = dict.fromkeys((host.name for host in topology.hosts), transport)
    plan = make_plan(traffic, topology, 0)
    twin.reset(NetworkEpisode(plan, 0, controls, transport == "dctcp"))
    begun = time.process_time()
    twin.advance(round(run_s * NS_PER_S))
    cpu_s = time.process_time() - begun
    return {
        "network": topology.name if spec["name"] != "fat-tree" else f"k={spec['k']} fat-tree",
        "hosts": len(topology.hosts),
        "traffic": traffic,
        "transport": transport,
        "times_real_time": run_s / cpu_s,
        "mhops_per_s": twin.packet_hops / cpu_s / 1e6,
    }


def step_figures() -> list[dict[str, Any]]:
    """Measure an environment on the dumbbell, alone and in vectors, with infos and without."""
    rows = [_step_figure("step", 1, info) for info in INFOS]
    rows += [_step_figure("make_vec", n_envs, info) for n_envs in WIDTHS for info in INFOS]
    return rows + [_step_figure("make_vec", n_envs, "none", THREADS) for n_envs in WIDTHS]


def _step_figure(form: str, n_envs: int, info: str, threads: int = 1) -> dict[str, Any]:
    arguments: dict[str, Any] = {"topology": DUMBBELL, "traffic": "pairs", "info": info}
    arguments |= {"env": CONGESTION, "backend": "simulation", "max_steps": None}
    arguments["threads"] = threads
    env: Any = dcgym.make_env(arguments) if form == "step" else _vector(arguments, n_envs)
    clock = time.process_time if threads == 1 else time.perf_counter
    env.reset(seed=1)
    action = np.full(env.action_space.shape, 0.5, np.float32)
    begun_hops = _hops(env, n_envs)
    begun_s = clock()
    for _ in range(STEPS // n_envs):
        env.step(action)
    took_s = clock() - begun_s
    made = {
        "form": form,
        "environments": n_envs,
        "threads": threads,
        "info": info,
        "times_real_time": STEPS // n_envs * n_envs * INTERVAL_S / took_s,
        "mhops_per_s": (_hops(env, n_envs) - begun_hops) / took_s / 1e6,
    }
    env.close()
    return made


def _vector(arguments: dict[str, Any], n_envs: int) -> Any:
    return dcgym.make_vec_env(arguments, n_envs)


def _hops(env: Any, n_envs: int) -> int:
    batch = env.unwrapped.backend
    return sum(int(batch.network(number).packet_hops()) for number in range(n_envs))


def memory_kb() -> float:
    """Measure what a copy of the environment holds in memory after a minute of its own."""
    arguments = {"env": CONGESTION, "backend": "simulation", "topology": DUMBBELL, "info": "none"}
    first = dcgym.make_vec_env(arguments, 2)
    first.reset(seed=0)
    before_kb = _resident_kb()
    env = dcgym.make_vec_env(arguments, MEMORY_ENVS)
    env.reset(seed=0)
    env.unwrapped.backend.advance(np.full(MEMORY_ENVS, 60 * NS_PER_S))
    grown_kb = _resident_kb() - before_kb
    env.close()
    first.close()
    return grown_kb / MEMORY_ENVS


def _resident_kb() -> float:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return float(line.split()[1])
    raise RuntimeError("the kernel says nothing of this process' memory")


def measure() -> dict[str, Any]:
    """Measure everything."""
    # In a process of its own: what else has been measured left memory free, which would hold these.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        memory = pool.submit(memory_kb).result()
    rows = [twin_figures(*network) for network in NETWORKS]
    return {"networks": rows, "steps": step_figures(), "memory_kb": memory}


def show(found: dict[str, Any]) -> None:
    """Print the figures."""
    table = Table(title="Packet twin, one core")
    names = ("network", "hosts", "traffic", "transport", "x real time", "M packet-hops/s")
    for name in names:
        table.add_column(name, justify="right")
    for row in found["networks"]:
        table.add_row(
            *(str(row[name]) for name in names[:4]),
            f"{row['times_real_time']:,.1f}",
            f"{row['mhops_per_s']:.1f}",
        )
    console = table_console()
    console.print(table)
    title = "dumbbell of 10 Mbit/s, steps of 50 ms; seconds of all environments added"
    table = Table(title=title)
    names = ("form", "environments", "threads", "info", "x real time", "M packet-hops/s")
    for name in names:
        table.add_column(name, justify="right")
    for row in found["steps"]:
        table.add_row(
            *(str(row[name]) for name in names[:4]),
            f"{row['times_real_time']:,.0f}",
            f"{row['mhops_per_s']:.1f}",
        )
    console.print(table)
    console.print(f"memory of one such environment: {found['memory_kb']:,.0f} KB")
