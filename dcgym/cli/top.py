"""``dcgym top``: a live view of a running emulation."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dcgym.backends.emulation.watch import RunView, choose_run
from dcgym.config import check_range

__all__ = ["draw", "print_once", "samples", "show"]

BAR_CELLS = 20
FEWEST_ROWS = 4
# Lines that are neither of a port nor of a host: titles, heads, borders.
FIXED_LINES = 14

Sample = Mapping[str, Any]


def samples(run: str | None, period_s: float) -> Iterator[dict[str, Any]]:
    """Yield a sample each period, the first one after it; ends when nobody asks for more.

    Args:
        run: Id of the run; the only one if None.
        period_s: Time between two looks.

    Raises:
        ConfigError: Wrong run or period.
        BackendError: There is nothing to look at, or no longer.
    """
    check_range("period", period_s, 0.05, 60.0)
    view = RunView(choose_run(run))
    try:
        while True:
            time.sleep(period_s)
            yield view.sample()
    finally:
        view.close()


def show(run: str | None, period_s: float) -> None:
    """Draw until Ctrl-C.

    Args:
        run: Id of the run; the only one if None.
        period_s: Time between two looks.
    """
    console = Console()
    found = samples(run, period_s)
    with Live(draw(next(found), console.height), console=console, screen=True) as live:
        for sample in found:
            live.update(draw(sample, console.height), refresh=True)


def print_once(run: str | None, period_s: float) -> None:
    """Print one picture with all rows.

    Args:
        run: Id of the run; the only one if None.
        period_s: Time between two looks.
    """
    console = Console()
    wide = console if console.is_terminal else Console(width=max(console.width, 140))
    wide.print(draw(next(samples(run, period_s))))


def draw(sample: Sample, lines: int = 1000) -> RenderableType:
    """Return the picture of a sample; of long tables the busiest rows, to fit into the lines.

    Args:
        sample: One of `samples`.
        lines: Height of the terminal.
    """
    free = max(lines - FIXED_LINES, 2 * FEWEST_ROWS)
    n_hosts = min(len(sample["hosts"]), max(free // 2, free - len(sample["ports"])))
    return Group(_head(sample), _ports(sample, free - n_hosts), _hosts(sample, n_hosts))


def _head(sample: Sample) -> Text:
    loop = sample["loop"]
    wanted = f"{loop['interval_ms']:.0f} ms" if loop["interval_ms"] else "free-running"
    late, worst = loop["late_steps"], loop["worst_overrun_ms"]
    text = Text.assemble(
        ("run ", "dim"), (sample["run"], "bold"), f"  {sample['topology']}",
        ("   interval ", "dim"), wanted,
        ("   last step ", "dim"), f"{loop['step_ms']:.1f} ms",
        ("   action latency ", "dim"), f"{loop['action_latency_ms']:.2f} ms",
        ("   overrun ", "dim"), f"{loop['overrun_ms']:.2f} ms (worst {worst:.1f})",
        ("   late ", "dim"), (f"{late} of {loop['steps']} steps", "red" if late else ""),
    )  # fmt: skip
    text.append("\n")
    return text


def _ports(sample: Sample, rows: int) -> Table:
    ports = sorted(
        sample["ports"],
        key=lambda p: (p["backlog_bytes"] / p["queue_bytes"], p["load"]),
        reverse=True,
    )
    table = _table(f"switch ports by queue and load ({_shown(rows, len(ports))})")
    for heading in ("port", "rate", "load", "", "queue", "", "peak KB", "drops/s", "marks/s"):
        table.add_column(heading, justify="left" if heading in ("port", "") else "right")
    for port in ports[:rows]:
        fill = port["backlog_bytes"] / port["queue_bytes"]
        table.add_row(
            port["name"],
            _rate(port["rate_bps"]),
            f"{port['load']:.0%}",
            _bar(port["load"]),
            f"{port['backlog_bytes'] / 1e3:.1f} KB",
            _bar(fill),
            f"{port['peak_bytes'] / 1e3:.1f}",
            f"{port['drops_per_s']:.0f}",
            f"{port['marks_per_s']:.0f}",
        )
    return table


def _hosts(sample: Sample, rows: int) -> Table:
    hosts = sorted(sample["hosts"], key=lambda h: h["sent_bps"] + h["goodput_bps"], reverse=True)
    table = _table(f"hosts by traffic ({_shown(rows, len(hosts))})")
    for heading in (
        "host",
        "limit",
        "of link",
        "",
        "sends",
        "receives",
        "RTT ms",
        "queue KB",
        "flows",
    ):
        table.add_column(heading, justify="left" if heading in ("host", "") else "right")
    for host in hosts[:rows]:
        share = host["limit_bps"] / host["link_bps"]
        table.add_row(
            host["name"],
            _rate(host["limit_bps"]),
            f"{share:.0%}",
            _bar(share, "blue"),
            _rate(host["sent_bps"]),
            _rate(host["goodput_bps"]),
            f"{host['rtt_ms']:.1f}" if host["rtt_ms"] else "-",
            f"{host['backlog_bytes'] / 1e3:.1f}",
            str(host["active_flows"]),
        )
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))


def _shown(rows: int, total: int) -> str:
    return f"{rows} of {total}" if rows < total else str(total)


def _bar(share: float, colour: str | None = None) -> Text:
    full = round(min(max(share, 0.0), 1.0) * BAR_CELLS)
    colour = colour or ("red" if share > 0.9 else "yellow" if share > 0.5 else "green")
    return Text("█" * full, colour) + Text("░" * (BAR_CELLS - full), "dim")


def _rate(bps: float) -> str:
    for factor, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if bps >= factor:
            return f"{bps / factor:.4g} {unit}"
    return f"{bps:.0f} bit/s"
