"""E15: do connections keep their device through changes of policy, weights and pool?

Source: Tajbakhsh 2023, sections 4.2 and 5.4: "per-connection consistency", by a table of 50,000
registers that the CRC16 of the five-tuple indexes, and a Bloom filter that tells known connections
from new ones. The thesis calls false positives negligible, and shows no measurement.

How to run, as root: ``.venv/bin/python -m experiments.papers.tajbakhsh.connections``

What is done: TCP connections are opened through the balancer's BPF program. Then, over and over,
rule, weights, members and servers change, some connections end, as many begin, and every live one
sends a packet. One that goes elsewhere than before is broken. The source's table is in the twin, as
P4Hauler has it: the last packet frees the cell. Rules and weights change there, too.

Results to expect: no connection that has an entry breaks in our table; what finds no room in its
bucket of four follows the hash, and may break. In the source's table connections share a cell from
1,000 live ones on; of two that do, the first one's end takes the other one's device away.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dcgym.backends.simulation import AcceleratorTwin
from dcgym.native import bpf_object, require
from dcgym.suites.intervals import bootstrap_95
from dcgym.suites.results import machine, write_json
from dcgym.suites.verdicts import FAILS, HOLDS, NOT_RUN
from dcgym.tasks.accelerators.protocol import DeviceCommands, DeviceEpisode
from dcgym.tasks.accelerators.rules import DEVICE_RULES
from dcgym.tasks.balancing.rules import RULES
from dcgym.writing import prepare_folder

# An odd factor spreads clients over addresses and ports, each pair once.
SPREAD = 0x9E3779B1
SERVER_RULES = ("random", "round-robin", "wcmp", "lsq", "sed")
MAC, VIP = "02:dc:00:00:00:63", "10.0.0.100"
SYN, ACK, FIN = 0x02, 0x10, 0x11
HOUR_NS = 3600 * 10**9
REDIRECT = 7  # linux/pkt_cls.h: TC_ACT_REDIRECT
# In the twin: mean life of a connection, lives until as many come as end, and lives measured then.
LIFE_S, FILLING, MEASURED = 10.0, 5, 10


@dataclass(frozen=True)
class Args:
    """Settings.

    Attributes:
        live: Connections that are open at a time.
        entries: Sizes of our flow table.
        changes: Changes of everything, one after the other.
        renewed: Share of the connections that end, and begin anew, at each change.
        servers: Servers of the pool.
        accelerators: Of each server.
        seeds: Runs.
    """

    live: tuple[int, ...] = (1_000, 5_000, 20_000)
    entries: tuple[int, ...] = (65_536, 1_048_576)
    changes: int = 5
    renewed: float = 0.05
    servers: int = 64
    accelerators: int = 2
    seeds: int = 5


def frame(number: int, flags: int) -> bytes:
    """Return a packet of a connection by its number."""
    spread = number * SPREAD & 0xFFFFFFFF
    client = ((10 << 24) + (1 << 16) + (spread >> 16)).to_bytes(4, "big")
    ports = (spread & 0xFFFF).to_bytes(2, "big") + b"\x00\x50"
    macs = bytes.fromhex(MAC.replace(":", "")) + bytes([2, 0, 0, 0, 0, 1])
    ip = bytes.fromhex("0800450000280000000040060000")
    tcp = ports + bytes(8) + bytes([0x50, flags, *bytes(6)])
    return macs + ip + client + bytes([10, 0, 0, 100]) + tcp


class BalancedPool:
    """The BPF balancer of a pool, whose packets are run in place.

    Args:
        args: Servers and accelerators.
        entries: Of the flow table.
        seed: Of the hash, and of what changes.
    """

    def __init__(self, args: Args, entries: int, seed: int) -> None:
        """Load the program."""
        self._args, self._rng = args, np.random.default_rng(seed)
        self._native = require().Balancer(
            str(bpf_object("l4lb")), MAC, flow_entries=entries, seed=seed, devices=True
        )
        self._native.add_vip(0, VIP, 80)
        self._native.set_timeouts(HOUR_NS, HOUR_NS, HOUR_NS, HOUR_NS)
        self._native.set_servers(0, {n: self._mac(n, 0) for n in range(args.servers)})
        for server in range(args.servers):
            macs = {d: self._mac(server, d) for d in range(1, args.accelerators + 1)}
            self._native.set_accelerators(0, server, macs)
        self.change()

    @staticmethod
    def _mac(server: int, device: int) -> str:
        return f"02:dc:00:{device:02x}:01:{server:02x}"

    def change(self) -> None:
        """Draw rules of both levels, weights, devices that are members, and servers anew."""
        rng, args = self._rng, self._args
        devices = args.accelerators + 1
        device_rule = int(rng.integers(len(DEVICE_RULES)))
        weights = rng.integers(0, 7, (args.servers, devices)).astype(np.float64)
        present = rng.random((args.servers, devices)) < 0.7
        present[:, 0] |= ~present.any(axis=1)
        members = {n: np.flatnonzero(row).tolist() for n, row in enumerate(present)}
        self._native.devices.set_policy(
            0, rule=device_rule, threshold=50, weights=weights, members=members
        )
        pool = np.flatnonzero(rng.random(args.servers) < 0.7)
        pool = pool if len(pool) else np.arange(1)
        rule = RULES[SERVER_RULES[rng.integers(len(SERVER_RULES))]].number
        self._native.pools.replace(0, rule, pool.tolist(), rng.uniform(1, 5, len(pool)).tolist())

    def send(self, number: int, flags: int) -> tuple[int, int]:
        """Return server and device that a connection's packet goes to."""
        verdict, left = self._native.test_balance(frame(number, flags))
        if verdict != REDIRECT:
            raise RuntimeError(f"connection {number}: the packet was dropped")
        return left[5], left[3]

    def counters(self) -> dict[str, int]:
        """Return the balancer's own counters."""
        found: dict[str, int] = self._native.counters()
        return found

    def close(self) -> None:
        """Release the program."""
        self._native.close()


