"""Windows of the kernel's TCP under scripted losses and marks: golden traces for the packet twin.

How to run (root; a minute): ``.venv/bin/python -m experiments.golden``

A sender of 100 Mbit/s and a receiver, each in a network namespace of its own, on both sides of a
router with a token bucket of 10 Mbit/s. A BPF program in front of the receiver loses or marks given
segments. The sender reads its own TCP_INFO some thousand times a second and keeps what changed.

Expected: the file of the tests (`TARGET`) is written anew, alike but for a few rows where the
machine was busy. `tests/backends/simulation/test_packet_golden.py` holds the twin to it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dcgym.native import bpf_object, require

HERE = Path(__file__).parent
TARGET = HERE.parents[1] / "tests/backends/simulation/data/kernel_windows.json"
MSS = 1448
PORT = 5001
SENDER, ROUTER, RECEIVER = "10.0.1.1", ("10.0.1.2", "10.0.2.2"), "10.0.2.1"
LONGEST_S = 15.0

# Segments of the flow, {segment: how often it is lost}, segments that are marked.
# All comes early: the window stays below what the receiver offers at first.
Script = tuple[int, dict[int, int], list[int]]
SCRIPTS: dict[str, Script] = {
    "none": (45, {}, []),
    "single": (200, {20: 1}, []),
    "double": (200, {20: 1, 24: 1}, []),
    "tail": (30, {29: 1}, []),
    "again": (200, {20: 2}, []),
    "many": (200, dict.fromkeys(range(20, 30), 1), []),
    "timeout": (200, dict.fromkeys(range(20, 70), 1), []),
}
MARKS: dict[str, Script] = {
    "none": (45, {}, []),
    "first": (200, {}, [5]),
    "window": (200, {}, list(range(20, 30))),
    "single": (200, {20: 1}, []),
}
TRANSPORTS = {"reno": SCRIPTS, "cubic": SCRIPTS, "bbr": SCRIPTS, "dctcp": MARKS}
# How the emulation sets its hosts (emulator/network.py).
SYSCTLS = {"tcp_no_metrics_save": 1, "tcp_no_ssthresh_metrics_save": 1, "tcp_tso_rtt_log": 0}
# name, of TCP_INFO: byte and format
FIELDS = {"state": (1, "B"), "ssthresh": (76, "I"), "cwnd": (80, "I"), "delivered": (192, "I")}


def run(*command: str) -> None:
    """Run a command that must succeed."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def address(device: str, own: str, gateway: str | None) -> None:
    """Give a device an address; the other network lies behind the gateway."""
    run("ip", "address", "add", f"{own}/24", "dev", device)
    run("ip", "link", "set", device, "up")
    if gateway is not None:
        run("ip", "route", "add", "default", "via", gateway)
    for name, value in SYSCTLS.items():
        Path(f"/proc/sys/net/ipv4/{name}").write_text(str(value))


def bucket(device: str, rate: str, burst: int, most: int, peak: str) -> None:
    """Limit a device as the emulation does; the peak's bucket has larger packets segmented."""
    shape = ["rate", rate, "burst", str(burst), "limit", "4000000"]
    shape += ["peakrate", peak, "mtu", str(most)]
    run("tc", "qdisc", "add", "dev", device, "root", "tbf", *shape)


def rows_of(connection: socket.socket, segments: int) -> list[list[int]]:
    """Send the flow; return what its window was, at every change."""
    rows: list[list[int]] = []
    left = segments * MSS
    connection.setblocking(False)
    deadline = time.monotonic() + LONGEST_S
    # The SYN is counted as delivered.
    while time.monotonic() < deadline and (not rows or rows[-1][0] < segments + 1):
        while left > 0:
            try:
                left -= connection.send(bytes(min(left, 65_536)))
            except BlockingIOError:
                break
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        found = {name: struct.unpack_from(kind, info, at)[0] for name, (at, kind) in FIELDS.items()}
        row = [found[name] for name in ("delivered", "cwnd", "ssthresh", "state")]
        if not rows or rows[-1] != row:
            rows.append(row)
        time.sleep(0.0001)
    return rows


def send(transport: str, segments: int) -> None:
    """Be the sender: wait for the device, then print the rows."""
    sys.stdin.readline()
    address("sender", SENDER, ROUTER[0])
    bucket("sender", "100mbit", 12_500, 6100, "10gbit")
    # It sleeps between its looks, and is not to miss a state that lasts a millisecond.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    with socket.socket() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, transport.encode())
        connection.connect((RECEIVER, PORT))
        print(json.dumps(rows_of(connection, segments)), flush=True)


def receive(transport: str, program: str) -> None:
    """Be the receiver, behind the script; ends with its standard input."""
    sys.stdin.readline()
    address("receiver", RECEIVER, ROUTER[1])
    run("tc", "qdisc", "add", "dev", "receiver", "clsact")
    where = ("dev", "receiver", "ingress", "bpf", "da", "obj", program, "sec", "tc")
    run("tc", "filter", "add", *where)
    with socket.socket() as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, transport.encode())
        listener.bind((RECEIVER, PORT))
        listener.listen()
        print("ready", flush=True)
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        connection, _ = listener.accept()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 16 * 1024)
        while connection.recv(1 << 20):
            pass


