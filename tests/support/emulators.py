"""Emulators seen from outside: their processes, namespaces and BPF objects, and what they leave."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dcgym
from dcgym.backends.emulation.session.runs import list_runs

__all__ = [
    "Machine",
    "Owner",
    "Victim",
    "algorithms",
    "all_pids",
    "child_pids",
    "describe",
    "held_shared_memory",
    "inner_pid",
    "machine_bpf",
    "read_proc",
    "start_time",
]

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
OUR_BPF_NAMES = re.compile(r"fabric_|dctcp|ports$|routes$|groups$|counters$|drops$|fabric\.|flow_")

# An environment of its own: it runs an episode until its emulator dies, says so, and goes on.
OWNER = """
import json, time
from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.emulation.options import NetworkOptions
from dcgym.errors import BackendError
from dcgym.native import require
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.testing import OneNetwork
from dcgym.topologies import make_topology
from dcgym.traffic import make_plan

require().die_with_parent()
backend = OneNetwork(EmulationNetwork(make_topology("dumbbell"), NetworkOptions(preflight=False)))
plan = make_plan("pairs", backend.topology, 0)
error = ""
while True:
    names = {host.name: "dctcp" for host in backend.topology.hosts}
    backend.reset(NetworkEpisode(plan, congestion_control=names, marking=True))
    while not backend.snapshot().hosts["rx_bytes"].any():
        time.sleep(0.005)
    print(json.dumps({"outer": backend.lab.process._process.pid, "error": error}), flush=True)
    try:
        while True:
            backend.snapshot()
            time.sleep(0.005)
    except BackendError as problem:
        error = str(problem)
"""


def read_proc(pid: int, name: str) -> bytes:
    """A file of a process that may vanish meanwhile."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def child_pids(pid: int) -> list[int]:
    """Children of any thread, by their numbers outside of their namespace."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [int(c) for t in threads for c in read_proc(pid, f"task/{t}/children").split()]


def inner_pid(outer: int) -> int:
    """Process 1 of an emulator's pid namespace, as seen from outside."""
    (child,) = child_pids(outer)
    assert re.search(rb"^NSpid:\s+\d+\s+1$", read_proc(child, "status"), re.M)
    return child


def held_bpf(pid: int) -> set[tuple[str, int]]:
    """BPF objects that a process holds a descriptor of."""
    held = set()
    try:
        descriptors = os.listdir(f"/proc/{pid}/fdinfo")
    except OSError:
        return held
    for descriptor in descriptors:
        for line in read_proc(pid, f"fdinfo/{descriptor}").decode().splitlines():
            kind, _, number = line.partition(":")
            if kind in ("prog_id", "map_id", "link_id"):
                held.add((kind[:-3], int(number)))
    return held


def held_namespaces(pid: int) -> set[str]:
    """Network namespaces that a process lives in or keeps alive by a descriptor."""
    found = set()
    for folder in ("ns", "fd"):
        try:
            names = os.listdir(f"/proc/{pid}/{folder}")
        except OSError:
            continue
        for name in names:
            with contextlib.suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/{folder}/{name}"))
    return {link for link in found if link.startswith("net:")}


def held_shared_memory(pid: int) -> set[str]:
    """Files of shared memory that a process has mapped or open."""
    found = set(re.findall(rb"/dev/shm/\S+", read_proc(pid, "maps")))
    for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):
            found.add(os.readlink(descriptor).encode())
    return {name.decode() for name in found if name.startswith(b"/dev/shm/")}


def machine_bpf() -> set[tuple[str, int]]:
    """Every BPF object of the machine with a name that ours use (links have none)."""
    found = set()
    for kind in ("prog", "map", "link"):
        done = subprocess.run(["bpftool", "-j", kind, "show"], capture_output=True, text=True)
        if done.returncode:
            continue  # An object vanished between its listing and its description.
        for entry in json.loads(done.stdout or "[]"):
            if kind == "link" or OUR_BPF_NAMES.match(entry.get("name", "")):
                found.add((kind, entry["id"]))
    return found


def algorithms() -> set[str]:
    return set(AVAILABLE.read_text().split())


