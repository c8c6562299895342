"""What pools of servers and pools of devices share: one pod, its traffic, its time."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.backends.emulation.audit.fidelity import FidelityAudit
from dcgym.backends.emulation.audit.links import unwatched_links
from dcgym.backends.emulation.audit.machine_load import MachineLoad
from dcgym.backends.emulation.pool.pod import RunningPod
from dcgym.backends.emulation.pool.requests import FollowedRequests
from dcgym.backends.emulation.session.session import EmulatorSession
from dcgym.backends.records import Fidelity, RecordKind, RecordMakers, find_records
from dcgym.config import check_int
from dcgym.errors import BackendError, ConfigError, needs_reset
from dcgym.traffic.http import RequestResults

__all__ = ["EmulatedPod"]

# The generator gets ready for the first requests meanwhile.
START_DELAY_NS = 10_000_000

T = TypeVar("T")
PodT = TypeVar("PodT", bound=RunningPod)
RequestsT = TypeVar("RequestsT", bound=FollowedRequests)
TimeArray = npt.NDArray[np.int64]


class EmulatedPod(ABC, Generic[PodT, RequestsT]):
    """A pool in real time, whose pod is built by the first `reset`.

    Args:
        n_envs: 1.
        horizon_ns: How much traffic an episode has; `advance` beyond it is refused.
        requests: What becomes of the requests.

    Raises:
        ConfigError: An argument is not allowed.
    """

    name = "emulation"
    # For an object whose arguments were refused: it ends, too.
    _pod: PodT | None = None
    _results: RequestResults | None = None

    def __init__(self, n_envs: int, horizon_ns: int, requests: RequestsT) -> None:
        if check_int("n_envs", n_envs, 1) != 1:
            raise ConfigError("n_envs", n_envs, "1 with the emulation")
        self.n_envs = 1
        self.horizon_ns = check_int("horizon_ns", horizon_ns, 1)
        self._requests = requests
        self._start_ns = 0
        self._audit: FidelityAudit | None = None

    @abstractmethod
    def _made(self) -> PodT:
        """Return a new pod."""

    @abstractmethod
    def _run_until(self, running: PodT, deadline_ns: int) -> int:
        """Wait until a CLOCK_MONOTONIC time, and do what is due; return by how much it was missed.

        Args:
            running: The pod.
            deadline_ns: The time.
        """

    def _build(self) -> PodT:
        """Return the running pod, built anew where it is dead or not there."""
        if self._pod is not None and self._pod.session.death():
            self.close()
        if self._pod is None:
            self._pod = self._made()
        return self._pod

    def _load(self, running: PodT, drawn: npt.NDArray[np.void], seed: int) -> None:
        """Have the requests of a new episode ready, whose time 0 is its first `advance`."""
        self._drop_results()
        self._results = running.load(drawn, seed)
        self._drawn, self._start_ns = drawn, 0
        self._requests.begin(drawn, self._results, 0)

    def advance(self, until_ns: npt.ArrayLike) -> TimeArray:
        """Wait until a time of the pool's clock; the first call starts the traffic, at time 0.

        Args:
            until_ns: The time, or shape (1,).

        Returns:
            By how much it was missed, shape (1,).

        Raises:
            BackendError: The emulator died, or the episode's traffic is over.
        """
        target_ns = int(np.asarray(until_ns).reshape(-1)[0])
        running = self._alive()
        if target_ns > self.horizon_ns:
            seconds = self.horizon_ns / 1e9
            raise BackendError(f"the episode's traffic of {seconds:g} s is over", "call reset()")
        if not self._start_ns:
            self._start(running)
        overrun_ns = self._run_until(running, self._start_ns + target_ns)
        assert self._audit is not None
        self._audit.interval(overrun_ns)
        return np.array([overrun_ns], np.int64)

    def _start(self, running: PodT) -> None:
        assert self._results is not None
        start_ns = time.monotonic_ns() + START_DELAY_NS
        running.start(start_ns)
        self._start_ns = start_ns
        self._requests.begin(self._drawn, self._results, start_ns)
        load = MachineLoad.read(time.monotonic_ns(), running.session.generator_pid)
        self._audit = FidelityAudit(load, unwatched_links())

    def _now_ns(self) -> TimeArray:
        return np.array([self._elapsed_ns(time.monotonic_ns())], np.int64)

    def _elapsed_ns(self, now_ns: int) -> int:
        return max(now_ns - self._start_ns, 0) if self._start_ns else 0

    def records(self, kind: RecordKind[T], env: int = 0) -> T:
        """Return what is recorded.

        Args:
            kind: Of which kind; the class says what is special about them here.
            env: 0.

        Raises:
            BackendError: No episode has run yet (`FIDELITY`), or the emulator is not running
                (`SUMMARY`).
        """
        check_int("env", env, 0, 0)
        return find_records(kind, self._RECORDS)(self)

    def _finished(self) -> npt.NDArray[np.void]:
        return self._requests.take()

    def _under_way(self) -> npt.NDArray[np.void]:
        return self._requests.under_way(self._elapsed_ns(time.monotonic_ns()))

    def _fidelity(self) -> Fidelity:
        if self._audit is None or self._results is None:
            raise needs_reset("no episode has run yet")
        header = self._results.header()
        self._audit.starts(int(header["started"]), int(header["late_starts"]))
        load = MachineLoad.read(time.monotonic_ns(), self.running.session.generator_pid)
        return self._audit.verdict(load, self._requests.begun())

    _RECORDS: ClassVar[RecordMakers]

    @property
    def session(self) -> EmulatorSession:
        """The emulator.

        Raises:
            BackendError: It is not running.
        """
        return self.running.session

    @property
    def running(self) -> PodT:
        """The pod, for what the contract does not have: counters, memory of the balancers.

        Raises:
            BackendError: The emulator is not running.
        """
        if self._pod is None or self._pod.session.is_closed:
            raise needs_reset("the emulator is not running")
        return self._pod

    def _alive(self) -> PodT:
        """Return the pod, whose emulator and generator have given signs of life."""
        running = self.running
        running.session.check_alive()
        silent_ns = running.session.check_generator()
        if self._audit is not None:
            self._audit.generator_silence(silent_ns)
        return running

    def _drop_results(self) -> None:
        results, self._results = self._results, None
        if results is not None:
            self._requests.end()
            results.close()

    def close(self) -> None:
        """End the emulator; a second call does nothing, and `reset` builds it anew."""
        self._drop_results()
        running, self._pod = self._pod, None
        if running is not None:
            running.session.close()

    def __del__(self) -> None:
        self.close()