def run(args: Args, live: int, entries: int, seed: int) -> dict[str, int]:
    """Let connections live through the changes, in our table.

    Args:
        args: The settings.
        live: Connections that are open at a time.
        entries: Of our flow table.
        seed: Of everything.

    Returns:
        Connections, those that broke, as the packets show (`broken`) and as the balancer counts
        (`counted`), and packets that found no entry (`missed`).
    """
    pool, rng = BalancedPool(args, entries, seed), np.random.default_rng([seed, 1])
    open_now, begun = list(range(live)), live
    homes = {number: pool.send(number, SYN) for number in open_now}
    broken = set()
    for _ in range(args.changes):
        pool.change()
        for number in open_now:
            if pool.send(number, ACK) != homes[number]:
                broken.add(number)
        for place in rng.choice(live, round(live * args.renewed), replace=False).tolist():
            ended, open_now[place], begun = open_now[place], begun, begun + 1
            pool.send(ended, FIN)
            homes[open_now[place]] = pool.send(open_now[place], SYN)
    counted = pool.counters()
    pool.close()
    return {
        "connections": begun,
        "broken": len(broken),
        "counted": counted["pcc_violations"],
        "missed": counted["missed"],
    }


def run_source(args: Args, live: int, seed: int) -> dict[str, int]:
    """Let connections live through changes in the source's table, in the twin.

    Args:
        args: The settings.
        live: Connections that are open at a time, on average.
        seed: Of everything.

    Returns:
        Connections that began (`connections`), in a cell in use (`inherited`), and those whose last
        packet went elsewhere (`broken`).
    """
    devices = args.accelerators + 1
    device = {"kind": "device", "workers": 65_536, "service": {"session": LIFE_S}}
    twin = AcceleratorTwin(
        {
            "groups": [{"name": "s", "count": args.servers, "devices": [device] * devices}],
            "applications": [{"name": "session", "demand": "exponential"}],
            "agents": {"kind": "none"},
            "connection_table": {},
        }
    )
    rng = np.random.default_rng([seed, 2])
    rules = [rule.name for rule in DEVICE_RULES.values() if rule.needs == "nothing"]
    twin.reset([DeviceEpisode(seed, live / LIFE_S)])
    found = {"connections": 0, "inherited": 0, "broken": 0}
    steps = (FILLING + MEASURED) * args.changes
    for number in range(1, steps + 1):
        weights = rng.integers(0, 7, (1, args.servers, devices)).astype(np.float64)
        weights[:, :, 0] += weights.sum(axis=2) == 0
        server_rule = SERVER_RULES[rng.integers(len(SERVER_RULES))]
        rule = rules[rng.integers(len(rules))]
        twin.apply(DeviceCommands(rule, server_rule, weights))
        twin.advance(int(number * LIFE_S / args.changes * 1e9))
        seen = twin.read()
        if number > FILLING * args.changes:
            found["connections"] += int(seen.arrivals[0])
            found["inherited"] += int(seen.inherited[0])
            found["broken"] += int(seen.pcc_violations[0])
    return found


def verdict(rows: list[dict[str, Any]]) -> str:
    """Say whether no connection broke wherever the flow table had room for all of them.

    Args:
        rows: What `run` returned.

    Returns:
        One of `dcgym.suites.verdicts.VERDICTS`: not run where no table had room.
    """
    with_room = [row for row in rows if row["missed"] == 0]
    if not with_room:
        return NOT_RUN
    return FAILS if any(row["broken"] or row["counted"] for row in with_room) else HOLDS


def shares(rows: list[dict[str, Any]], name: str) -> str:
    """Return a count over the connections, in per cent, with its 95 % interval."""
    return bootstrap_95([100 * row[name] / row["connections"] for row in rows]).text()


def main(out: Path, args: Args | None = None) -> None:
    """Run all sizes and print the tables and the verdict."""
    args = args or Args()
    prepare_folder(out)
    found: list[dict[str, Any]] = []
    print("live | entries | broken % | packets without an entry")
    for live in args.live:
        for entries in args.entries:
            rows = [run(args, live, entries, seed) for seed in range(args.seeds)]
            missed = sum(row["missed"] for row in rows)
            print(live, entries, shares(rows, "broken"), missed, sep=" | ", flush=True)
            found += [{"live": live, "entries": entries, **row} for row in rows]
    print("E15, no broken connections while the table has room:", verdict(found))
    print("the source's table")
    print("live | began in a cell in use % | broken %")
    cells: list[dict[str, Any]] = []
    for live in args.live:
        rows = [run_source(args, live, seed) for seed in range(args.seeds)]
        print(live, shares(rows, "inherited"), shares(rows, "broken"), sep=" | ", flush=True)
        cells += [{"live": live, **row} for row in rows]
    results = {"runs": found, "source": cells, "verdict": verdict(found), "machine": machine()}
    write_json(out / "results.json", results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs") / "accelerators" / "connections")
    main(parser.parse_args().out)
