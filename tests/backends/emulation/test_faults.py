"""What is left on the machine after things were killed: nothing."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dcgym
from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.emulation.session.runs import Run, clean_dead_runs, list_runs, record_run
from dcgym.errors import BackendError
from dcgym.traffic import Plan, make_plan
from tests.support.networks import begin

pytestmark = pytest.mark.emulation

KILLS = 50
SURVIVORS = 3
RELEASE_DEADLINE_S = 10.0
NOTICE_DEADLINE_S = 0.5
SILENCE_DEADLINE_S = 4.0
IDLE = Plan("idle", 0, ())
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
OUR_BPF_NAMES = re.compile(r"fabric_|dctcp|ports$|routes$|groups$|counters$|drops$|fabric\.|flow_")

# An environment of its own: it runs an episode until its emulator dies, says so, and goes on.
OWNER = """
import json, time
from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.emulation.network.options import NetworkOptions
from dcgym.errors import BackendError
from dcgym.native import require
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.topologies import make_topology
from dcgym.traffic import make_plan

require().die_with_parent()
backend = EmulationNetwork(make_topology("dumbbell"), NetworkOptions(preflight=False))
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


def wait_for(is_done: Callable[[], Any], what: str, deadline_s: float = RELEASE_DEADLINE_S) -> Any:
    """Poll until the answer is true; fail with the last answer otherwise."""
    deadline = time.monotonic() + deadline_s
    while not (answer := is_done()):
        assert time.monotonic() < deadline, f"not within {deadline_s} s: {what}"
        time.sleep(0.005)
    return answer


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
    their environment, and a BPF object counts as left over when nobody else holds it.
    """

    run_dir: Path
    interfaces: set[str] = field(default_factory=set)
    bpf: set[tuple[str, int]] = field(default_factory=set)
    shared_memory: set[str] = field(default_factory=set)
    algorithms: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.interfaces = {name for _, name in socket.if_nameindex()}
        self.bpf = machine_bpf()
        self.shared_memory = set(os.listdir("/dev/shm"))
        self.algorithms = algorithms()

    def our_processes(self) -> set[int]:
        """Processes of this test, zombies too (a zombie has no environment, but a parent)."""
        marker = f"DCGYM_RUN_DIR={self.run_dir}".encode()
        ours = {pid for pid in all_pids() if marker in read_proc(pid, "environ").split(b"\0")}
        return ours | set(child_pids(os.getpid()))

    def namespaces(self) -> set[str]:
        """Network namespaces that our processes live in or hold, without the machine's."""
        found = set().union(*(held_namespaces(pid) for pid in self.our_processes()))
        return found - {os.readlink("/proc/self/ns/net")}

    def leftovers(self) -> dict[str, Any]:
        """What the test has put on the machine; empty when all is as it was."""
        ours = self.our_processes()
        foreign = [held_bpf(pid) for pid in all_pids() if pid not in ours | {os.getpid()}]
        run_ids = [re.escape(path.stem.strip(".")) for path in self.run_dir.iterdir()]
        found = {
            "interfaces": {name for _, name in socket.if_nameindex()} - self.interfaces,
            "processes": ours,
            "namespaces": self.namespaces(),
            "bpf": machine_bpf() - self.bpf - set().union(*foreign),
            "shared memory": set(os.listdir("/dev/shm")) - self.shared_memory,
            "runs": set(run_ids),
        }
        return {what: left for what, left in found.items() if left}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine as it is now; runs are recorded in a folder that does not exist yet."""
    if shutil.which("bpftool") is None:
        pytest.skip("needs bpftool: apt-get install bpftool")
    run_dir = tmp_path / "not" / "there" / "yet"
    monkeypatch.setenv("DCGYM_RUN_DIR", str(run_dir))
    return Machine(run_dir)


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


@pytest.fixture
def owner(machine: Machine) -> Iterator[Owner]:
    made = Owner()
    yield made
    made.close()


@dataclass
class Victim:
    """Everything that one emulator holds, noted while it lives."""

    processes: dict[int, bytes]
    namespaces: set[str]
    bpf: set[tuple[str, int]]
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
        algorithm=f"dctcp_{run.id}",
        run_id=run.id,
    )


def await_release(victim: Victim, machine: Machine) -> None:
    wait_for(
        lambda: all(start_time(pid) != began for pid, began in victim.processes.items()),
        "end of the emulator's processes",
    )
    wait_for(lambda: victim.algorithm not in algorithms(), f"unregistered {victim.algorithm}")
    wait_for(lambda: not victim.namespaces & machine.namespaces(), "release of the namespaces")
    wait_for(lambda: not victim.bpf & machine_bpf(), f"release of BPF objects {victim.bpf}")


def received_bytes(backends: list[EmulationNetwork]) -> np.ndarray:
    return np.array([int(b.snapshot().hosts["rx_bytes"].sum()) for b in backends])


def have_risen(backends: list[EmulationNetwork], before: np.ndarray) -> bool:
    return bool((received_bytes(backends) > before).all())


def generator_pid(backend: EmulationNetwork) -> int:
    children = child_pids(inner_pid(backend.lab.process._process.pid))
    (pid,) = (child for child in children if b"generator" in read_proc(child, "comm"))
    return pid


def snapshot_for(backend: EmulationNetwork, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        backend.snapshot()
        time.sleep(0.005)


def test_four_emulators_and_fifty_kills_leave_nothing(
    make: Any, machine: Machine, owner: Owner
) -> None:
    survivors = [make("dumbbell") for _ in range(SURVIVORS)]
    plan = make_plan("pairs", survivors[0].topology, 0)
    for backend in survivors:
        begin(backend, plan)
    wait_for(lambda: received_bytes(survivors).all(), "traffic in every emulator")
    survivor_pids = [backend.lab.process._process.pid for backend in survivors]
    for _, target in zip(range(KILLS), itertools.cycle(("outer", "inner", "owner")), strict=False):
        victim = describe(owner.outer)
        # The figures of one dumbbell: the emulator, its inner process, the generator; no shells.
        assert len(victim.processes) == 3 and len(victim.namespaces) == 5
        assert victim.algorithm in algorithms() and len(victim.bpf) >= 10
        assert {run.pid for run in list_runs() if run.alive} == {owner.outer, *survivor_pids}
        before = received_bytes(survivors)
        pid = {"outer": owner.outer, "inner": inner_pid(owner.outer), "owner": owner.process.pid}
        os.kill(pid[target], signal.SIGKILL)
        if target == "owner":
            owner.restart()
        await_release(victim, machine)
        wait_for(partial(have_risen, survivors, before), "rising counters")
        episode = owner.next_episode()
        assert ("" if target == "owner" else "died") in episode["error"]
        owner.outer = int(episode["outer"])
        dead = {run.id for run in clean_dead_runs()}
        assert dead == ({victim.run_id} if target == "owner" else set())
    assert [backend.lab.process._process.pid for backend in survivors] == survivor_pids
    for backend in survivors:
        backend.close()
    last = describe(owner.outer)
    owner.close()
    await_release(last, machine)
    assert [run.id for run in clean_dead_runs()] == [last.run_id]
    wait_for(lambda: not machine.leftovers(), "nothing left")
    assert not {name for name in algorithms() - machine.algorithms if last.run_id in name}


def test_a_dead_traffic_generator_is_noticed_and_the_next_reset_rebuilds(
    make: Any, machine: Machine
) -> None:
    backend = make("dumbbell")
    begin(backend, make_plan("pairs", backend.topology, 0))
    first_outer = backend.lab.process._process.pid
    os.kill(generator_pid(backend), signal.SIGKILL)
    killed_at = time.monotonic()
    with pytest.raises(BackendError, match="generator died"):
        snapshot_for(backend, NOTICE_DEADLINE_S)
    assert time.monotonic() - killed_at < NOTICE_DEADLINE_S
    assert not begin(backend, IDLE).ports["tx_bytes"].any()
    assert backend.lab.process._process.pid != first_outer
    backend.close()
    wait_for(lambda: not machine.leftovers(), "nothing left")


def test_a_generator_that_died_between_episodes_does_not_spoil_the_next_reset(make: Any) -> None:
    backend = make("dumbbell")
    begin(backend, IDLE)
    pid = generator_pid(backend)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not start_time(pid), "death of the generator")
    assert not begin(backend, IDLE).ports["tx_bytes"].any()


def test_a_frozen_traffic_generator_is_stale_telemetry(make: Any) -> None:
    backend = make("dumbbell")
    begin(backend, IDLE)
    os.kill(generator_pid(backend), signal.SIGSTOP)
    with pytest.raises(BackendError, match="silent for 2"):
        snapshot_for(backend, SILENCE_DEADLINE_S)
    assert not begin(backend, IDLE).ports["tx_bytes"].any()


def test_a_start_needs_no_run_folder(make: Any, machine: Machine) -> None:
    assert not machine.run_dir.exists()
    backend = make("dumbbell")
    (run,) = list_runs()
    assert (
        run.alive and run.pid == backend.lab.process._process.pid and run.owner_pid == os.getpid()
    )
    backend.close()
    assert list_runs() == []


def test_only_dead_runs_are_cleaned(machine: Machine) -> None:
    process = subprocess.Popen(["sleep", "60"])
    record_run("aaaaaa", process.pid)
    record_run("bbbbbb", os.getpid())
    assert [run.alive for run in list_runs()] == [True, True]
    assert clean_dead_runs() == []
    process.kill()
    # Not waited for yet: a zombie is dead too.
    wait_for(lambda: not list_runs()[0].alive, "a dead run")
    assert [run.id for run in clean_dead_runs()] == ["aaaaaa"]
    process.wait()
    assert [run.id for run in list_runs()] == ["bbbbbb"]


def test_a_later_process_of_the_same_number_is_not_the_run(machine: Machine) -> None:
    record_run("cccccc", os.getpid())
    (run,) = list_runs()
    assert not Run(run.id, run.pid, run.start_time_ticks - 1, run.pid, 0).alive


def test_a_broken_run_file_is_passed_over(machine: Machine) -> None:
    record_run("dddddd", os.getpid())
    (machine.run_dir / "eeeeee.json").write_text('{"id": "eeeeee"')
    assert [run.id for run in list_runs()] == ["dddddd"]
