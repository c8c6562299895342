"""Speed of the packet twin: hops of packets a second, times real time, memory.

All on one core, in its CPU time. A hop is a packet that has passed a queue, with all the frames
that it holds.
"""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import dcgym
from dcgym.backends.simulation.packets import PacketTwin
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.testing import OneNetwork
from dcgym.topologies import make_topology
from dcgym.traffic import make_plan
from dcgym.units import NS_PER_S

__all__ = ["DUMBBELL", "measure_memory", "measure_packet_twin"]

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
MEMORY_ENVS = 256


def twin_figures(spec: dict[str, Any], traffic: str, transport: str, run_s: float) -> Any:
    """Measure one network, without anybody who looks at it."""
    topology = make_topology(spec)
    twin = OneNetwork(PacketTwin(topology))
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
        "times real time": run_s / cpu_s,
        "million packet-hops/s": twin.network(0).packet_hops() / cpu_s / 1e6,
    }


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


def measure_packet_twin() -> list[dict[str, Any]]:
    """Measure each network of `NETWORKS`."""
    return [twin_figures(*network) for network in NETWORKS]


def measure_memory() -> dict[str, Any]:
    """Measure the memory of a copy of the dumbbell's environment, in a process of its own.

    What else has been measured in this one left memory free, which would hold the copies.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return {"environment": "dumbbell", "KB a copy": pool.submit(memory_kb).result()}
