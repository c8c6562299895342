"""How many hosts does this machine carry? The scalability experiment of Iroko's figure 5.1.

How to run (root): ``.venv/bin/python -m experiments.speed.scale --out runs/scale``

Every host of a dumbbell sends 10 Mbit/s of UDP to its partner on the other side; nothing on the way
limits it. The thesis' aggregate grows up to 1024 hosts on 8 cores, and fails at 2048.

Results to expect: received within 5 % of offered up to 1024 hosts on 2 cores, a build under 8 s and
a reset under 100 ms; beyond that less is received, and the record's fidelity is invalid.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.records import FIDELITY
from dcgym.cli.console import table_console
from dcgym.errors import BackendError
from dcgym.suites.results import machine, write_json
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.testing import OneNetwork
from dcgym.topologies import Topology, make_topology
from dcgym.traffic import Flow, Plan
from dcgym.writing import prepare_folder

COLUMNS = {
    "hosts": "{:d}",
    "build_s": "{:.2f}",
    "reset_ms": "{:.0f}",
    "offered_gbps": "{:.2f}",
    "received_gbps": "{:.2f}",
    "received_share": "{:.1%}",
    "cpu_share": "{:.0%}",
    "kib_per_host": "{:.0f}",
    "fidelity": "{}",
}


@dataclass(frozen=True)
class Args:
    """Settings of the experiment."""

    out: Path = Path("runs/scale")
    hosts: tuple[int, ...] = (16, 64, 256, 1024, 2048, 4096)
    rate_bps: int = 10_000_000
    link_rate: str = "100Gbit"
    warmup_s: float = 2.0
    measured_s: float = 5.0


def make_traffic(topology: Topology, rate_bps: int) -> Plan:
    """Let every host send to its partner on the other side."""
    names = [host.name for host in topology.hosts]
    half = len(names) // 2
    pairs = zip(names, names[half:] + names[:half], strict=True)
    # One after the other within a second: started at once, most would begin late.
    flows = (
        Flow(
            source, target, "udp", start_ns=number * 1_000_000_000 // len(names), rate_bps=rate_bps
        )
        for number, (source, target) in enumerate(pairs)
    )
    return Plan("each-10mbit", 0, flows)


def available_kib() -> int:
    """Memory that the machine could still give away."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1])
    raise RuntimeError("/proc/meminfo names no MemAvailable")


def cpu_ticks() -> tuple[int, int]:
    """Busy and all clock ticks of the machine so far (proc(5))."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def timed(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def measure_load(network: OneNetwork, args: Args) -> dict[str, Any]:
    """Watch the running traffic for a while."""
    network.advance(time.monotonic_ns() + int(args.warmup_s * 1e9))
    first, busy = network.snapshot(), cpu_ticks()
    network.advance(time.monotonic_ns() + int(args.measured_s * 1e9))
    last, busy_later = network.snapshot(), cpu_ticks()
    seconds = (last.time_ns - first.time_ns) / 1e9
    received = int(last.hosts["rx_bytes"].sum()) - int(first.hosts["rx_bytes"].sum())
    return {
        "received_gbps": received * 8 / seconds / 1e9,
        "cpu_share": (busy_later[0] - busy[0]) / max(busy_later[1] - busy[1], 1),
        "host_queue_drops": int(network.telemetry.look().hosts["drops"].sum()),
        "port_drops": int(last.ports["drops"].sum()),
    }


def measure(hosts: int, args: Args) -> dict[str, Any]:
    """Build one network, load it, reset it."""
    topology = make_topology(
        {"name": "dumbbell", "hosts": hosts, "rate": args.link_rate, "queue": "64MB"}
    )
    episode = NetworkEpisode(make_traffic(topology, args.rate_bps))
    network = OneNetwork(EmulationNetwork(topology))
    before_kib = available_kib()
    build_s = timed(network.start)
    try:
        kib_per_host = (before_kib - available_kib()) / hosts
        network.reset(episode)
        result = measure_load(network, args)
        fidelity = network.records(FIDELITY)
        reset_s = timed(lambda: network.reset(episode))
    finally:
        network.close()
    offered_gbps = hosts * args.rate_bps / 1e9
    return {
        "hosts": hosts,
        "build_s": build_s,
        "reset_ms": reset_s * 1e3,
        "offered_gbps": offered_gbps,
        **result,
        "received_share": result["received_gbps"] / offered_gbps,
        "kib_per_host": kib_per_host,
        "fidelity": fidelity.status,
        "reasons": fidelity.reasons,
    }


def main(args: Args) -> None:
    """Measure every size, then print the table."""
    prepare_folder(args.out)
    rows = []
    for hosts in args.hosts:
        try:
            rows.append(measure(hosts, args))
        except BackendError as error:
            # Where the machine ends is a result too.
            rows.append({"hosts": hosts, "fidelity": "failed", "reasons": [str(error)]})
        print(f"{hosts} hosts: {rows[-1].get('received_share', 0.0):.1%} received", flush=True)
        write_json(args.out / "results.json", {"rows": rows, "machine": machine()})
    table = Table(*COLUMNS, title="Every host sends 10 Mbit/s of UDP across a dumbbell")
    for row in rows:
        cells = (form.format(row[name]) if name in row else "-" for name, form in COLUMNS.items())
        table.add_row(*cells)
    table_console().print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Args.out)
    parser.add_argument("--hosts", type=int, nargs="+", default=list(Args.hosts))
    given = parser.parse_args()
    main(Args(out=given.out, hosts=tuple(given.hosts)))
