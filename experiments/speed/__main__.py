"""All speed figures, measured side by side in one run: ``python -m experiments.speed``.

Plans: a large one, drawn and handed over. Fabrics: the round trip of ping, one TCP flow and 64-byte
datagrams by iperf3 and what they cost in processor time, over two switches in a row, for the BPF
fabric, Open vSwitch in user space, two Linux bridges, and a bare veth pair. Links that delay: the
error of round trips from 1 to 200 ms, and how late packets leave. Environment: the time
of a free-running ``env.step`` with every action enforced. Stride: what 16 TCP flows on a fat-tree
reach of their max-min fair share. Congestion controls in BPF: what an ACK costs, and steps with an
agent for each flow. Emulator: build, reset in place, close. HTTP servers and clients. Balancer: new
flows and packets by rule, messages of servers, the choice of a device, reports, run in place and
really forwarded. Switch: decisions by path rule, and as a mux. Then the twins, alone and through
their environments, and batches of runs: ``--page`` writes these figures where the documentation has
them. Last placement of VIPs: steps, whole assignments, Rubik's program.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from dcgym.cli.console import table_console
from dcgym.json_text import json_text
from dcgym.topologies import fat_tree
from experiments.speed import ns3_dumbbell, placement
from experiments.speed.balancer import measure_feature_reads, measure_new_flows, measure_packets
from experiments.speed.balancer_devices import measure_device_choices, measure_device_reports
from experiments.speed.balancer_forwarding import measure_forwarding
from experiments.speed.balancer_messages import measure_messages, measure_told_flows
from experiments.speed.batches import measure_batches
from experiments.speed.environments import (
    measure_deadlines,
    measure_life,
    measure_steps,
    measure_stride,
)
from experiments.speed.fabric import measure_fabric, measure_tcp
from experiments.speed.flow_agent import measure_ack_costs, measure_agents
from experiments.speed.hmux import measure_hmux
from experiments.speed.http import measure_idle_server, measure_twenty_servers
from experiments.speed.link_delay import measure_link_delays
from experiments.speed.networks import KINDS
from experiments.speed.packet_twin import measure_memory, measure_packet_twin
from experiments.speed.path_rules import measure_path_rules
from experiments.speed.plans import measure_plan
from experiments.speed.pod import measure_pod
from experiments.speed.simulation import (
    DEVICES_PER_S,
    LOAD,
    measure_balancing_twin,
    measure_device_twin,
)
from experiments.speed.steps import measure_twin_steps
from experiments.speed.traffic import (
    measure_bulk,
    measure_many_flows,
    measure_short_flows,
    measure_udp,
)

__all__ = ["main"]

PARTS = ("emulation", "twins", "batches", "placement")
RESULTS = Path(__file__).parents[2] / "docs" / "results"
# Beside ns-3, which has to be installed by hand: only when it is asked for.
NS3 = "ns3"
# In the order of the tables.
TITLES = {
    "plans": "Plan of 2,000 flows/s for 60 s (ms)",
    "fabric": "Two switches: ping, one TCP flow (bit/s, processor ms per Gbit), 64-byte datagrams",
    "link_delay": "Links that delay: idle round trip, then one TCP flow",
    "step": "Free-running env.step, every action enforced",
    "stride": "16 TCP flows between pods, all links of a k=4 fat-tree alike",
    "deadlines": "Steps of 10 ms under load",
    "ack_costs": "Congestion control in BPF: an ACK of two flows at 500 Mbit/s",
    "flow_agents": "FlowControl: every flow of a dumbbell of 500 Mbit/s has an agent",
    "life": "Emulator: build, reset in place, close",
    "short_flows": "Traffic: 2,000 short TCP flows a second, k=4 fat-tree",
    "many_flows": "Traffic: 5,000 TCP flows at a time",
    "bulk": "Traffic: one bulk TCP flow (bit/s) beside iperf3",
    "udp": "Traffic: rate of one UDP flow",
    "idle_server": "HTTP: requests of 1 ms to an idle server",
    "twenty_servers": "HTTP: 2,000 requests a second, 20 servers",
    "new_flows": "Balancer: a new flow (ns)",
    "told_flows": "Balancer: a new flow alone (ns), by rules that go by messages",
    "messages": "Balancer: a message of a server alone (ns)",
    "balanced_packets": "Balancer: a packet of a flow (ns)",
    "device_choices": "Balancer: a new flow of 64 servers with two accelerators each (ns)",
    "device_reports": "Balancer: what an agent reports of a device",
    "forwarding": "Balancer: packets really forwarded",
    "feature_reads": "Balancer: reading all features",
    "path_rules": "Switch: the decision about a packet (ns), by rule and equal-cost ports",
    "hmux": "Switch as a mux: the decision about a packet (ns)",
    "pod": "Balancing: the testbed of 20 servers at 85 %, SED",
}
TWIN_TITLES = {
    "twin_steps": "Environments at their defaults, random actions: steps a second by copies",
    "packet_twin": "Packet twin alone",
    "balancing_twin": f"Balancing twin alone at a load of {LOAD}, and a SimPy model of the same",
    "device_twin": f"256 servers with two accelerators each, {DEVICES_PER_S:,} requests a second",
    "memory": "Memory",
}
BATCH_TITLES = {
    "batch_costs": "A short run: what the batch adds",
    "batch_busy": "Runs of a second",
    "batch_limits": "A thousand cores, by these figures",
    "batch_memory": "Memory of the driver",
}
# Rate of the links, and the seconds after which CUBIC's windows have grown: 400 KB of queue are a
# round trip of 160 ms at 20 Mbit/s, twice, where data waits behind and acknowledgements ahead.
STRIDES = (("20Mbit", 15.0), ("50Mbit", 4.0), ("100Mbit", 2.0))
LARGE = {"name": "dumbbell", "hosts": 1024, "rate": "100Gbit", "queue": "64MB"}

INTRODUCTION = """\
`python -m experiments.speed {part} --page` wrote this page, on {machine}.
It is a virtual machine, whose speed changes by half within minutes: figures tell rough differences.
"""
ABOUT_TWINS = """\
Figures are in CPU time of one core, those of several threads by the clock on the wall. Steps a
second are those of an episode with its reset: `LoadBalancing-v1` simulates 30 s before each of
60 s. A packet-hop is a packet that has passed a queue, with all the frames that it holds."""
ABOUT_BATCHES = """\
A batch is a sweep of `LoadBalancing-v1` in the twin, on this machine's processes or with
`--address` on a [cluster](../guides/cluster.md), here of local nodes. A short run has five steps;
its overhead is what a core spends on it beyond what the same run takes in one process. The driver
is `dcgym` itself, with its process that is attached to Ray. The same cores serve the driver and the
cluster's own processes.

