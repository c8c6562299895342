"""``dcgym top``: a live view of a running emulation."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from dcgym.backends.emulation.session.runs import choose_run
from dcgym.backends.emulation.watch import RunView
from dcgym.backends.records import Record
from dcgym.cli.console import UNBOUNDED, table_console
from dcgym.config import check_range

__all__ = ["draw", "print_once", "samples", "show"]

BAR_CELLS = 20
FEWEST_BAR_CELLS = 4
FEWEST_ROWS = 4
# Lines that are neither of a port nor of a host: titles, heads, borders.
FIXED_LINES = 16


def samples(
    run: str | None, period_s: float, is_over: Callable[[float], bool] | None = None
) -> Iterator[Record]:
    """Yield a sample each period, the first one after it; ends when nobody asks for more.

    Args:
        run: Name or identifier of the run; the only one if None.
        period_s: Time between two looks.
        is_over: Waits for so many seconds, and tells whether that was the last look.

    Raises:
        ConfigError: Wrong run or period.
        BackendError: There is nothing to look at, or no longer.
    """
    period_s = check_range("period", period_s, 0.05, 60.0)
    wait = is_over or _sleep
    view = RunView(choose_run(run))
    try:
        while not wait(period_s):
            yield view.sample()
    finally:
        view.close()


def show(run: str | None, period_s: float) -> None:
    """Draw until somebody types q or Ctrl-C.

    Args:
        run: Name or identifier of the run; the only one if None.
        period_s: Time between two looks.
    """
    console = Console()
    with contextlib.suppress(KeyboardInterrupt), _keys() as is_over:
        found = samples(run, period_s, is_over)
        # What is wrong with the run is said before the screen is cleared.
        if (first := next(found, None)) is None:
            return
        with Live(draw(first, *console.size), console=console, screen=True) as live:
            for sample in found:
                live.update(draw(sample, *console.size), refresh=True)


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Give a wait that ends early, and returns True, where somebody types q."""
    if not sys.stdin.isatty():
        yield _sleep
        return
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    try:
        yield partial(_is_q_typed, keyboard)
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _is_q_typed(keyboard: int, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while (left_s := deadline - time.monotonic()) > 0:
        if not select.select([keyboard], [], [], left_s)[0]:
            return False
        typed = os.read(keyboard, 64)
        if not typed or b"q" in typed.lower():
            return True
    return False


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def print_once(run: str | None, period_s: float) -> None:
    """Print one picture with all rows.

    Args:
        run: Name or identifier of the run; the only one if None.
        period_s: Time between two looks.
    """
    console = table_console()
    console.print(draw(next(samples(run, period_s)), console.width))


def draw(sample: Record, columns: int, lines: int = 1000) -> RenderableType:
    """Return the picture of a sample; of long tables the busiest rows, to fit into the lines.

    Args:
        sample: One of `samples`.
        columns: Width of the terminal.
        lines: Height of the terminal.
    """
    free = max(lines - FIXED_LINES, 2 * FEWEST_ROWS)
    n_hosts = min(len(sample["hosts"]), max(free // 2, free - len(sample["ports"])))
    return Group(
        _head(sample, columns),
        _ports(sample, columns, free - n_hosts),
        _hosts(sample, columns, n_hosts),
        Text("q ends this view, not the run", "dim"),
    )


def _head(sample: Record, columns: int) -> Text:
    loop = sample["loop"]
    wanted = f"{loop['interval_ms']:.0f} ms" if loop["interval_ms"] else "free-running"
    late, worst = loop["late_steps"], loop["worst_overrun_ms"]
    facts = (
        ("interval", wanted, ""),
        ("last step", f"{loop['step_ms']:.1f} ms", ""),
        ("action latency", f"{loop['action_latency_ms']:.2f} ms", ""),
        ("overrun", f"{loop['overrun_ms']:.2f} ms (worst {worst:.1f})", ""),
        ("late", f"{late} of {loop['steps']} steps", "red" if late else ""),
    )
    text = Text.assemble(
        ("run ", "dim"), (sample["name"] or sample["run"], "bold"),
        (f" ({sample['run']})" if sample["name"] else "", "dim"), f"  {sample['topology']}\n",
    )  # fmt: skip
    room = columns
    for name, value, style in facts:
        # A fact stays on one line.
        gap = "" if room == columns else "   "
        if len(gap) + len(name) + 1 + len(value) > room:
            gap, room = "\n", columns
        text.append(f"{gap}{name} ", "dim")
        text.append(value, style)
        room -= len(gap) + len(name) + 1 + len(value)
    text.append("\n")
    return text


def _ports(sample: Record, columns: int, rows: int) -> Table:
    ports = sorted(
        sample["ports"],
        key=lambda p: (p["backlog_bytes"] / p["queue_bytes"], p["load"]),
        reverse=True,
    )
    found = [
        (
            port["name"],
            _rate(port["rate_bps"]),
            f"{port['load']:.0%}",
            _Share(port["load"]),
            f"{port['backlog_bytes'] / 1e3:.1f} KB",
            _Share(port["backlog_bytes"] / port["queue_bytes"]),
            f"{port['peak_bytes'] / 1e3:.1f}",
            f"{port['drops_per_s']:.0f}",
            f"{port['marks_per_s']:.0f}",
        )
        for port in ports[:rows]
    ]
    headings = ("port", "rate", "load", "", "queue", "", "peak KB", "drops/s", "marks/s")
    title = f"switch ports by queue and load ({_shown(rows, len(ports))})"
    return _fitted(title, headings, found, columns)


def _hosts(sample: Record, columns: int, rows: int) -> Table:
    hosts = sorted(sample["hosts"], key=lambda h: h["sent_bps"] + h["goodput_bps"], reverse=True)
    found = [
        (
            host["name"],
            _rate(host["limit_bps"]),
            f"{host['limit_bps'] / host['link_bps']:.0%}",
            _Share(host["limit_bps"] / host["link_bps"], "blue"),
            _rate(host["sent_bps"]),
            _rate(host["goodput_bps"]),
            f"{host['rtt_ms']:.1f}" if host["rtt_ms"] else "-",
            f"{host['backlog_bytes'] / 1e3:.1f}",
            str(host["active_flows"]),
        )
        for host in hosts[:rows]
    ]
    headings = ("host", "limit", "of link", "", "sends", "receives", "RTT ms", "queue KB", "flows")
    return _fitted(f"hosts by traffic ({_shown(rows, len(hosts))})", headings, found, columns)


@dataclass(frozen=True)
class _Share:
    """A part of a whole, which bars show; a colour of its own, or one that warns."""

    value: float
    colour: str | None = None

    def bar(self, cells: int) -> Text:
        full = round(min(max(self.value, 0.0), 1.0) * cells)
        warning = "red" if self.value > 0.9 else "yellow" if self.value > 0.5 else "green"
        return Text("█" * full, self.colour or warning) + Text("░" * (cells - full), "dim")


def _fitted(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[str | _Share]], columns: int
) -> Table:
    """Return a table within the width: first its bars become shorter, then last columns go."""
    # No bar of fewer cells says anything.
    for cells in (*range(BAR_CELLS, FEWEST_BAR_CELLS - 1, -1), 0):
        table = _table(title, headings, rows, cells)
        if _width(table) <= columns:
            return table
    for count in range(len(headings) - 1, 1, -1):
        table = _table(title, headings[:count], [row[:count] for row in rows], 0)
        if _width(table) <= columns:
            break
    return table


def _width(table: Table) -> int:
    console = Console(width=UNBOUNDED)
    return Measurement.get(console, console.options, table).maximum


def _table(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[str | _Share]], cells: int
) -> Table:
    """Return a table with bars of so many cells, without their columns for none."""
    kept = [place for place, heading in enumerate(headings) if heading or cells]
    table = Table(
        title=f"\n{title}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for place in kept:
        is_text = place == 0 or not headings[place]
        table.add_column(headings[place], justify="left" if is_text else "right", no_wrap=True)
    for row in rows:
        found = (row[place] for place in kept)
        table.add_row(*(one.bar(cells) if isinstance(one, _Share) else one for one in found))
    return table


def _shown(rows: int, total: int) -> str:
    return f"{rows} of {total}" if rows < total else str(total)


def _rate(bps: float) -> str:
    for factor, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if bps >= factor:
            return f"{bps / factor:.4g} {unit}"
    return f"{bps:.0f} bit/s"
