"""Read the queues of two namespaces while packets wait in them; tc's own figures for comparison.

In: {"sent": packets to put on the wire, "bytes": size of each}. Out: what the reader and tc saw.
"""

from __future__ import annotations

import json
import mmap
import socket
import subprocess
import sys
from typing import Any

import numpy as np
from network import new_namespace, quiet, run, within

from dcgym.native import bpf_object, require

FIELDS = ("tx_bytes", "tx_packets", "backlog_bytes")
QUEUE = np.dtype([*((name, "<u8") for name in FIELDS), ("drops", "<u4"), ("overlimits", "<u4")])


def shaped(name: str) -> int:
    """Make a veth pair whose first end lets one packet through, 10 more wait."""
    run(f"ip link add name {name} type veth peer name {name}p")
    run(f"tc qdisc add dev {name} root tbf rate 8bit burst 1600 limit 10000")
    run(f"ip link set dev {name} up")
    run(f"ip link set dev {name}p up")
    return socket.if_nametoindex(name)


def send(name: str, count: int, size: int) -> None:
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    raw.bind((name, 0))
    for _ in range(count):
        try:
            raw.send(bytes(12) + b"\x08\x00" + bytes(size - 14))
        except OSError:
            continue  # ENOBUFS: the queue was full, as it should be


def tc(name: str) -> dict[str, Any]:
    listing = subprocess.run(
        ["tc", "-j", "-s", "qdisc", "show", "dev", name], capture_output=True, text=True, check=True
    )
    (root,) = (entry for entry in json.loads(listing.stdout) if entry["kind"] == "tbf")
    names = dict(
        zip(
            (*FIELDS, "drops", "overlimits"),
            ("bytes", "packets", "backlog", "drops", "overlimits"),
            strict=True,
        )
    )
    return {ours: root[theirs] for ours, theirs in names.items()}


def main() -> None:
    request = json.load(sys.stdin)
    quiet()
    other = new_namespace()
    indexes = [shaped("a"), within(other, lambda: shaped("b"))]
    reader = require().QueueReader(
        str(bpf_object("queues")), [(-1, indexes[0]), (other, indexes[1])]
    )
    mapped = mmap.mmap(reader.map_fd, 2 * QUEUE.itemsize, mmap.MAP_SHARED, mmap.PROT_READ)
    send("a", request["sent"], request["bytes"])
    out = []
    for expected in (tc("a"), within(other, lambda: tc("b"))):
        require().read_queues(reader.program_fd)
        record = np.frombuffer(mapped, QUEUE)[len(out)]
        out.append(
            {"read": {name: int(record[name]) for name in QUEUE.names or ()}, "tc": expected}
        )
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
