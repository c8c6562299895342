"""Runs and trainings of a suite on the machines of a Ray cluster.

Each is a task of Ray: on one core, or where the backend runs in real time with one of the
emulations that a machine was started for. The task starts the same worker process as a local suite
does, in a temporary folder, and returns the folder's files. They are written here, the file that
says "complete" last. Ray repeats the tasks of a machine that dies on another one.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dcgym._version import __version__
from dcgym.errors import BackendError, ConfigError, DcgymError
from dcgym.places import temporary_place
from dcgym.policies.clusters import EMULATION, attach
from dcgym.policies.trained import folder_of
from dcgym.reading import ARCHIVE, read_bytes
from dcgym.suites.checks import capabilities_of
from dcgym.suites.faults import LOG_FILE, NO_LIMITS, Limits, WorkFailed
from dcgym.suites.results import TRAINING_FILE, write_json
from dcgym.suites.rollout import Progress
from dcgym.suites.spec import RunSpec, TrainingSpec
from dcgym.suites.suite import Suite
from dcgym.suites.work import Work
from dcgym.suites.workers import STOP_GRACE_S, Workers
from dcgym.writing import make_folder, write_file

__all__ = ["EMULATION", "ClusterWorkers", "Delivery", "deliver", "files_of", "work_here"]

# Of one run, each time that its machine dies.
REPEATS = 5
LOOK_S = 5.0
# Machines that restart are back by then.
LOST_S = 120.0
TRAINING_CPUS = 2
# What a training goes on from is large, and suites train in one go.
LEFT_OUT = "state"
LAST_FILES = ("summary.json", TRAINING_FILE)

Files = dict[str, bytes]


@dataclass(frozen=True)
class Delivery:
    """What a machine of the cluster returns.

    Attributes:
        node: Name of the machine.
        files: Content of the folder's files by their relative path.
        failure: What went wrong, in one line; None where nothing did.
        kind: Kind of a failure of the work; None where it never began.
    """

    node: str
    files: Files
    failure: str | None
    kind: str | None = None


def work_here(spec: Work, checkpoint: Files, version: str, limits: Limits = NO_LIMITS) -> Delivery:
    """Do a piece of work on this machine, and return its files.

    Args:
        spec: A run or a training.
        checkpoint: Files of the policy that acts; empty where it was not trained.
        version: Version of dcgym that asks for it.
        limits: What it may take.
    """
    node = socket.gethostname()
    if version != __version__:
        return Delivery(node, {}, f"it has dcgym {__version__}, and not {version}")
    with temporary_place("work") as place:
        folder = place / Path(spec.folder or "").name
        if isinstance(spec, RunSpec) and checkpoint:
            deliver(checkpoint, place / "policy")
            spec = replace(spec, checkpoint=str(place / "policy"))
        log, failure, kind = folder / LOG_FILE, None, None
        try:
            Workers().run(replace(spec, folder=str(folder)), log, lambda *_: None, limits)
        except WorkFailed as error:
            failure, kind = error.fact, error.kind
        except (DcgymError, OSError) as error:
            failure = str(error)
        return Delivery(node, files_of(folder), failure, kind)


def files_of(folder: Path) -> Files:
    """Return the content of a folder's files, without the state of a training.

    Args:
        folder: The folder.
    """
    paths = {path: path.relative_to(folder) for path in sorted(folder.rglob("*"))}
    return {
        str(name): read_bytes(path, "results", ARCHIVE)
        for path, name in paths.items()
        if path.is_file() and LEFT_OUT not in name.parts[:-1]
    }


def deliver(files: Mapping[str, bytes], folder: Path) -> None:
    """Write files into a folder; what says that it is complete comes last.

    Args:
        files: Content by relative path.
        folder: The folder; made if it is missing.
    """
    for name in sorted(files, key=lambda name: name in LAST_FILES):
        path = folder / name
        make_folder(path.parent)
        write_file(path, "out", files[name])


class ClusterWorkers:
    """Does each piece of work on a machine of a Ray cluster, and ends them all on `stop`."""

    is_remote = True

    def __init__(self, address: str) -> None:
        """Attach to a cluster.

        Args:
            address: Its head, as host:port. The machine that calls is one of the cluster.

        Raises:
            ConfigError: Nobody answers there in time, or this machine is not one of it.
            MissingDependency: Ray is not installed.
        """
        self._address = address
        self._ray, self._is_ours = attach(address, "cluster")
        self._lock = threading.Lock()
        self._pending: set[object] = set()
        self._checkpoints: dict[str, object] = {}
        self._stopped = False

    def room(self, work: Sequence[Work], suite: Suite) -> int:
        """Return how many of some pieces of work the cluster can do at the same time.

        Args:
            work: Runs or trainings.
            suite: What they belong to.

        Raises:
            ConfigError: No machine can do one of them.
        """
        total = 0
        for name, count in {_needs(spec) for spec in work}:
            rooms = [int(have.get(name, 0) // count) for have in self._machines()]
            if not any(rooms):
                option = "--num-cpus=2" if name == "CPU" else f"--resources='{{\"{name}\": 2}}'"
                allowed = f"a cluster with a machine for it: ray start {option}"
                raise ConfigError("address", self._address, allowed)
            if suite.is_alone and max(rooms) > 1:
                allowed = f"machines with one {name} each: these runs need one for themselves"
                raise ConfigError("address", self._address, allowed)
            total += sum(rooms)
        return total

    def run(self, spec: Work, log: Path, progress: Progress, limits: Limits = NO_LIMITS) -> None:
        """Do the work somewhere, and write its files here.

        Args:
            spec: A run or a training.
            log: File of the worker's standard error, in the folder of the results.
            progress: Told where the work is, and nothing of how far it came.
            limits: What it may take where it is done.

        Raises:
            WorkFailed: It failed, or was ended at one of the limits.
            BackendError: It was stopped, or no machine is left that could do it.
        """
        progress(0.0, "on the cluster")
        name, count = _needs(spec)
        cpus, others = (count, {}) if name == "CPU" else (0, {name: count})
        task = self._ray.remote(work_here)
        with self._lock:
            if self._stopped:
                raise BackendError("the benchmark was stopped")
            reference = task.options(num_cpus=cpus, resources=others, max_retries=REPEATS).remote(
                spec, self._policy(spec), __version__, limits
            )
            self._pending.add(reference)
        try:
            delivery = self._wait(reference, name, log.parent.name)
        finally:
            with self._lock:
                self._pending.discard(reference)
        if delivery is None:
            raise BackendError("the benchmark was stopped")
        _take(delivery, spec, log)

    def stop(self) -> None:
        """End every task; nothing can be started afterwards."""
        with self._lock:
            self._stopped = True
            pending = list(self._pending)
        if not self._ray.is_initialized():
            return
        for reference in pending:
            self._ray.cancel(reference)
        if pending:
            self._ray.wait(pending, num_returns=len(pending), timeout=STOP_GRACE_S)
        if self._is_ours:
            self._ray.shutdown()

    def _wait(self, reference: object, resource: str, title: str) -> Delivery | None:
        """Return what a task delivers; None where it was stopped."""
        ray, lost_s = self._ray, None
        while True:
            try:
                if ray.wait([reference], timeout=LOOK_S)[0]:
                    delivery: Delivery = ray.get(reference)
                    return delivery
                has_room = any(have.get(resource, 0) for have in self._machines())
            except Exception as error:
                # Whatever Ray raises for a task that ended, and where it was shut down meanwhile.
                if self._stopped:
                    return None
                raise BackendError(f"{title}: {_one_line(error)}") from error
            now_s = time.monotonic()
            lost_s = None if has_room else now_s if lost_s is None else lost_s
            if lost_s is not None and now_s - lost_s > LOST_S:
                raise BackendError(
                    f"{title}: no machine of the cluster is left that offers {resource}"
                )

    def _machines(self) -> list[dict[str, float]]:
        """Return the resources of each machine that is alive."""
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _policy(self, spec: Work) -> object:
        """Return the files of the policy that a run needs; they are put on the cluster once."""
        if not isinstance(spec, RunSpec) or spec.checkpoint is None:
            return {}
        if spec.checkpoint not in self._checkpoints:
            files = files_of(folder_of(spec.checkpoint))
            self._checkpoints[spec.checkpoint] = self._ray.put(files)
        return self._checkpoints[spec.checkpoint]


def _needs(spec: Work) -> tuple[str, int]:
    """Return the resource that a piece of work takes, and how much of it."""
    if capabilities_of(spec.env).real_time:
        return EMULATION, 1
    return "CPU", TRAINING_CPUS if isinstance(spec, TrainingSpec) else 1


def _take(delivery: Delivery, spec: Work, log: Path) -> None:
    """Write what a machine has delivered, and say where it failed."""
    folder = log.parent
    files = dict(delivery.files)
    summary = files.pop(TRAINING_FILE, None)
    deliver(files, folder)
    if delivery.kind is not None:
        raise WorkFailed(f"{delivery.failure} (on {delivery.node})", delivery.kind)
    if delivery.failure is not None:
        raise BackendError(f"{folder.name} on {delivery.node}: {delivery.failure}")
    if summary is not None:
        # It was trained in a folder of that machine.
        write_json(folder / TRAINING_FILE, {**json.loads(summary), "checkpoint": spec.folder})


def _one_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
