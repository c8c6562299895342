"""What an emulated pod has counted since the warm-up, whatever became of its balancers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.backends.emulation.pool.checks import REPORTED_RULES
from dcgym.backends.records import Record

if TYPE_CHECKING:
    from dcgym.backends.emulation.pool.pod import RunningPod

__all__ = ["PoolTotals"]

# Of the balancers' counters, those of every `PoolSummary` first.
_MESSAGES = ("probes", "answers", "late", "repeated", "strange", "left", "probes_unsent")

_Counts: TypeAlias = Mapping[str, npt.NDArray[np.int64]]


class PoolTotals:
    """Differences of counters that begin anew with their balancer.

    Args:
        warm_up_ns: What was counted earlier is left out.
    """

    def __init__(self, warm_up_ns: int) -> None:
        self._warm_up_ns = warm_up_ns
        self.begin()

    def begin(self) -> None:
        """Start anew: nothing is counted."""
        self._before: _Counts = {}
        self._of_the_dead: _Counts = {}
        self._is_warm = False

    def sample(self, pod: RunningPod, header: np.void, time_ns: int) -> None:
        """Note where the counts stand when the warm-up is over.

        Args:
            pod: The running pod.
            header: Counters of the generator (`RequestResults.header`).
            time_ns: Since the beginning of the episode.
        """
        if not self._is_warm and time_ns >= self._warm_up_ns > 0:
            self._is_warm, self._before = True, self._read(pod, header)

    def keep(self, pod: RunningPod, balancer: int) -> None:
        """Keep what a balancer has counted that is about to die.

        Its flows are those of its last publication, at most 10 ms old.

        Args:
            pod: The running pod.
            balancer: Its number.
        """
        self._of_the_dead = _sum(self._of_the_dead, _of_balancer(pod, balancer))

    def figures(self, pod: RunningPod, header: np.void, polls: int) -> Record:
        """Return what balancers and servers count of a `PoolSummary`, by name.

        Beyond the ``messages`` that it lists there are: ``strange``, from no server's MAC, or to no
        probe of that server; ``left``, of servers that take no flows any more; ``probes_unsent``,
        the queue to their sender was full. ``unanswered`` are probes without an answer, those on
        their way included. ``reports`` are those to balancers of which one address at least has a
        rule that needs them.

        Args:
            pod: The running pod.
            header: Counters of the generator.
            polls: Servers that were polled.
        """
        total = self._read(pod, header)
        found = {name: counts - self._before.get(name, 0) for name, counts in total.items()}
        messages = {name: int(found[name]) for name in (*_MESSAGES, "reports", "idle", "lost")}
        settled = sum(messages[name] for name in ("answers", "late", "left", "lost"))
        messages["unanswered"] = max(messages["probes"] - settled, 0)
        return {
            "messages": messages | {"polls": polls},
            "untracked": int(found["untracked"]),
            "server_flows": found["server_flows"].astype(np.float64),
            "server_completed": found["server_completed"].astype(np.float64),
        }

    def _read(self, pod: RunningPod, header: np.void) -> _Counts:
        found = self._of_the_dead
        for balancer in range(pod.n_balancers):
            found = _sum(found, _of_balancer(pod, balancer))
        return {
            **found,
            "idle": np.asarray(header["idle_messages"], np.int64),
            "lost": np.asarray(header["messages_lost"], np.int64),
            "server_completed": pod.rows.read()["completed"].astype(np.int64),
        }


def _of_balancer(pod: RunningPod, balancer: int) -> _Counts:
    counters = pod.counters(balancer)
    flows, untracked = pod.features.placed(balancer)
    # All SYN-ACKs carry loads; only some rules need them.
    needs_none = pod.rules_at(balancer).isdisjoint(REPORTED_RULES)
    reports = 0 if needs_none else counters["reports"]
    return {
        **{name: np.asarray(counters[name], np.int64) for name in _MESSAGES},
        "reports": np.asarray(reports, np.int64),
        "untracked": untracked,
        "server_flows": flows,
    }


def _sum(one: _Counts, other: _Counts) -> _Counts:
    return {name: counts + one.get(name, 0) for name, counts in other.items()}
