"""Runs and trainings of a suite on the machines of a Ray cluster.

Each is a task of Ray: on one core, or where the backend runs in real time with one of the
emulations that a machine was started for. The task starts the same worker process as a local suite
does, in a temporary folder, and returns the folder's files. They are written here, the file that
says "complete" last. Ray repeats the tasks of a machine that dies on another one.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from dcgym.errors import BackendError, ConfigError
from dcgym.policies.clusters import ATTACH_S, CLIENT, EMULATION, check_cluster, refusal
from dcgym.processes import start_beside
from dcgym.suites.checks import capabilities_of
from dcgym.suites.cluster_work import CANCEL, DO, LAST_FILES, MACHINES, Delivery, Machine
from dcgym.suites.faults import NO_LIMITS, Limits, WorkFailed
from dcgym.suites.results import TRAINING_FILE, write_json
from dcgym.suites.rollout import Progress
from dcgym.suites.spec import RunSpec, TrainingSpec
from dcgym.suites.suite import Suite
from dcgym.suites.work import Work
from dcgym.suites.workers import STOP_GRACE_S
from dcgym.writing import write_files

__all__ = ["ClusterWorkers"]

PROGRAM = "dcgym.suites.ray_process"
TRAINING_CPUS = 2
# Ray's head starts a server for each client, by a fork beside running threads that may hang.
OUTSIDE_TRIES = 2
STOPPED = "the benchmark was stopped"
# What Ray's own log begins its lines with: time, process and place.
PREFIX = re.compile(r"^\[[^\]]*\]\s*(\S+:\d+:\s*)?")
MOST_TOLD = 200


class ClusterWorkers:
    """Does each piece of work on a machine of a Ray cluster, and ends them all on `stop`."""

    is_remote = True

    def __init__(self, address: str, ship: bool = False) -> None:
        """Attach to a cluster.

        Args:
            address: "auto"; its head, as host:port, where the machine that calls is one of the
                cluster; or ray://host:port of the server for those from outside.
            ship: Whether the machines are given the dcgym of this one, and use no other.

        Raises:
            ConfigError: Nobody answers there in time, or this machine cannot attach.
            MissingDependency: Ray is not installed.
        """
        check_cluster(address, "cluster")
        self._address = address
        self._attached = _Attached(address, ship)

    def room(self, work: Iterable[Work], suite: Suite) -> int:
        """Return how many of some pieces of work the cluster can do at the same time.

        Args:
            work: Runs or trainings.
            suite: What they belong to.

        Raises:
            ConfigError: No machine can do one of them, or one has another dcgym.
            BackendError: The cluster is lost.
        """
        needs = {_needs(spec) for spec in work}
        emulates = any(name == EMULATION for name, _ in needs)
        machines: list[Machine] = self._attached.ask(MACHINES, emulates).result()
        _refuse_wrong(machines, self._address)
        total = 0
        for name, count in needs:
            rooms = [int(one.resources.get(name, 0) // count) for one in machines]
            if not any(rooms):
                option = "--num-cpus=2" if name == "CPU" else f"--resources='{{\"{name}\": 1}}'"
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
            WorkFailed: It failed, was ended at one of the limits, or each machine that had it died.
            BackendError: It was stopped, or the cluster or all machines that could do it are lost.
        """
        progress(0.0, "on the cluster")
        policy = spec.checkpoint if isinstance(spec, RunSpec) else None
        delivery: Delivery = self._attached.ask(DO, spec, _needs(spec), policy, limits).result()
        _take(delivery, spec, log)

    def stop(self) -> None:
        """End every task; nothing can be started afterwards."""
        self._attached.close()


