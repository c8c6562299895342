"""The process that is attached to a Ray cluster for a suite.

Ray ends the process that cannot attach, or that loses the head of its cluster, and writes of dead
machines to its standard output. This one it may end: who started it reads that as one line.

Questions and answers pass as pickled tuples: the number of a question with its kind and arguments,
and that number again with a value or an error.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

from dcgym.errors import BackendError, DcgymError
from dcgym.places import temporary_place
from dcgym.policies.clusters import EMULATION, connect
from dcgym.policies.trained import folder_of
from dcgym.suites.cluster_work import (
    DO,
    DOCTOR_S,
    MACHINES,
    Machine,
    Problem,
    Wanted,
    examiner,
    files_of,
    installation,
    work_here,
)
from dcgym.suites.faults import LOST, Limits, WorkFailed
from dcgym.suites.wheels import required_packages, write_wheel
from dcgym.suites.work import Work
from dcgym.suites.worker import end_with_parent

__all__ = ["main"]

# Of one piece of work, each time that its machine dies.
REPEATS = 5
LOOK_S = 5.0
# Machines that restart are back by then.
LOST_S = 120.0
# A worker of Ray's starts on a busy machine, and what it examines takes its own time.
EXAMINE_S = 180.0 + DOCTOR_S
CANCEL_S = 10.0


class RayProcess:
    """Answers the questions of the process that started it.

    Args:
        ray: Ray, attached.
        connection: To who asks.
        ships: Whether the machines were given the dcgym of this one.
    """

    def __init__(self, ray: ModuleType, connection: Connection, ships: bool) -> None:
        self._ray, self._connection = ray, connection
        self._needed = required_packages() if ships else []
        self._lock, self._sending = threading.Lock(), threading.Lock()
        # What is done now: its reference and the resource it takes, by the number of the question.
        self._pending: dict[int, tuple[Any, str]] = {}
        self._problems: dict[tuple[str, bool], Problem | None] = {}
        self._policies: dict[str, object] = {}
        self._lost_s: dict[str, float] = {}
        self._task = ray.remote(work_here)
        # With what it needs, which takes time to be put together.
        self._tasks: dict[tuple[str, int], Any] = {}
        self._wanted: Wanted = (*installation(),)

    def serve(self) -> None:
        """Answer until the other side closes."""
        looked_s = time.monotonic()
        while True:
            if self._connection.poll(LOOK_S):
                try:
                    number, kind, *rest = self._connection.recv()
                except (EOFError, OSError):
                    return
                self._answer(number, kind, rest)
            if time.monotonic() - looked_s > LOOK_S:
                looked_s = time.monotonic()
                self._give_up_lost()

    def _answer(self, number: int, kind: str, rest: list[Any]) -> None:
        try:
            if kind == DO:
                self._do(number, *rest)
            elif kind == MACHINES:
                self._tell(number, list(self._machines(*rest)))
            else:
                self._cancel()
                self._tell(number, None)
        except DcgymError as error:
            self._tell(number, None, error)
        except Exception as error:  # Whatever Ray raises.
            self._tell(number, None, BackendError(_one_line(error)))

    def _do(
        self, number: int, spec: Work, needs: tuple[str, int], policy: str | None, limits: Limits
    ) -> None:
        name, count = needs
        if needs not in self._tasks:
            cpus, others = (count, {}) if name == "CPU" else (0, {name: count})
            told = self._task.options(num_cpus=cpus, resources=others, max_retries=REPEATS)
            self._tasks[needs] = told
        reference = self._tasks[needs].remote(spec, self._files(policy), self._wanted, limits)
        with self._lock:
            self._pending[number] = reference, name
        reference.future().add_done_callback(lambda future: self._end(number, future))

    def _end(self, number: int, future: Any) -> None:
        with self._lock:
            if self._pending.pop(number, None) is None:
                return
        error = future.exception()
        if error is None:
            self._tell(number, future.result())
        elif isinstance(error, self._ray.exceptions.RayTaskError):
            # It was raised where the work had not begun.
            self._tell(number, None, BackendError(_one_line(error)))
        else:
            self._tell(number, None, WorkFailed(_one_line(error), LOST))

    def _tell(self, number: int, value: object, error: DcgymError | None = None) -> None:
        with self._sending:
            self._connection.send((number, value, error))

    def _files(self, policy: str | None) -> object:
        """Return the files of the policy that a run needs; they are put on the cluster once."""
        if policy is None:
            return {}
        if policy not in self._policies:
            self._policies[policy] = self._ray.put(files_of(folder_of(policy)))
        return self._policies[policy]

    def _machines(self, emulates: bool) -> Iterator[Machine]:
        """Yield the machines that answer, each examined once; Ray may not know yet who is gone."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        task = self._ray.remote(examiner(self._needed))
        nodes = {node["NodeID"]: node for node in self._alive()}
        keys = {
            node: (node, emulates and bool(known["Resources"].get(EMULATION)))
            for node, known in nodes.items()
        }
        asked = {
            key: task.options(
                num_cpus=0,
                max_retries=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(key[0], soft=False),
            ).remote(self._wanted, key[1])
            for key in keys.values()
            if key not in self._problems
        }
        self._ray.wait(list(asked.values()), num_returns=max(1, len(asked)), timeout=EXAMINE_S)
        for key, reference in asked.items():
            try:
                self._problems[key] = self._ray.get(reference, timeout=0)
            except self._ray.exceptions.RayTaskError as error:
                self._problems[key] = f"cannot be asked ({_one_line(error)})", False
            except self._ray.exceptions.RuntimeEnvSetupError as error:
                self._problems[key] = f"cannot unpack dcgym ({_one_line(error)})", False
            except self._ray.exceptions.RayError:
                continue
        for node, known in nodes.items():
            if (key := keys[node]) in self._problems:
                name, offered = known["NodeManagerAddress"], known["Resources"]
                yield Machine(name, offered, self._problems[key])

    def _alive(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    def _give_up_lost(self) -> None:
        """End what waits for a resource that no machine has offered for a long time."""
        with self._lock:
            wanted = {name for _, name in self._pending.values()}
        if not wanted:
            return
        machines, now_s = self._alive(), time.monotonic()
        for name in wanted:
            if any(node["Resources"].get(name) for node in machines):
                self._lost_s.pop(name, None)
            elif now_s - self._lost_s.setdefault(name, now_s) > LOST_S:
                reason = f"no machine of the cluster is left that offers {name}"
                for number in self._take(name):
                    self._tell(number, None, BackendError(reason))

    def _cancel(self) -> None:
        references = [reference for reference, _ in self._pending.values()]
        self._take()
        for reference in references:
            self._ray.cancel(reference)
        if references:
            self._ray.wait(references, num_returns=len(references), timeout=CANCEL_S)

    def _take(self, resource: str | None = None) -> list[int]:
        """Forget what is done now, with a resource or at all, and return its numbers."""
        with self._lock:
            numbers = [n for n, (_, name) in self._pending.items() if resource in (None, name)]
            for number in numbers:
                del self._pending[number]
        return numbers


def _one_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _ship(address: str) -> ModuleType:
    """Attach to a cluster, and give its machines the dcgym of this one."""
    with temporary_place("wheel") as place:
        # Ray unpacks a zip itself. Of wheels it takes those with the same name for the same, and
        # its machines need a pip.
        wheel = write_wheel(place)
        return connect(address, wheel.rename(wheel.with_suffix(".zip")))


def main() -> None:
    """Attach, say so, and serve."""
    descriptor, parent = map(int, sys.argv[1:])
    end_with_parent(parent)
    connection = Connection(descriptor)
    address, ships = connection.recv()
    try:
        ray = _ship(address) if ships else connect(address)
    except DcgymError as error:
        connection.send(error)
        return
    connection.send(None)
    RayProcess(ray, connection, ships).serve()
    ray.shutdown()
    connection.close()
    # Ray's threads may outlive it.
    os._exit(0)


if __name__ == "__main__":
    main()
