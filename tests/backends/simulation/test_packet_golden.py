"""Windows of the packet twin under scripted losses and marks, beside those of the kernel's TCP.

`data/kernel_windows.json` was recorded by ``.venv/bin/python -m experiments.golden``: of each case
the corners of the window as a function of what was delivered, with threshold and state.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.traffic import Flow, Plan
from experiments.golden.__main__ import TRANSPORTS
from tests.support.packets import MSS, SECOND, START_NS, TracedTwin, line

pytestmark = pytest.mark.simulation

DATA = Path(__file__).parent / "data" / "kernel_windows.json"
CASES = [f"{transport}/{script}" for transport, scripts in TRANSPORTS.items() for script in scripts]
# What BBR takes for the bottleneck's rate hangs on microseconds of the machine, through the bursts
# of the token bucket. It is followed until that rate ends its start-up.
BBR_PACKETS, BBR_TIMEOUT_PACKETS = 60, 26
DISORDER = 1


@cache
def recorded() -> dict[str, Any]:
    windows: dict[str, Any] = json.loads(DATA.read_text())["windows"]
    return windows


def simulated(case: str) -> list[list[int]]:
    """Return what the twin's sender was after each change, as the recorder does."""
    transport, script = case.split("/")
    segments, losses, marks = TRANSPORTS[transport][script]
    twin = TracedTwin(line(queue_bytes=4_000_000, host_rate_bps=10**8))
    plan = Plan("golden", 0, [Flow("h1", "h2", size_bytes=segments * MSS)])
    twin.reset(NetworkEpisode(plan, 0, dict.fromkeys(("h1", "h2"), transport)))
    twin.set_script(
        [
            *((0, segment, times, False) for segment, times in losses.items()),
            *((0, segment, 1, True) for segment in marks),
        ]
    )
    rows: list[list[int]] = []
    for at_ns in range(START_NS + 1_000_000, START_NS + 15 * SECOND, 100_000):
        twin.advance(at_ns)
        sender = twin.sender(0)
        if sender is None:
            break
        row = [sender[name] for name in ("delivered", "cwnd", "ssthresh", "state")]
        if sender["delivered"] > 0 and (not rows or rows[-1] != row):
            rows.append(row)
    return rows


def turns(rows: list[list[int]], until: int, has_threshold: bool) -> list[tuple[int, int]]:
    """Return states and thresholds in their order, but for disorder, which may last no time."""
    found: list[tuple[int, int]] = []
    for delivered, _, threshold, state in rows:
        last = (state, threshold if has_threshold else 0)
        if delivered <= until and state != DISORDER and (not found or found[-1] != last):
            found.append(last)
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_window_is_the_kernels(case: str) -> None:
    kernel, twin = recorded()[case], simulated(case)
    last = min(kernel[-1][0], twin[-1][0])
    is_bbr = case.startswith("bbr")
    if is_bbr:
        last = min(last, BBR_TIMEOUT_PACKETS if case.endswith("timeout") else BBR_PACKETS)
    assert turns(twin, last, not is_bbr) == turns(kernel, last, not is_bbr)
    delivered = np.arange(3, last + 1)
    columns = [np.array(rows).T for rows in (kernel, twin)]
    windows = [np.interp(delivered, rows[0], rows[1]) for rows in columns]
    # Corners are kept within 0.75 of a packet, and which packet is acknowledged with its follower
    # depends on when the receiver reads. A timeout takes the window from anywhere to one packet,
    # and what lies between two looks of the recorder is not in its trace.
    within = 3.0 if case.endswith("timeout") else 1.5
    assert windows[1] == pytest.approx(windows[0], abs=within)
