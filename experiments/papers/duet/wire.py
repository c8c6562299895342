"""Duet's testbed emulated: ``python -m experiments.papers.duet.wire``, four minutes as root.

Figure 12 of the SIGCOMM paper, a switch that dies, and figure 13, moves between switches and
software muxes; and the loss of a server. A probe of each VIP every 3 ms, as there, by UDP. Then
figure 3.8 of the thesis, on Rubik's testbed: what a new VIP takes from streams that are there.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Sequence

from rich.table import Table

from dcgym.backends.emulation.muxes.lab import MuxLab
from dcgym.backends.records import Record
from dcgym.cli.console import table_console
from dcgym.json_text import json_text
from dcgym.topologies import make_topology

__all__ = [
    "main",
    "measure_congestion",
    "measure_failover",
    "measure_moves",
    "measure_removal",
]

# The first container serves the VIPs on which nothing is to happen, so that no core is on the way.
NEAR, ALL = tuple(f"s{n + 1}" for n in range(4)), tuple(f"s{n + 1}" for n in range(8))
VIPS = (ALL, NEAR, NEAR)
SWITCHES = ("o1", "o2", "a1", "a2", "a3", "a4", "t1", "t2", "t3", "t4")
PROBES = [("c1", vip, "udp") for vip in range(len(VIPS))]
PROBE_S = 0.003
CONVERGENCE_S = 0.038
SETTLE_S = 0.3

# Rubik's testbed, with its narrow links between switches. Two clients and two servers a rack: the
# first rack has c1, c2 and s1, s2. No two of the old streams share a link of any direction. The new
# VIP's clients and servers are in the first two racks, and its switch is that of the third one:
# the links there are on the way of VIP 0, whose server is in that rack, and of the background.
CONGESTED = {
    "clients": 2,
    "rate": "40Mbit",
    "queue": "250KB",
    "tiers": {"fabric": {"rate": "10Mbit"}},
}
OLD_VIPS = (("s5",), ("s11",), ("s15",), ("s9",))
NEW_VIP, NEW_SERVERS, NEW_RACKS, NEW_CLIENTS = 4, ("s1", "s3"), ("t1", "t2"), ("c1", "c3")
PLACES = {0: "a1", 1: "a2", 2: "a8", 3: "a5", NEW_VIP: "t3"}
OLD_STREAMS = (("c2", 0), ("c4", 1), ("c11", 2), ("c13", 3), ("c5", "s8"))
BACKGROUND = 4
CONNECTIONS = 6
RUNS = 4
WINDOW_S, RAMP_S = 5.0, 5.0

Row = dict[str, object]


def _lab() -> MuxLab:
    return MuxLab(make_topology("duet-10"), VIPS, convergence_s=CONVERGENCE_S)


def _lost(records: Sequence[Record]) -> list[int]:
    return [len(record["lost_ns"]) for record in records]


def measure_failover() -> Row:
    """Kill the switch of VIP 0; VIP 1 is on another one, and VIP 2 on the software muxes."""
    with _lab() as lab:
        lab.assign({0: "o1", 1: "t1"})
        lab.start_flows(PROBES, PROBE_S)
        time.sleep(SETTLE_S)
        failover = lab.fail_switch("o1")
        time.sleep(SETTLE_S)
        records = lab.stop_flows()
    affected, *others = _lost(records)
    same = all(len(record["servers"]) == 1 for record in records)
    return {
        "shape": "S4: only the VIPs of a dead switch are dark, for less than 1 s (38 ms there)",
        "verdict": _verdict(same and 0 < affected * PROBE_S < 1 and not any(others)),
        "dark_ms": affected * PROBE_S * 1e3,
        "rerouted_ms": (failover.rerouted_ns - failover.died_ns) / 1e6,
        "lost": affected,
        "lost_of_others": sum(others),
    }


def measure_moves(moves: int, seed: int = 0) -> Row:
    """Move VIPs at random: switch, software muxes, switch."""
    rng = random.Random(seed)
    took_ms = []
    with _lab() as lab:
        lab.start_flows(PROBES, PROBE_S)
        for _ in range(moves):
            began = time.monotonic()
            lab.assign({rng.randrange(len(VIPS)): rng.choice((*SWITCHES, "", "", ""))})
            took_ms.append((time.monotonic() - began) * 1e3)
        records = lab.stop_flows()
    lost, moved = _lost(records), sum(len(record["servers"]) - 1 for record in records)
    return {
        "shape": "S5: moves between switches and muxes lose no probe and change no server",
        "verdict": _verdict(not any(lost) and not moved),
        "moves": moves,
        "move_ms_p50": statistics.median(took_ms),
        "probes": sum(record["sent"] for record in records),
        "lost": sum(lost),
        "server_changes": moved,
    }


def measure_removal() -> Row:
    """Take a server from VIP 0 while a switch serves it; 32 flows of it, by two transports."""
    flows = [(f"c{n % 4 + 1}", 0, ("udp", "tcp")[n // 4 % 2]) for n in range(32)]
    with _lab() as lab:
        lab.assign({0: "o1"})
        lab.start_flows(flows, 0.02)
        time.sleep(SETTLE_S)
        lab.remove_dip(0, "s3")
        time.sleep(SETTLE_S)
        records = lab.stop_flows()
    own = [record for record in records if record["servers"][0][0] == "s3"]
    others = [record for record in records if record["servers"][0][0] != "s3"]
    kept = all(
        len(record["servers"]) == 1 and not record["lost_ns"] and not record["error"]
        for record in others
    )
    return {
        "shape": "S12: the loss of a server moves its own flows, and no packet of others is lost",
        "verdict": _verdict(kept and bool(own)),
        "flows_of_the_server": len(own),
        "other_flows": len(others),
        "lost_of_others": sum(_lost(others)),
    }


def measure_congestion(is_local: bool, runs: int = RUNS) -> dict[str, float]:
    """Add a VIP whose clients and servers are in the same two racks, and see what others lose.

    Args:
        is_local: Whether it gets local mappings in those racks, as in Rubik.
        runs: How often; each has ports of its own, whose hashes choose the paths.

    Returns:
        By what factor VIP 0 and the stream between two hosts are slower with it in the mean, as
        ``vip_drop`` and ``background_drop``; and the rate of the new VIP's connections together.
    """
    measured = [_add_vip(is_local) for _ in range(runs)]
    before, after = (
        [statistics.mean(rates) for rates in zip(*times, strict=True)]
        for times in zip(*measured, strict=True)
    )
    return {
        "vip_drop": before[0] / after[0],
        "background_drop": before[BACKGROUND] / after[BACKGROUND],
        "new_mbps": sum(after[len(OLD_STREAMS) :]) / 1e6,
    }


def _add_vip(is_local: bool) -> tuple[list[float], list[float]]:
    """Return the rates of the old streams, then those of all with the new VIP's."""
    topology = make_topology("rubik-20", **CONGESTED)
    with MuxLab(topology, (*OLD_VIPS, NEW_SERVERS), convergence_s=CONVERGENCE_S) as lab:
        lab.assign(PLACES)
        if is_local:
            lab.localise(NEW_VIP, NEW_RACKS)
        lab.start_streams(OLD_STREAMS)
        before = _rates_bps(lab)
        lab.start_streams([(client, NEW_VIP) for client in NEW_CLIENTS] * CONNECTIONS)
        after = _rates_bps(lab)
    return before + [0.0] * (len(after) - len(before)), after


