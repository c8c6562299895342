"""Progress of everything that takes long: bars in a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

__all__ = ["Bars", "clock", "progress_bars"]

# Between two lines, where each says the same of something that goes on.
QUIET_S = 10.0


def clock(seconds: float) -> str:
    """Return a time as hours, minutes and seconds.

    Args:
        seconds: The time.
    """
    whole_s = round(seconds)
    return f"{whole_s // 3600}:{whole_s // 60 % 60:02}:{whole_s % 60:02}"


class _TimeLeft(ProgressColumn):
    """The time left at the mean speed so far: what is done in steps of minutes has no other."""

    def render(self, task: Task) -> Text:
        if task.finished:
            return Text("done", "green")
        if not task.completed or task.elapsed is None or task.total is None:
            return Text("left -:--:--")
        return Text(f"left {clock(task.elapsed * (task.total - task.completed) / task.completed)}")


class Bars(Progress):
    """Bars of what runs below some lines about all of it; nothing but `say` without a terminal.

    Attributes:
        headlines: The lines.
    """

    headlines: tuple[str, ...] = ()
    _said, _said_s = "", -QUIET_S

    @property
    def is_shown(self) -> bool:
        """Whether there is a terminal, or a notebook, that shows bars."""
        return self.console.is_interactive or self.console.is_jupyter

    def start(self) -> None:
        """Begin to draw."""
        if self.is_shown:
            super().start()

    def stop(self) -> None:
        """Draw for the last time."""
        if self.is_shown:
            super().stop()

    def get_renderables(self) -> Iterable[RenderableType]:
        """Return what is drawn."""
        for line in self.headlines:
            yield Text(line, no_wrap=True, overflow="ellipsis")
        yield self.make_tasks_table(self.tasks)

    def say(self, line: str, quiet_s: float = QUIET_S) -> None:
        """Print a line where there is no terminal.

        Args:
            line: The line.
            quiet_s: Least time since the line before; a line that comes sooner is left out, as is
                one that says the same.
        """
        now_s = time.monotonic()
        if not self.is_shown and line != self._said and now_s - self._said_s >= quiet_s:
            self._said, self._said_s = line, now_s
            print(line, file=sys.stderr, flush=True)


def progress_bars() -> Bars:
    """Return a display of what runs; standard output belongs to the results and to --json."""
    return Bars(
        TextColumn("{task.description}"),
        BarColumn(20),
        TextColumn("{task.percentage:3.0f} %"),
        TimeElapsedColumn(),
        _TimeLeft(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
    )
