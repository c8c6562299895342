"""How far a batch of runs is: what is done, running and failed, and how the policies stand."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable

from dcgym.backends.records import Record
from dcgym.suites.progress import Bars, clock
from dcgym.suites.reports.layout import layout_of
from dcgym.tasks.common.layout import Column

__all__ = ["Batch"]

# Lines where nothing ends for long.
STEADY_S = 60.0
# The ranking of a hundred thousand runs takes 40 ms.
RANKED_S = 5.0
MOST_RANKED = 5


class Batch:
    """Follows the runs of a suite, from any thread, and shows how far they are.

    Args:
        bars: Where it is shown.
    """

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._lock = threading.RLock()
        self._total = self._done = self._failed = self._ended_here = 0
        self._running: dict[object, float] = {}
        self._column: Column | None = None
        # Of each policy, the metric of each case and seed.
        self._values: dict[str, dict[tuple[str, int], float]] = {}
        self._begun_s, self._ranked_s, self._ranking = time.monotonic(), -math.inf, ""

    def begin(self, total: int, ended: Iterable[Record | None]) -> None:
        """Begin with what was done before.

        Args:
            total: Number of runs.
            ended: Records of the runs that were finished before; None for each that failed and is
                not repeated.
        """
        with self._lock:
            self._total, self._done, self._failed = total, 0, 0
            for record in ended:
                self._count(record)
            self._ended_here, self._begun_s = 0, time.monotonic()
            self._show(0.0)

    def follow(self, name: str, is_run: bool = True) -> Callable[[float, str], None]:
        """Show a run or a training, and return what is told of its progress.

        Args:
            name: Its name.
            is_run: Whether it is one of the runs that are counted.
        """
        task = self._bars.add_task(name, total=1.0, note="")

        def told(fraction: float, note: str) -> None:
            self._bars.update(task, completed=fraction, note=note)
            with self._lock:
                if is_run:
                    self._running[name] = fraction
                    self._show(STEADY_S)
                else:
                    self._bars.say(f"{name}: {fraction:.0%} {note}", STEADY_S)

        told(0.0, "")
        return told

    def end(self, name: str, record: Record | None) -> None:
        """Count a run that has ended, and say how far all are.

        Args:
            name: Its name.
            record: Its record; None where it failed.
        """
        for task in self._bars.tasks:
            if task.description == name:
                self._bars.remove_task(task.id)
        with self._lock:
            self._running.pop(name, None)
            self._ended_here += 1
            self._count(record)
            self._show()

    def fail(self, count: int) -> None:
        """Count runs that cannot begin, as their training failed.

        Args:
            count: How many.
        """
        with self._lock:
            self._failed += count
            self._show()

    def close(self) -> None:
        """Say for the last time how far all are."""
        with self._lock:
            self._ranked_s = -math.inf
            self._show(0.0)

    def lines(self) -> tuple[str, ...]:
        """Return how far all are, and the ranking where there is one."""
        passed_s = max(time.monotonic() - self._begun_s, 1e-3)
        parts = sum(self._running.values())
        left, here = self._total - self._done - self._failed - parts, self._ended_here + parts
        told = [
            f"{self._done} of {self._total} runs done",
            f"{self._failed} failed",
            f"{len(self._running)} running",
            f"{60 * self._ended_here / passed_s:.3g}/min",
            f"left {clock(passed_s * left / here) if here else '-:--:--'}",
        ]
        return (", ".join(told), *filter(None, [self._ranking]))

    def _count(self, record: Record | None) -> None:
        """Count a run, and keep what it counts for in the ranking; None where it failed."""
        if record is None:
            self._failed += 1
            return
        self._done += 1
        if self._column is None:
            self._column = layout_of([record]).main
        if self._column is not None:
            value = record["metrics"].get(self._column.metric, math.nan)
            cell = str(record.get("scenario", "")), int(record["seed"])
            if math.isfinite(value):
                self._values.setdefault(str(record["policy"]), {})[cell] = value

    def _show(self, quiet_s: float | None = None) -> None:
        now_s = time.monotonic()
        if now_s - self._ranked_s >= RANKED_S:
            self._ranked_s, self._ranking = now_s, self._ranked()
        self._bars.headlines = self.lines()
        said = "; ".join(self._bars.headlines)
        self._bars.say(said) if quiet_s is None else self._bars.say(said, quiet_s)

    def _ranked(self) -> str:
        """Return the best policies by their means over the runs that all have finished."""
        column, values = self._column, list(self._values.values())
        if column is None or len(values) < 2:
            return ""
        cells = set.intersection(*map(set, values))
        if not cells:
            return ""
        means = {
            policy: sum(own[cell] for cell in cells) / len(cells) / column.divisor
            for policy, own in self._values.items()
        }
        best = sorted(means, key=lambda policy: means[policy], reverse=column.better == "high")
        named = ", ".join(f"{policy} {means[policy]:.4g}" for policy in best[:MOST_RANKED])
        runs = "a run each" if len(cells) == 1 else f"{len(cells)} runs each"
        return f"{column.title}, {runs}: {named}"
