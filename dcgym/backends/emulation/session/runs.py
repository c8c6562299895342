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

from dcgym.backends.names import name_of_runs
from dcgym.errors import BackendError, ConfigError, suggest
from dcgym.topologies import Topology
from dcgym.writing import remove_partial_files, write_file

__all__ = [
    "RecordedHost",
    "RecordedNetwork",
    "RecordedPort",
    "Run",
    "choose_run",
    "clean_dead_runs",
    "forget_run",
    "list_runs",
    "read_network",
    "record_network",
    "record_run",
]

FIELD = "DCGYM_RUN_DIR"


@dataclass(frozen=True)
class Run:
    """A recorded emulator run.

    Attributes:
        id: Its identifier, which no other run has.
        pid: Its first process.
        start_time_ticks: Start of that process.
        owner_pid: Process of its environment.
        owner_start_time_ticks: Start of that process.
        name: What people call it; several runs may have the same.
    """

    id: str
    pid: int
    start_time_ticks: int
    owner_pid: int
    owner_start_time_ticks: int
    name: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.id})" if self.name else self.id

    @property
    def alive(self) -> bool:
        """Whether the recorded processes, not later ones of the same number, still run."""
        # One that had ended before it was recorded has no start.
        return 0 <= self.start_time_ticks == _start_time_ticks(self.pid)


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
    return Path(os.environ.get(FIELD, "/run/dcgym"))


def choose_run(wanted: str | None = None) -> Run:
    """Return a run that lives.

    Args:
        wanted: Its name or identifier; None for the only one.

    Raises:
        ConfigError: No run has that name or identifier.
        BackendError: None runs, several run and none was named, several have that name, or the one
            that was named is dead.
    """
    runs = list_runs()
    living = [run for run in runs if run.alive]
    fitting = living
    if wanted is not None:
        fitting = [run for run in living if wanted in (run.id, run.name)]
        fitting = [run for run in fitting if run.id == wanted] or fitting
        if not fitting and any(wanted in (run.id, run.name) for run in runs):
            raise BackendError(f"run {wanted} is dead; 'dcgym clean' removes what is left of it")
        if not fitting:
            words = [word for run in living for word in (run.name, run.id) if word]
            allowed = ", ".join(map(str, living)) or "none, as no emulation is running here"
            raise ConfigError("run", wanted, allowed, suggest(wanted, words))
    if not fitting:
        raise BackendError("no emulation is running on this machine")
    if len(fitting) > 1:
        which = "several emulations are running" if wanted is None else f"several runs are {wanted}"
        raise BackendError(f"{which}, name one: {', '.join(map(str, fitting))}")
    return fitting[0]


def record_run(run_id: str, pid: int) -> None:
    """Write the file of a run, in one step, and remove those of dead runs.

    Args:
        run_id: The run.
        pid: Its first process; the calling process is its owner.
    """
    folder = registry_dir()
    folder.mkdir(parents=True, exist_ok=True)
    clean_dead_runs()
    owner = os.getpid()
    times = _start_time_ticks(pid), _start_time_ticks(owner)
    run = Run(run_id, pid, times[0], owner, times[1], name_of_runs())
    write_file(folder / f"{run_id}.json", FIELD, json.dumps(asdict(run)).encode())


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
    path = registry_dir() / f"{run_id}.network"
    write_file(path, FIELD, json.dumps(asdict(network)).encode())


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
    # The record is last: who is killed in between leaves a dead run, and no file that nobody knows.
    for suffix in ("network", "json"):
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
    remove_partial_files(registry_dir())
    return dead


def _start_time_ticks(pid: int) -> int:
    """Start time of a process in clock ticks since boot (proc(5)), -1 if it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return -1
    return -1 if fields[0] == "Z" else int(fields[19])