What a driver spends on a run limits the cores that it serves: they are the length of a run divided
by that. The third table multiplies what was measured with a cluster; nobody had a thousand cores.

Records of finished runs are read when the batch begins, and held when it ends: the last table."""

Row = Mapping[str, Any]


def measure_emulation() -> dict[str, list[Row]]:
    """Measure all that is emulated; returns the rows of each table of `TITLES`."""
    k4 = fat_tree(k=4)
    return {
        "plans": [measure_plan(k4)],
        "fabric": [measure_fabric(kind) for kind in KINDS],
        "link_delay": [*measure_link_delays()],
        "step": [measure_steps("dumbbell", "pairs"), measure_steps(k4, "stride-8")],
        "stride": [
            measure_stride(fat_tree(k=4, rate=rate), warmup_s) for rate, warmup_s in STRIDES
        ],
        "short_flows": [measure_short_flows()],
        "many_flows": [measure_many_flows()],
        "bulk": [*measure_bulk(lambda execute: measure_tcp(execute)[0])],
        "udp": [*measure_udp()],
        "deadlines": [measure_deadlines(k4, "stride-8")],
        "ack_costs": measure_ack_costs(),
        "flow_agents": measure_agents(),
        "life": [measure_life(spec) for spec in ("dumbbell", k4, fat_tree(k=8), LARGE)],
        "idle_server": [measure_idle_server()],
        "twenty_servers": [measure_twenty_servers()],
        "new_flows": [*measure_new_flows()],
        "told_flows": [*measure_told_flows()],
        "messages": [*measure_messages()],
        "balanced_packets": [*measure_packets()],
        "device_choices": [*measure_device_choices()],
        "device_reports": [*measure_device_reports()],
        "forwarding": [*measure_forwarding()],
        "feature_reads": [measure_feature_reads()],
        "path_rules": [*measure_path_rules()],
        "hmux": [*measure_hmux()],
        "pod": [measure_pod()],
    }


def measure_twins() -> dict[str, list[Row]]:
    """Measure all that is simulated; returns the rows of each table of `TWIN_TITLES`."""
    return {
        "twin_steps": measure_twin_steps(),
        "packet_twin": measure_packet_twin(),
        "balancing_twin": measure_balancing_twin(),
        "device_twin": measure_device_twin(),
        "memory": [measure_memory()],
    }


def show(results: Mapping[str, Sequence[Row]], titles: Mapping[str, str]) -> None:
    """Print tables.

    Args:
        results: The rows of each.
        titles: Their titles.
    """
    console = table_console()
    for name, title in titles.items():
        _print(console, title, results[name])


class Page(NamedTuple):
    """A page of the documentation that is written here.

    Attributes:
        file: Its name.
        title: Its title.
        about: What the figures are.
        titles: Titles of its tables.
        measure: Returns the rows of each.
    """

    file: str
    title: str
    about: str
    titles: Mapping[str, str]
    measure: Callable[[], Mapping[str, Sequence[Row]]]


PAGES = {
    "twins": Page("twin_speed.md", "Speed of the twins", ABOUT_TWINS, TWIN_TITLES, measure_twins),
    "batches": Page(
        "batch_speed.md", "Speed of batches", ABOUT_BATCHES, BATCH_TITLES, measure_batches
    ),
}


def page_of(part: str, page: Page, results: Mapping[str, Sequence[Row]]) -> str:
    """Return a page, in Markdown.

    Args:
        part: Its key in `PAGES`.
        page: The page.
        results: What its `measure` returned.
    """
    kernel = ".".join(platform.release().split(".")[:2])
    software = f"Linux {kernel}, Python {platform.python_version()}"
    introduction = INTRODUCTION.format(part=part, machine=f"{os.cpu_count()} cores, {software}")
    lines = [f"# {page.title}", "", *introduction.splitlines(), "", *page.about.splitlines()]
    for name, heading in page.titles.items():
        rows = results[name]
        cells = [[*rows[0]], ["---"] * len(rows[0])]
        cells += [[_format(*cell) for cell in row.items()] for row in rows]
        lines += ["", f"## {heading}", "", *(f"| {' | '.join(row)} |" for row in cells)]
    return "\n".join(lines) + "\n"


def _print(console: Console, title: str, rows: Sequence[Row]) -> None:
    table = Table(title=title, title_justify="left")
    for name in rows[0]:
        table.add_column(name, justify="left" if isinstance(rows[0][name], str) else "right")
    for row in rows:
        table.add_row(*(_format(name, value) for name, value in row.items()))
    console.print(table)


def _format(name: str, value: Any) -> str:
    if name.endswith("_bps"):
        return f"{value / 1e9:.2f} G"
    if not isinstance(value, float):
        return str(value)
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.{1 if size >= 10 else 2}f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure everything, or one part, and print it.

    Args:
        argv: Arguments of the command line; those of this process if None.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "parts", nargs="*", metavar="part", help=f"of {PARTS}, all by default; or {NS3}"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--page", action="store_true", help="write figures to the docs")
    given = parser.parse_args(argv)
    if not set(given.parts) <= {*PARTS, NS3}:
        parser.error(f"the parts are {', '.join((*PARTS, NS3))}")
    parts = given.parts or PARTS
    found: dict[str, Any] = {}
    if "emulation" in parts:
        found |= measure_emulation()
        if not given.json:
            show(found, TITLES)
    for part, page in PAGES.items():
        if part not in parts:
            continue
        found |= (measured := page.measure())
        if not given.json:
            show(measured, page.titles)
        if given.page:
            (RESULTS / page.file).write_text(page_of(part, page, measured), encoding="utf-8")
    if "placement" in parts:
        found["placement"] = placement.measure()
        if not given.json:
            placement.show(found["placement"])
    if NS3 in parts:
        rows = ns3_dumbbell.measure()
        if not given.json:
            ns3_dumbbell.show(rows)
        found[NS3] = rows
    if given.json:
        print(json_text(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
