"""What the environment's process does while an interval of a pool passes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

from dcgym.backends.emulation.pool.events import PoolEvents
from dcgym.backends.emulation.pool.pod import RunningPod
from dcgym.backends.emulation.pool.servers import PoolServers, ServerPolls
from dcgym.backends.emulation.pool.totals import PoolTotals
from dcgym.native import require
from dcgym.traffic.http import RequestResults

__all__ = ["PoolDuties"]

SAMPLE_INTERVAL_NS = 25_000_000

_Duty: TypeAlias = Callable[[RunningPod, int], None]


class PoolDuties:
    """Samples of the servers, polls and events, each at its time.

    Args:
        servers: Takes the samples.
        polls: The balancers' polls of the servers.
        events: What happens to the pool.
        totals: Takes the counts at the end of the warm-up.
    """

    def __init__(
        self,
        servers: PoolServers,
        polls: ServerPolls,
        events: PoolEvents,
        totals: PoolTotals,
    ) -> None:
        self._servers, self._polls, self._events = servers, polls, events
        self._totals = totals

    def begin(self, start_ns: int, results: RequestResults) -> None:
        """Count from a CLOCK_MONOTONIC time on.

        Args:
            start_ns: The time.
            results: The generator's memory of the episode.
        """
        self._start_ns, self._results = start_ns, results
        self._next_sample_ns = SAMPLE_INTERVAL_NS

    def run_until(self, pod: RunningPod, deadline_ns: int) -> int:
        """Wait, and do in between what is due.

        Args:
            pod: The running pod.
            deadline_ns: CLOCK_MONOTONIC.

        Returns:
            By how much the deadline was missed, in ns.
        """
        native = require()
        while True:
            due_ns, act = self._next_due()
            if self._start_ns + due_ns >= deadline_ns:
                return int(native.wait_until(deadline_ns))
            native.wait_until(self._start_ns + due_ns)
            act(pod, due_ns)

    def _next_due(self) -> tuple[int, _Duty]:
        """Return what happens next, and when, since the beginning."""
        due: list[tuple[int, _Duty]] = [(self._next_sample_ns, self._sample)]
        if self._polls.due_ns is not None:
            due.append((self._polls.due_ns, self._poll))
        if self._events.due_ns is not None:
            due.append((self._events.due_ns, self._happen))
        return min(due, key=lambda item: item[0])

    def _sample(self, pod: RunningPod, due_ns: int) -> None:
        self._servers.sample(pod.rows.read(), due_ns)
        self._totals.sample(pod, self._results.header(), due_ns)
        # Samples that a late agent has missed are not made up for.
        missed = (time.monotonic_ns() - self._start_ns - due_ns) // SAMPLE_INTERVAL_NS
        self._next_sample_ns = due_ns + (1 + max(missed, 0)) * SAMPLE_INTERVAL_NS

    def _poll(self, pod: RunningPod, due_ns: int) -> None:
        self._polls.ask(pod.rows.read(), due_ns)

    def _happen(self, pod: RunningPod, _: int) -> None:
        self._events.happen(pod, self._start_ns)
