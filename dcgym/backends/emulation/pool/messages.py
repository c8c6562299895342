"""What balancers and servers of a pod tell each other: who hears of idle servers, and counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dcgym.backends.emulation.pool.checks import REPORTED_RULES
from dcgym.backends.emulation.wire.pod_messages import SetListeners

if TYPE_CHECKING:
    import numpy as np

    from dcgym.backends.emulation.pool.pod import RunningPod

__all__ = ["PoolMessages"]

# Of the balancers' counters, those of `BalancingTwin.summary` first.
_COUNTERS = ("probes", "answers", "late", "repeated", "strange", "left", "probes_unsent")


class PoolMessages:
    """Messages of an episode.

    Args:
        warm_up_ns: Counts leave out what was sent earlier.
    """

    def __init__(self, warm_up_ns: int) -> None:
        self._warm_up_ns = warm_up_ns
        self.begin()

    def begin(self) -> None:
        """Start anew: nobody listens, nothing is counted."""
        self._listeners: tuple[int, ...] = ()
        self._before: dict[str, int] = {}
        self._is_warm = False

    def listen(self, pod: RunningPod) -> None:
        """Let idle servers register with the balancers whose rule asks for it.

        Args:
            pod: The running pod.
        """
        rules = [writer.rule for writer in pod.writers]
        listeners = tuple(number for number, rule in enumerate(rules) if rule == "jiq")
        if listeners != self._listeners:
            pod.order(SetListeners(listeners))
            self._listeners = listeners

    def sample(self, pod: RunningPod, header: np.void, time_ns: int) -> None:
        """Note where the counts stand when the warm-up is over.

        Args:
            pod: The running pod.
            header: Counters of the generator (`RequestResults.header`).
            time_ns: Since the beginning of the episode.
        """
        if not self._is_warm and time_ns >= self._warm_up_ns > 0:
            self._is_warm, self._before = True, _totals(pod, header)

    def counts(self, pod: RunningPod, header: np.void, polls: int) -> dict[str, int]:
        """Return ``messages`` of `BalancingTwin.summary`, and what of them was refused.

        ``strange``: from no server's MAC, or to no probe of that server; ``left``: of servers that
        take no flows any more; ``probes_unsent``: the queue to their sender was full.
        ``unanswered`` are probes without an answer, those on their way included.

        Args:
            pod: The running pod.
            header: Counters of the generator.
            polls: Servers that were polled.
        """
        totals = _totals(pod, header)
        found = {name: count - self._before.get(name, 0) for name, count in totals.items()}
        settled = sum(found[name] for name in ("answers", "late", "left", "lost"))
        found["unanswered"] = max(found["probes"] - settled, 0)
        return found | {"polls": polls}


def _totals(pod: RunningPod, header: np.void) -> dict[str, int]:
    counters = pod.counters()
    found = {name: sum(int(one[name]) for one in counters) for name in _COUNTERS}
    # All SYN-ACKs carry loads; only some rules need them.
    found["reports"] = sum(
        int(one["reports"])
        for one, writer in zip(counters, pod.writers, strict=True)
        if writer.rule in REPORTED_RULES
    )
    found["idle"], found["lost"] = int(header["idle_messages"]), int(header["messages_lost"])
    return found
