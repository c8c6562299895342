"""Build a fabric from JSON on stdin, run packets through it, print what came out as JSON."""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from typing import Any

from network import DEADLINE_S, quiet, veths

from dcgym.native import bpf_object, require

ALL_PROTOCOLS = 3  # ETH_P_ALL
STOLEN = 4  # TC_ACT_STOLEN: it went on, or was answered
QUIET_S = 0.1


def watch(interface: str) -> socket.socket:
    """Return a socket that takes what arrives at an interface."""
    watcher = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
    watcher.bind((interface, 0))
    return watcher


def seen(watchers: dict[str, socket.socket], expected: int) -> dict[str, list[str]]:
    """Return the frames that came: so many, and what else comes until none does for a while."""
    frames: dict[str, list[str]] = {name: [] for name in watchers}
    while True:
        is_all = sum(map(len, frames.values())) >= expected
        ready, _, _ = select.select([*watchers.values()], [], [], QUIET_S if is_all else DEADLINE_S)
        if not ready:
            return frames
        for name, watcher in watchers.items():
            if watcher in ready:
                frame, (_, _, kind, *_) = watcher.recvfrom(2048)
                if kind != socket.PACKET_OUTGOING:
                    frames[name].append(frame.hex())


def make_fabric(request: dict[str, Any]) -> tuple[Any, dict[str, int]]:
    """Return the fabric that is asked for, and the interface of each of its ports."""
    indexes: dict[str, int] = {}
    veths({name: f"{name}-peer" for name in request["ports"]})
    for name in request["ports"]:
        indexes[name] = socket.if_nametoindex(name)
    fabric = require().Fabric(
        str(bpf_object("fabric")),
        n_switches=2,
        n_hosts=8,
        n_ports=16,
        n_groups=16,
        least_mtu=request.get("least_mtu", 0),
    )
    for number, (name, switch) in enumerate(request["ports"].items()):
        if switch is not None:
            mtu = request.get("mtu", {}).get(name, 0)
            fabric.add_port(indexes[name], switch, number, mtu=mtu)
    for number, group in enumerate(request["groups"]):
        members = [indexes[name] for name in group["members"]]
        weights = group.get("weights", [1.0] * len(members))
        fabric.set_group(number, group["salt"], members, weights)
    for switch, host, group in request["routes"]:
        fabric.set_route(switch, host, group)
    for switch, host in request.get("cleared", []):
        fabric.clear_route(switch, host)
    for name, probability in request.get("loss", {}).items():
        fabric.set_loss(indexes[name], probability, 0.0)
    return fabric, indexes


def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    quiet()
    fabric, indexes = make_fabric(request)
    names = {index: name for name, index in indexes.items()} | {0: None}
    watchers = {name: watch(f"{name}-peer") for name in request.get("watched", ())}
    out, reasons = [], []
    began_ns = time.monotonic_ns()
    for port, packet in request["packets"]:
        if request["select"]:
            out.append(names[fabric.test_select(bytes.fromhex(packet), indexes[port])])
        else:
            verdict, left = fabric.test_forward(bytes.fromhex(packet), indexes[port])
            out.append([verdict, left.hex()])
    elapsed_ns = time.monotonic_ns() - began_ns
    sent_on = [] if request["select"] else [verdict for verdict, _ in out if verdict == STOLEN]
    for port, packet in request.get("refused", []):
        before = fabric.drop_counters()
        verdict, left = fabric.test_forward(bytes.fromhex(packet), indexes[port])
        grown = {name: n - before[name] for name, n in fabric.drop_counters().items()}
        reasons.append([verdict, left.hex(), {name: n for name, n in grown.items() if n}])
    arrived = seen(watchers, len(sent_on)) if watchers else {}
    result = {"out": out, "drops": fabric.drop_counters(), "arrived": arrived}
    result["refused"] = reasons
    json.dump(result | {"elapsed_ns": elapsed_ns}, sys.stdout)


main()