@contextlib.contextmanager
def child(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run this program in a network namespace of its own, which vanishes with it."""
    command = ["unshare", "--net", sys.executable, "-m", "experiments.golden", *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def compile_script(folder: Path, losses: dict[int, int], marks: Sequence[int]) -> str:
    """Compile the BPF program that does what a script says."""
    rules = [f"{{{segment}, {times}, 0}}" for segment, times in losses.items()]
    rules += [f"{{{segment}, 1, 1}}" for segment in marks]
    target = folder / "script.o"
    system = f"-I/usr/include/{platform.machine()}-linux-gnu"
    define = f"-DRULES={', '.join(rules) or '{0xffffffff, 0, 0}'}"
    source = str(HERE / "script.bpf.c")
    run("clang", "-target", "bpf", "-O2", "-g", system, define, "-c", source, "-o", str(target))
    return str(target)


def record(transport: str, script: Script) -> list[list[int]]:
    """Run one flow through the router, which is the present namespace."""
    segments, losses, marks = script
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        program = compile_script(folder, losses, marks)
        sender = stack.enter_context(child("send", transport, str(segments)))
        receiver = stack.enter_context(child("receive", transport, program))
        for process, name, own in ((sender, "sender", "r1"), (receiver, "receiver", "r2")):
            gso = ("gso_max_size", str(4 * MSS + 400))
            run("ip", "link", "add", own, "type", "veth", "peer", "name", name)
            run("ip", "link", "set", name, *gso)
            wait_for_namespace(process.pid)
            run("ip", "link", "set", name, "netns", str(process.pid))
        address("r1", ROUTER[0], None)
        address("r2", ROUTER[1], None)
        bucket("r2", "10mbit", 3028, 1600, "1gbit")
        for process, ready in ((receiver, "ready"), (sender, "[")):
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write("go\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if not line.startswith(ready):
                raise RuntimeError(f"{transport}: {line!r}")
        for device in ("r1", "r2"):
            subprocess.run(["ip", "link", "delete", device], check=False, capture_output=True)
        rows: list[list[int]] = json.loads(line)
        return rows


def thin(rows: list[list[int]]) -> list[list[int]]:
    """Keep the corners: between two of them the window is on a straight line, within a packet."""
    kept = [rows[0]]
    for number in range(1, len(rows)):
        begin, row = kept[-1], rows[number]
        after = rows[number + 1] if number + 1 < len(rows) else None
        if after is None or row[2:] != begin[2:] or after[2:] != row[2:]:
            kept.append(row)
            continue
        first = rows.index(begin)
        slope = (after[1] - begin[1]) / max(after[0] - begin[0], 1)
        between = rows[first + 1 : number + 1]
        if any(abs(begin[1] + slope * (at - begin[0]) - cwnd) > 0.75 for at, cwnd, *_ in between):
            kept.append(row)
    return kept


def wait_for_namespace(pid: int) -> None:
    """Wait until a child has left for its own namespace."""
    own = os.readlink("/proc/self/ns/net")
    deadline = time.monotonic() + 10
    while os.readlink(f"/proc/{pid}/ns/net") == own:
        if time.monotonic() > deadline:
            raise TimeoutError("no namespace within 10 s")
        time.sleep(0.001)


def record_all(target: Path, only: str) -> None:
    """Record every script, and write them."""
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    loaded: list[Any] = []
    found: dict[str, Any] = {}
    for transport, scripts in TRANSPORTS.items():
        name = transport
        if transport == "dctcp":
            name = f"dctcp_{os.getpid()}"
            loaded.append(require().load_congestion_control(str(bpf_object("dctcp")), name))
        for script, content in scripts.items():
            if only in f"{transport}/{script}":
                rows = record(name, content)
                found[f"{transport}/{script}"] = kept = thin(rows)
                print(f"{transport}/{script}: {len(rows)} changes, {len(kept)} kept", flush=True)
    before = json.loads(target.read_text())["windows"] if only and target.exists() else {}
    rows_text = ",\n".join(
        f'"{name}": {json.dumps(rows)}' for name, rows in (before | found).items()
    )
    kernel = json.dumps(platform.release())
    target.write_text(f'{{"kernel": {kernel}, "windows": {{\n{rows_text}\n}}}}\n')


def main() -> None:
    """Record in a namespace of one's own; the parts are run by the same program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=TARGET)
    parser.add_argument("--only", default="", help="part of the names to record, as reno/single")
    arguments = parser.parse_args()
    match arguments.part:
        case []:
            unshare = shutil.which("unshare") or "unshare"
            own = [sys.executable, "-m", "experiments.golden", "all", "--out", str(arguments.out)]
            os.execv(unshare, [unshare, "--net", *own, "--only", arguments.only])
        case ["all"]:
            record_all(arguments.out, arguments.only)
        case ["send", transport, segments]:
            send(transport, int(segments))
        case ["receive", transport, program]:
            receive(transport, program)


if __name__ == "__main__":
    main()
