"""Run steps on a fabric with a flow table: JSON steps on stdin, what each select saw on stdout."""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
import time
from typing import Any

import numpy as np
from network import quiet, run
from queues import send, shaped

from dcgym.native import bpf_object, require
from tests.support.bpf_maps import OwnMap

PACKET_BYTES = 1000
SIZES = {"n_switches": 2, "n_hosts": 8, "n_ports": 16, "n_groups": 16}


class Scenario:
    """Packets come in by port a of switch 0 or z of switch 1; b to g are nothing but numbers."""

    def __init__(self, flow_entries: int, path_rule: str) -> None:
        native = require()
        self.fabric = native.Fabric(
            str(bpf_object("fabric")), **SIZES, flow_entries=flow_entries, path_rule=path_rule
        )
        # As the environment's process does: through the descriptors.
        self.groups = native.GroupTable(
            group_map_fd=self.fabric.group_map_fd,
            control_map_fd=self.fabric.control_map_fd,
            n_groups=SIZES["n_groups"],
        )
        run("ip link add name a type veth peer name z")
        self.indexes = {name: 100 + number for number, name in enumerate("bcdefg")}
        self.indexes |= {name: socket.if_nametoindex(name) for name in "az"}
        self.fabric.add_port(self.indexes["a"], 0, 0)
        self.fabric.add_port(self.indexes["z"], 1, 1)
        self.names = {index: name for name, index in self.indexes.items()} | {0: None}

        self.writers: dict[tuple[int, str], Any] = {}

    def group(
        self,
        number: int,
        members: str,
        weights: list[float],
        salt: int = 7,
        follows: int | None = None,
    ) -> None:
        """Replace a group."""
        indexes = [self.indexes[name] for name in members]
        self.groups.replace(number, salt, indexes, weights, follows)

    def route(self, switch: int, host: int, number: int) -> None:
        """Send a host's packets to a group."""
        self.fabric.set_route(switch, host, number)

    def weights(self, number: int, members: str, weights: list[float]) -> None:
        """Set weights as an agent does."""
        if (number, members) not in self.writers:
            indexes = [[self.indexes[name] for name in members]]
            self.writers[number, members] = require().PathWeights(self.groups, [number], indexes)
        self.writers[number, members].apply(np.array(weights))

    def gap(self, microseconds: float) -> None:
        """Switch flowlets on or off."""
        self.groups.set_flowlet_gap(round(microseconds * 1e3))

    def idle(self, microseconds: float) -> None:
        """Let time pass."""
        time.sleep(microseconds / 1e6)

    def later(self, milliseconds: float) -> None:
        """Let another processor have seen every flow that much later than now."""
        flows, seen_ns = OwnMap("flows"), time.monotonic_ns() + round(milliseconds * 1e6)
        for key, value in flows.items():
            pin, _, epoch = struct.unpack("<QQQ", value)
            flows.write(key, struct.pack("<QQQ", pin, seen_ns, epoch))

    def seed(self, seed: int) -> None:
        """Begin the draws of paths anew; every packet so comes to one CPU, the first."""
        os.sched_setaffinity(0, {0})
        self.fabric.seed_paths(seed)

    def queues(self, backlogs: dict[str, int]) -> None:
        """Make real ports of the names, with so many bytes that wait and hardly ever leave."""
        for number, (name, backlog) in enumerate(backlogs.items()):
            self.indexes[name] = shaped(name)
            self.names[self.indexes[name]] = name
            self.fabric.add_port(self.indexes[name], 0, 2 + number)
            self.fabric.attach(self.indexes[name])
            send(name, 1 + backlog // PACKET_BYTES, PACKET_BYTES)

    def link(self, name: str, state: str) -> None:
        """Take a port's link up or down at its other end."""
        run(f"ip link set dev {name}p {state}")

    def forget(self) -> None:
        """Empty the flow table."""
        self.groups.forget_flows()

    def select(self, packets: list[str], port: str = "a") -> list[str | None]:
        """Return the port that each packet leaves by."""
        return [self._select(bytes.fromhex(packet), port) for packet in packets]

    def read(self, number: int) -> list[tuple[str, str, int]]:
        """Return the slots of a group."""
        slots = self.groups.read(number)["slots"]
        return [(self.names[one], self.names[other], at) for one, other, at in slots]

    def race(self, number: int, members: str, tables: list[list[float]], packet: str) -> Any:
        """Count what a packet sees while tables replace each other as fast as they can.

        It ends when each table was seen often and they were replaced often, or after a minute.
        """
        indexes = [[self.indexes[name] for name in members]]
        # One call replaces the group some thousand times, without Python in between.
        often = 1000
        weights = np.tile(np.concatenate(tables), often)
        times = often * len(tables)
        writer = require().PathWeights(self.groups, [number] * times, indexes * times)
        is_over = threading.Event()
        written = 0

        def write() -> None:
            nonlocal written
            while not is_over.is_set():
                writer.apply(weights)
                written += times

        thread = threading.Thread(target=write)
        thread.start()
        seen: dict[str, int] = {}
        data, port = bytes.fromhex(packet), self.indexes["a"]
        deadline = time.monotonic() + 60
        try:
            while time.monotonic() < deadline:
                for _ in range(10_000):
                    name = str(self.names[self.fabric.test_select(data, port)])
                    seen[name] = seen.get(name, 0) + 1
                is_enough = len(seen) > 1 and min(seen.values()) > 1000 and written > 100_000
                if is_enough and sum(seen.values()) >= 100_000:
                    break
        finally:
            is_over.set()
            thread.join()
        return {"seen": seen, "written": written}

    def _select(self, packet: bytes, port: str) -> str | None:
        return self.names[self.fabric.test_select(packet, self.indexes[port])]


def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    quiet()
    scenario = Scenario(request["flow_entries"], request.get("path_rule", "ecmp"))
    out = [getattr(scenario, name)(*arguments) for name, *arguments in request["steps"]]
    json.dump({"out": out, "drops": scenario.fabric.drop_counters()}, sys.stdout)


main()