class _Attached:
    """The process that is attached to the cluster, as those who ask it see it.

    Args:
        address: Address of the cluster.
        ship: Whether its machines are given the dcgym of this one.

    Raises:
        ConfigError: Nobody answers there in time, or this machine cannot attach.
        MissingDependency: Ray is not installed.
    """

    def __init__(self, address: str, ship: bool) -> None:
        self._address, self._ship = address, ship
        # Whoever reads answers must not wait for who writes questions.
        self._lock, self._sending = threading.Lock(), threading.Lock()
        self._numbers = itertools.count()
        self._asked: dict[int, Future[Any]] = {}
        # Why nothing can be asked any more.
        self._over: str | None = None
        tries = OUTSIDE_TRIES if address.startswith(CLIENT) else 1
        for left in reversed(range(tries)):
            self._start()
            try:
                self._begin(ATTACH_S / tries)
                break
            except BaseException as error:
                self._process.kill()
                self._process.wait()
                self._close()
                if not left or not isinstance(error, ConfigError):
                    raise
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, *question: object) -> Future[Any]:
        """Ask something; the answer comes later.

        Args:
            question: Its kind, and what it is about.
        """
        answer: Future[Any] = Future()
        with self._lock:
            if self._over is not None:
                answer.set_exception(BackendError(self._over))
                return answer
            number = next(self._numbers)
            self._asked[number] = answer
        # The reader learns of it too where the other side is gone, and says why.
        with self._sending, contextlib.suppress(OSError):
            self._connection.send((number, *question))
        return answer

    def close(self) -> None:
        """End all that is done, and the process."""
        with self._lock:
            if self._over == STOPPED:
                return
            self._over = STOPPED
            asked, self._asked = list(self._asked.values()), {}
        if asked:
            with self._sending, contextlib.suppress(OSError):
                self._connection.send((next(self._numbers), CANCEL))
        for answer in asked:
            answer.set_exception(BackendError(STOPPED))
        self._end()
        self._reader.join(STOP_GRACE_S)
        self._close()

    def _start(self) -> None:
        self._log = os.fdopen(os.memfd_create("ray"), "w+b")
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = start_beside(PROGRAM, theirs, self._log)
        self._connection = Connection(ours.detach())

    def _begin(self, within_s: float) -> None:
        self._connection.send((self._address, self._ship))
        try:
            if not self._connection.poll(within_s):
                raise refusal(self._address, f"no answer within {within_s:g} s")
            problem = self._connection.recv()
        except (EOFError, OSError):
            raise refusal(self._address, self._last_words()) from None
        if problem is not None:
            raise problem

    def _read(self) -> None:
        """Pass answers on until the other side closes, and then say so to who waits."""
        reason = ""
        try:
            while True:
                number, value, error = self._connection.recv()
                with self._lock:
                    answer = self._asked.pop(number, None)
                if answer is not None and error is None:
                    answer.set_result(value)
                elif answer is not None:
                    answer.set_exception(error)
        except (EOFError, OSError):
            pass
        except Exception as error:  # Of whatever cannot be unpickled.
            reason = f"{type(error).__name__}: {error}"
        with self._lock:
            asked, self._asked = list(self._asked.values()), {}
            if self._over is None:
                self._over = (
                    f"the cluster at {self._address} is lost: {reason or self._last_words()}"
                )
        for one in asked:
            one.set_exception(BackendError(self._over))

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_GRACE_S)
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()
        said = [text for line in lines if (text := PREFIX.sub("", line.strip()))]
        return said[-1][:MOST_TOLD] if said else f"its process ended ({self._process.returncode})"

    def _close(self) -> None:
        self._connection.close()
        self._log.close()

    def _end(self) -> None:
        # Whoever reads at the other side comes to the end, and shuts Ray down.
        with (
            self._sending,
            contextlib.suppress(OSError),
            socket.socket(fileno=os.dup(self._connection.fileno())) as end,
        ):
            end.shutdown(socket.SHUT_WR)
        try:
            self._process.wait(2 * STOP_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _refuse_wrong(machines: Sequence[Machine], address: str) -> None:
    """Refuse a cluster with machines that cannot work for this one."""
    wrong = [(one.name, *one.problem) for one in machines if one.problem]
    if not wrong:
        return
    told = [f"{name} {reason}" for name, reason, _ in wrong]
    if any(mends for *_, mends in wrong):
        told.append("--ship gives machines the dcgym of this one")
    allowed = f"a cluster whose machines have what this one has; {'; '.join(told)}"
    raise ConfigError("address", address, allowed)


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
    write_files(folder, "out", files, LAST_FILES)
    if delivery.kind is not None:
        raise WorkFailed(f"{delivery.failure} (on {delivery.node})", delivery.kind)
    if delivery.failure is not None:
        raise BackendError(f"{folder.name}: {delivery.node} {delivery.failure}")
    if summary is not None:
        # It was trained in a folder of that machine.
        write_json(folder / TRAINING_FILE, {**json.loads(summary), "checkpoint": spec.folder})
