"""Progress bars of everything that takes long: share, time passed, time left, and a note."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

__all__ = ["progress_bars"]


class _TimeLeft(ProgressColumn):
    """The time left at the mean speed so far: what is done in steps of minutes has no other."""

    def render(self, task: Task) -> Text:
        if task.finished:
            return Text("done", "green")
        if not task.completed or task.elapsed is None or task.total is None:
            return Text("left -:--:--")
        left_s = round(task.elapsed * (task.total - task.completed) / task.completed)
        return Text(f"left {left_s // 3600}:{left_s // 60 % 60:02}:{left_s % 60:02}")


def progress_bars() -> Progress:
    """Return a display of what runs; standard output belongs to the results and to --json."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(20),
        TextColumn("{task.percentage:3.0f} %"),
        TimeElapsedColumn(),
        _TimeLeft(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
    )
