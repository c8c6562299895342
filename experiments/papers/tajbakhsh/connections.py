"""E15: do connections keep their device through changes of policy, weights and pool?

Source: Tajbakhsh 2023, sections 4.2 and 5.4: "per-connection consistency", by a table of 50,000
registers that the CRC16 of the five-tuple indexes, and a Bloom filter that tells known connections
from new ones. The thesis calls false positives negligible, and shows no measurement.

How to run, as root: ``.venv/bin/python -m experiments.papers.tajbakhsh.connections``

What is done: TCP connections are opened through the balancer's BPF program. Then, over and over,
rule, weights, members and servers change, some connections end, as many begin, and every live one
sends a packet. One that goes elsewhere than before is broken. The source's table runs beside it, as
P4Hauler has it: the last packet frees the cell. Its Bloom filter makes no errors of its own here.

Results to expect: no connection that has an entry breaks in our table; what finds no room in its
bucket of four follows the hash, and may break. In the source's table connections share a cell from
1,000 live ones on, and those whose cell another one's end freed break.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.native import bpf_object, require
from dcgym.suites.intervals import bootstrap_95
from dcgym.suites.results import machine, write_json
from dcgym.suites.verdicts import FAILS, HOLDS, NOT_RUN
from dcgym.tasks.accelerators.rules import DEVICE_RULES
from dcgym.tasks.balancing.rules import RULES
from dcgym.writing import prepare_folder

CELLS = 50_000
"""Registers of the source's connection table."""
# Clients in a row would hardly collide: a CRC of 16 bits keeps 65,536 ports in a row apart. An odd
# factor spreads addresses and ports, each pair once.
SPREAD = 0x9E3779B1
SERVER_RULES = ("random", "round-robin", "wcmp", "lsq", "sed")
MAC, VIP = "02:dc:00:00:00:63", "10.0.0.100"
SYN, ACK, FIN = 0x02, 0x10, 0x11
HOUR_NS = 3600 * 10**9
REDIRECT = 7  # linux/pkt_cls.h: TC_ACT_REDIRECT
NOBODY = -1


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


def crc16(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Return the CRC-16/ARC of each row of bytes: P4's `crc16`.

    Args:
        rows: Shape (N, number of bytes).
    """
    table = np.arange(256, dtype=np.int64)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ 0xA001, table >> 1)
    found = np.zeros(len(rows), np.int64)
    for column in rows.T.astype(np.int64):
        found = found >> 8 ^ table[(found ^ column) & 0xFF]
    return found


def cells_of(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the cell of the source's table for connections by their number."""
    clients = numbers * SPREAD & 0xFFFFFFFF
    address, port = (10 << 24) + (1 << 16) + (clients >> 16), clients & 0xFFFF
    rows = np.zeros((len(numbers), 13), np.uint8)
    for byte in range(4):
        rows[:, byte] = address >> 8 * (3 - byte) & 0xFF
    rows[:, 4:8] = (10, 0, 0, 100)
    rows[:, 8], rows[:, 9] = port >> 8, port & 0xFF
    rows[:, 10:12], rows[:, 12] = (0, 80), 6
    return crc16(rows) % CELLS


@dataclass
class CellTable:
    """The source's table: a cell by hash, taken by the first packet, freed by the last one.

    Attributes:
        inherited: Connections that began with another one's destination.
        broken: Connections whose packets changed their destination.
    """

    rng: np.random.Generator
    cells: npt.NDArray[np.int64] = field(default_factory=lambda: np.full(CELLS, NOBODY))
    homes: dict[int, int] = field(default_factory=dict)
    inherited: int = 0
    broken: set[int] = field(default_factory=set)

    def open(self, number: int, cell: int, choices: int) -> None:
        """Let a connection begin; a free cell takes one of so many destinations."""
        self.inherited += self.cells[cell] != NOBODY
        self.homes[number] = self._follow(cell, choices)

    def send(self, number: int, cell: int, choices: int) -> None:
        """Let a packet of it come."""
        home = self._follow(cell, choices)
        if home != self.homes[number]:
            self.broken.add(number)
            self.homes[number] = home

    def end(self, number: int, cell: int, choices: int) -> None:
        """Let its last packet come."""
        self.send(number, cell, choices)
        self.cells[cell] = NOBODY

    def _follow(self, cell: int, choices: int) -> int:
        if self.cells[cell] == NOBODY:
            self.cells[cell] = self.rng.integers(choices)
        return int(self.cells[cell])


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
        self._native.devices.set_rule(0, int(rng.integers(len(DEVICE_RULES))), threshold=50)
        weights = rng.integers(0, 7, (args.servers, devices)).astype(np.float64)
        self._native.devices.set_weights(0, weights)
        present = rng.random((args.servers, devices)) < 0.7
        present[:, 0] |= ~present.any(axis=1)
        members = {n: np.flatnonzero(row).tolist() for n, row in enumerate(present)}
        self._native.devices.set_members(0, members)
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


# Long because both tables live through the same steps, and six figures are returned.
def run(args: Args, live: int, entries: int, seed: int) -> dict[str, int]:
    """Let connections live through the changes, in both tables.

    Args:
        args: The settings.
        live: Connections that are open at a time.
        entries: Of our flow table.
        seed: Of everything.

    Returns:
        Connections, those that broke in our table, as the packets show (`broken`) and as the
        balancer counts (`counted`), packets that found no entry (`missed`), and of the source's
        table connections that began in a cell in use (`inherited`) and that broke
        (`source_broken`).
    """
    pool, rng = BalancedPool(args, entries, seed), np.random.default_rng([seed, 1])
    table, choices = CellTable(rng), args.servers * (args.accelerators + 1)
    open_now, begun = list(range(live)), live
    renewed = round(live * args.renewed)
    cells = cells_of(np.arange(live + args.changes * renewed)).tolist()
    homes = {number: pool.send(number, SYN) for number in open_now}
    broken = set()
    for number in open_now:
        table.open(number, cells[number], choices)
    for _ in range(args.changes):
        pool.change()
        for number in open_now:
            if pool.send(number, ACK) != homes[number]:
                broken.add(number)
            table.send(number, cells[number], choices)
        for place in rng.choice(live, renewed, replace=False).tolist():
            ended, open_now[place], begun = open_now[place], begun, begun + 1
            pool.send(ended, FIN)
            table.end(ended, cells[ended], choices)
            homes[open_now[place]] = pool.send(open_now[place], SYN)
            table.open(open_now[place], cells[open_now[place]], choices)
    counted = pool.counters()
    pool.close()
    return {
        "connections": begun,
        "broken": len(broken),
        "counted": counted["pcc_violations"],
        "missed": counted["missed"],
        "inherited": table.inherited,
        "source_broken": len(table.broken),
    }


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
    """Run all sizes and print the table and the verdict."""
    args = args or Args()
    prepare_folder(out)
    found: list[dict[str, Any]] = []
    print("live | entries | broken % | without an entry | source: inherited % | source: broken %")
    for live in args.live:
        for entries in args.entries:
            rows = [run(args, live, entries, seed) for seed in range(args.seeds)]
            missed = sum(row["missed"] for row in rows)
            figures = [shares(rows, name) for name in ("broken", "inherited", "source_broken")]
            print(live, entries, figures[0], missed, *figures[1:], sep=" | ", flush=True)
            found += [{"live": live, "entries": entries, **row} for row in rows]
    print("E15, no broken connections while the table has room:", verdict(found))
    results = {"runs": found, "verdict": verdict(found), "machine": machine()}
    write_json(out / "results.json", results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs") / "accelerators" / "connections")
    main(parser.parse_args().out)
