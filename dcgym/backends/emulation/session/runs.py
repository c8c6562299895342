"""Which emulators run on this machine: one small file a run, for ``dcgym clean`` and ``dcgym top``.

An emulator lives and dies with its processes, so the file is all that a killed environment can
leave behind. A run is dead when the process that its file names is, by number and start time.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from dcgym.topologies import Topology

__all__ = [
    "RecordedHost",
    "RecordedNetwork",
    "RecordedPort",
    "Run",
    "clean_dead_runs",
    "forget_run",
    "list_runs",
    "read_network",
    "record_network",
    "record_run",
]


@dataclass(frozen=True)
class Run:
    """A recorded emulator run."""

    id: str
    pid: int
    start_time_ticks: int
    owner_pid: int
    owner_start_time_ticks: int

    @property
    def alive(self) -> bool:
        """Whether the recorded processes, not later ones of the same number, still run."""
        return _start_time_ticks(self.pid) == self.start_time_ticks


@dataclass(frozen=True)
class RecordedPort:
    """A switch port, as far as its telemetry needs to be explained."""

    name: str
    rate_bps: int
    queue_bytes: int


@dataclass(frozen=True)
class RecordedHost:
    """A host, as far as its telemetry needs to be explained."""

    name: str
    rate_bps: int


@dataclass(frozen=True)
class RecordedNetwork:
    """What a run's telemetry is about, and where it is.

    Attributes:
        name: Name of the topology.
        fd: Descriptor of the telemetry region in the owner's process.
        ports: Its port blocks, in order.
        hosts: Its host blocks, in order.
    """

    name: str
    fd: int
    ports: tuple[RecordedPort, ...]
    hosts: tuple[RecordedHost, ...]


def registry_dir() -> Path:
    """Folder of the run files; DCGYM_RUN_DIR replaces the default."""
    return Path(os.environ.get("DCGYM_RUN_DIR", "/run/dcgym"))


def record_run(run_id: str, pid: int) -> None:
    """Write the file of a run, in one step.

    Args:
        run_id: The run.
        pid: Its first process; the calling process is its owner.
    """
    folder = registry_dir()
    folder.mkdir(parents=True, exist_ok=True)
    owner = os.getpid()
    run = Run(run_id, pid, _start_time_ticks(pid), owner, _start_time_ticks(owner))
    partial = folder / f".{run_id}.tmp"
    partial.write_text(json.dumps(asdict(run)))
    partial.replace(folder / f"{run_id}.json")


def record_network(run_id: str, topology: Topology, telemetry_fd: int) -> None:
    """Write what `dcgym top` needs to read a run: what its telemetry is about, and where it is.

    Args:
        run_id: The run.
        topology: Its network.
        telemetry_fd: Descriptor of the telemetry region in this process.
    """
    ports = [RecordedPort(p.name, p.rate_bps, p.queue_bytes) for p in topology.switch_ports]
    hosts = [
        RecordedHost(host.name, topology.ports(host.name)[0].rate_bps) for host in topology.hosts
    ]
    network = RecordedNetwork(topology.name, telemetry_fd, tuple(ports), tuple(hosts))
    partial = registry_dir() / f".{run_id}.network.tmp"
    partial.write_text(json.dumps(asdict(network)))
    partial.replace(registry_dir() / f"{run_id}.network")


def read_network(run_id: str) -> RecordedNetwork | None:
    """Return what `record_network` wrote, or None where the network is not built yet.

    Args:
        run_id: The run.
    """
    try:
        found = json.loads((registry_dir() / f"{run_id}.network").read_text())
    except (OSError, ValueError):
        return None
    ports = tuple(RecordedPort(**port) for port in found["ports"])
    hosts = tuple(RecordedHost(**host) for host in found["hosts"])
    return RecordedNetwork(found["name"], int(found["fd"]), ports, hosts)


def forget_run(run_id: str) -> None:
    """Remove the files of a run that has ended.

    Args:
        run_id: The run.
    """
    for suffix in ("json", "network"):
        (registry_dir() / f"{run_id}.{suffix}").unlink(missing_ok=True)


def list_runs() -> list[Run]:
    """Return the recorded runs, dead ones included."""
    runs = []
    for path in sorted(registry_dir().glob("*.json")):
        with contextlib.suppress(OSError, ValueError, TypeError):
            runs.append(Run(**json.loads(path.read_text())))
    return runs


def clean_dead_runs() -> list[Run]:
    """Forget every run whose processes are gone; returns them. Living runs are not touched."""
    dead = [run for run in list_runs() if not run.alive]
    for run in dead:
        forget_run(run.id)
    return dead


def _start_time_ticks(pid: int) -> int:
    """Start time of a process in clock ticks since boot (proc(5)), -1 if it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return -1
    return -1 if fields[0] == "Z" else int(fields[19])
