"""What a figure of fidelity may be, and what some figures say together.

Backends measure most of them. The first two are of every environment that real time passes in:
the session of an environment, which knows when its intervals begin and end, adds them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dcgym.backends.records import FIDELITIES, Fidelity

__all__ = ["LIMITS", "Limit", "judge"]


@dataclass(frozen=True)
class Limit:
    """What a figure may be.

    Attributes:
        degraded: Beyond it the result is degraded.
        invalid: Beyond it the result is invalid.
        text: The reason, as a format of the figure's value `x`.
        is_least: Whether less than the limits is bad, not more.
    """

    degraded: float
    invalid: float
    text: str
    is_least: bool = False

    def status(self, value: float) -> str:
        """Return ok, degraded or invalid."""
        sign = -1 if self.is_least else 1
        if sign * value <= sign * self.degraded:
            return "ok"
        return "degraded" if sign * value <= sign * self.invalid else "invalid"


LIMITS: Mapping[str, Limit] = {
    "late_share": Limit(
        0.05, 0.50, "{x:.1%} of the actions came so late that an interval of their own began"
    ),
    "gap_share": Limit(0.01, 0.10, "{x:.1%} of the time belongs to no step"),
    "overrun_ms_p99": Limit(5, 50, "the end of an interval was missed by {x:.1f} ms (p99)"),
    "rate_excess": Limit(0.01, 0.05, "a port sent {x:.1%} more than its rate allows"),
    "rate_deficit": Limit(
        0.01, 0.05, "a port with packets waiting sent {x:.1%} less than its rate allows"
    ),
    "generator_silence_ms": Limit(100, 500, "the traffic generator was silent for {x:.0f} ms"),
    "generator_silent_share": Limit(
        0.01, 0.10, "the traffic generator was over 20 ms behind {x:.1%} of the time"
    ),
    "generator_lag_ms_p99": Limit(20, 100, "flows began {x:.0f} ms after their time (p99)"),
    "late_start_share": Limit(0.01, 0.10, "{x:.1%} of the flows began over 2 ms late"),
    "generator_wait_us": Limit(
        1000, 10_000, "the traffic generator waited {x:.0f} us for a processor each time"
    ),
    "records_lost": Limit(0, 1000, "{x:.0f} flow records were overwritten before they were read"),
    "lost_flow_share": Limit(
        0, 0.01, "the traffic tool lost {x:.1%} of the flows: they found no connection, or it broke"
    ),
    "cpu_idle_share": Limit(
        0.05, 0.005, "the machine's processors were idle {x:.1%} of the time", True
    ),
    "cpu_pressure_share": Limit(0.60, 0.90, "tasks waited for a processor {x:.0%} of the time"),
    "softirq_dropped": Limit(0, 1000, "soft interrupts lost {x:.0f} packets before any queue"),
    "softirq_squeezed": Limit(100, 10_000, "soft interrupts ran out of time {x:.0f} times"),
    "delay_late_ms_p99": Limit(1, 10, "links held packets {x:.1f} ms too long (p99)"),
    "delay_late_ms_max": Limit(20, 200, "a link held a packet {x:.0f} ms too long"),
    "delay_overflow": Limit(0, 1000, "links had no room for {x:.0f} packets on the wire"),
    "preflight_rate_error": Limit(0.02, 0.10, "preflight: a link's rate is {x:.1%} off"),
    "preflight_queue_error": Limit(0.01, 0.10, "preflight: a queue's limit is {x:.1%} off"),
    "preflight_mark_error": Limit(
        0.05, 0.50, "preflight: marking begins {x:.0%} away from its threshold"
    ),
    "preflight_rtt_excess_ms": Limit(
        1,
        10,
        "preflight: the idle network's round trip is {x:.1f} ms longer than its links make it",
    ),
}
"""The limits of every figure; `docs/guides/fidelity.md` shows the same table."""


def judge(figures: Mapping[str, float], known: Fidelity | None = None) -> Fidelity:
    """Return what figures say of an episode: the worst of their states, a reason for each bad one.

    Args:
        figures: Values by the names of `LIMITS`; those that were not measured (NaN) are left out.
        known: What is known of it besides; its reasons and figures come last.
    """
    known = known or Fidelity()
    measured = {name: value for name, value in figures.items() if not math.isnan(value)}
    states = {name: LIMITS[name].status(value) for name, value in measured.items()}
    reasons = [
        LIMITS[name].text.format(x=measured[name])
        for name in LIMITS
        if states.get(name, "ok") != "ok"
    ]
    return Fidelity(
        max((*states.values(), known.status), key=FIDELITIES.index),
        (*reasons, *known.reasons),
        {**measured, **known.figures},
    )
