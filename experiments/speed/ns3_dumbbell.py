"""The packet twin beside ns-3, where that is installed: the same dumbbell, CPU time of one core.

ns-3 comes from `apt-get install g++ pkg-config libns3-dev libgsl-dev`. Its packets are counted as
the twin's are: a hop is a packet that has passed a queue.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.table import Table

from dcgym.backends.simulation.packets import PacketTwin
from dcgym.cli.console import table_console
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.testing import OneNetwork
from dcgym.topologies import make_topology
from dcgym.traffic import make_plan
from dcgym.units import NS_PER_S
from experiments.speed.packet_twin import DUMBBELL

__all__ = ["measure", "show"]

SOURCE = Path(__file__).with_name("ns3_dumbbell.cc")
MODULES = [
    f"ns3-{name}"
    for name in (
        "core",
        "network",
        "internet",
        "point-to-point",
        "applications",
        "traffic-control",
    )
]
MISSING = "ns-3 is not installed: apt-get install g++ pkg-config libns3-dev libgsl-dev"
# Of ns-3, and of the twin.
TRANSPORTS = {"TcpCubic": "cubic", "TcpLinuxReno": "reno"}
RUN_S = 60.0
LOOKS_NS = 5_000_000
DEADLINE_S = 600


def measure() -> list[dict[str, Any]]:
    """Measure both; returns a row for each transport and simulator.

    Raises:
        SystemExit: ns-3 is not installed.
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        program = _build(Path(folder))
        for theirs, ours in TRANSPORTS.items():
            done = _run([str(program), theirs, str(RUN_S)])
            found = json.loads(done)
            rows.append(_row("ns-3", ours, **found))
            rows.append(_row("packet twin", ours, **_twin(ours)))
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """Print the figures.

    Args:
        rows: What `measure` returned.
    """
    table = Table(title=f"Dumbbell of 10 Mbit/s, two flows, {RUN_S:.0f} s: one core")
    for name in rows[0]:
        table.add_column(name, justify="right")
    for row in rows:
        values = row.values()
        table.add_row(*(one if isinstance(one, str) else f"{one:,.2f}" for one in values))
    table_console().print(table)


def _build(folder: Path) -> Path:
    pkg_config, compiler = shutil.which("pkg-config"), shutil.which("g++")
    if pkg_config is None or compiler is None:
        raise SystemExit(MISSING)
    found = subprocess.run(
        [pkg_config, "--cflags", "--libs", *MODULES], capture_output=True, text=True, check=False
    )
    if found.returncode:
        raise SystemExit(MISSING)
    program = folder / "dumbbell"
    # Debian's flags name a folder "/usr;", which no compiler minds.
    flags = found.stdout.split()
    _run([compiler, "-std=c++17", "-O2", str(SOURCE), "-o", str(program), *flags])
    return program


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if done.returncode:
        raise SystemExit(f"{command[0]}: {done.stderr.strip()[-500:]}; {MISSING}")
    return done.stdout


def _twin(transport: str) -> dict[str, float]:
    """Run the same in the twin, for its time; and again, to look at the bottleneck's queue."""
    begun = time.process_time()
    twin = _begin(transport)
    twin.advance(round(RUN_S * NS_PER_S))
    cpu_s, hops = time.process_time() - begun, float(twin.network(0).packet_hops())
    twin = _begin(transport)
    port = next(i for i, one in enumerate(twin.topology.switch_ports) if one.peer == "s2")
    backlog_bytes = []
    for now_ns in range(LOOKS_NS, round(RUN_S * NS_PER_S) + 1, LOOKS_NS):
        twin.advance(now_ns)
        backlog_bytes.append(float(twin.snapshot().ports["backlog_bytes"][port]))
    return {
        "cpu_s": cpu_s,
        "hops": hops,
        "queue_bytes": sum(backlog_bytes) / len(backlog_bytes),
    }


def _begin(transport: str) -> OneNetwork:
    topology = make_topology(DUMBBELL)
    twin = OneNetwork(PacketTwin(topology))
    controls = dict.fromkeys((host.name for host in topology.hosts), transport)
    twin.reset(NetworkEpisode(make_plan("pairs", topology, 0), 0, controls))
    return twin


def _row(
    simulator: str, transport: str, cpu_s: float, hops: float, queue_bytes: float
) -> dict[str, Any]:
    return {
        "simulator": simulator,
        "transport": transport,
        "times real time": RUN_S / cpu_s,
        "M packet-hops/s": hops / cpu_s / 1e6,
        "mean queue, KB": queue_bytes / 1e3,
    }