@dataclass
class Machine:
    """The machine before the test, and what of the test is left on it.

    Other emulators may come and go meanwhile, so processes are known as ours by a variable of
    their environment or as children of this process, and a BPF object counts as left over when
    nobody else holds it. Children that earlier tests left to this process are not ours. Names of
    shared memory do not say whose they are, and killed processes of other tests leave theirs:
    what an emulator holds is noted while it lives (`describe`).
    """

    run_dir: Path
    interfaces: set[str] = field(default_factory=set)
    bpf: set[tuple[str, int]] = field(default_factory=set)
    algorithms: set[str] = field(default_factory=set)
    children: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.children = set(child_pids(os.getpid()))
        self.interfaces = {name for _, name in socket.if_nameindex()}
        self.bpf = machine_bpf()
        self.algorithms = algorithms()

    def our_processes(self) -> set[int]:
        """Processes of this test, zombies too (a zombie has no environment, but a parent)."""
        marker = f"DCGYM_RUN_DIR={self.run_dir}".encode()
        ours = {pid for pid in all_pids() if marker in read_proc(pid, "environ").split(b"\0")}
        return ours | (set(child_pids(os.getpid())) - self.children)

    def namespaces(self) -> set[str]:
        """Network namespaces that our processes live in or hold, without the machine's."""
        found = set().union(*(held_namespaces(pid) for pid in self.our_processes()))
        return found - {os.readlink("/proc/self/ns/net")}

    def new_bpf(self, ours: set[int]) -> set[tuple[str, int]]:
        """BPF objects that are new and that no process of others holds.

        Those that others make or release between two looks are in one of them only.
        """
        new = machine_bpf() - self.bpf
        others = [pid for pid in all_pids() if pid not in ours | {os.getpid()}] if new else []
        new -= set().union(*(held_bpf(pid) for pid in others))
        return new & machine_bpf() if new else new

    def leftovers(self) -> dict[str, Any]:
        """What the test has put on the machine; empty when all is as it was."""
        ours = self.our_processes()
        run_ids = [re.escape(path.stem.strip(".")) for path in self.run_dir.iterdir()]
        found = {
            "interfaces": {name for _, name in socket.if_nameindex()} - self.interfaces,
            "processes": ours,
            "namespaces": self.namespaces(),
            "bpf": self.new_bpf(ours),
            "runs": set(run_ids),
        }
        return {what: left for what, left in found.items() if left}


class Owner:
    """A process that owns one emulator, in which traffic flows."""

    def __init__(self) -> None:
        self.process = self._start()
        try:
            self.outer = int(self.next_episode()["outer"])
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _start() -> subprocess.Popen[str]:
        home = str(Path(dcgym.__file__).parent.parent)
        return subprocess.Popen(
            [sys.executable, "-c", OWNER],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": home},
        )

    def next_episode(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the owner ended"
        return dict(json.loads(line))

    def restart(self) -> None:
        self.close()
        self.process = self._start()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@dataclass
class Victim:
    """Everything that one emulator holds, noted while it lives."""

    processes: dict[int, bytes]
    namespaces: set[str]
    bpf: set[tuple[str, int]]
    shared_memory: set[str]
    algorithm: str
    run_id: str


def start_time(pid: int) -> bytes:
    """Start time of a process that is neither gone nor a zombie; empty otherwise."""
    fields = read_proc(pid, "stat").rpartition(b")")[2].split()
    return fields[19] if fields and fields[0] != b"Z" else b""


def describe(outer: int) -> Victim:
    tree, frontier = [outer], [outer]
    while frontier:
        frontier = [child for pid in frontier for child in child_pids(pid)]
        tree += frontier
    (run,) = (run for run in list_runs() if run.pid == outer)
    namespaces = set().union(*(held_namespaces(pid) for pid in tree))
    return Victim(
        processes={pid: start_time(pid) for pid in tree},
        namespaces=namespaces - {os.readlink("/proc/self/ns/net")},
        bpf=set().union(*(held_bpf(pid) for pid in tree)),
        shared_memory=set().union(*(held_shared_memory(pid) for pid in tree)),
        algorithm=f"dctcp_{run.id}",
        run_id=run.id,
    )