def _rates_bps(lab: MuxLab) -> list[float]:
    """Return the rate of each stream, once they have found it."""
    time.sleep(RAMP_S)
    first = lab.read_streams()
    time.sleep(WINDOW_S)
    return [
        8e9 * (now["bytes"] - was["bytes"]) / (now["read_ns"] - was["read_ns"])
        for was, now in zip(first, lab.read_streams(), strict=True)
    ]


def _congestion() -> Row:
    duet, rubik = measure_congestion(False), measure_congestion(True)
    drops = [duet["vip_drop"], duet["background_drop"]]
    kept = [rubik["vip_drop"], rubik["background_drop"]]
    return {
        "shape": "S11: a new VIP slows others 3 times (5 to 6 there), and by 10 % at most if local",
        "verdict": _verdict(min(drops) >= 3 and max(kept) <= 1 / 0.9),
        "duet_vip_drop": drops[0],
        "duet_background_drop": drops[1],
        "rubik_vip_drop": kept[0],
        "rubik_background_drop": kept[1],
        "duet_new_mbps": duet["new_mbps"],
        "rubik_new_mbps": rubik["new_mbps"],
    }


def _verdict(holds: bool) -> str:
    return "holds" if holds else "fails"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if a shape fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    rows = [measure_failover(), measure_moves(chosen.moves), measure_removal(), _congestion()]
    if chosen.json:
        print(json_text(rows, indent=None))
    else:
        for row in rows:
            table = Table(title=str(row.pop("shape")), title_justify="left")
            for name in row:
                table.add_column(name)
            table.add_row(*(f"{v:.1f}" if isinstance(v, float) else str(v) for v in row.values()))
            table_console().print(table)
    return int(any(row["verdict"] == "fails" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
