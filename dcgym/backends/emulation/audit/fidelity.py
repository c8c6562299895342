"""Whether the machine kept up with the emulation during an episode."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import FIDELITIES, Fidelity
from dcgym.backends.emulation.audit.links import LinkAudit
from dcgym.backends.emulation.audit.machine_load import MachineLoad
from dcgym.traffic.generators.view import REFUSED, RESET

__all__ = ["LIMITS", "FidelityAudit", "Limit", "judge"]

LATE_NS = 5_000_000
# Five times the period of the generator's sign of life.
SILENT_NS = 20_000_000
LEAST_STARTS = 100


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
        """Return ok, degraded or invalid; a figure that was not measured is ok."""
        sign = -1 if self.is_least else 1
        if math.isnan(value) or sign * value <= sign * self.degraded:
            return "ok"
        return "degraded" if sign * value <= sign * self.invalid else "invalid"


LIMITS: Mapping[str, Limit] = {
    "late_share": Limit(0.01, 0.10, "{x:.1%} of the intervals ended over 5 ms late"),
    "overrun_ms_p99": Limit(10, 50, "the end of an interval was missed by {x:.1f} ms (p99)"),
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


def judge(figures: Mapping[str, float]) -> tuple[str, list[str]]:
    """Compare figures with their limits.

    Args:
        figures: Values by the names of `LIMITS`.

    Returns:
        The worst status of the figures, and a sentence for each that is not ok.
    """
    states = {name: LIMITS[name].status(value) for name, value in figures.items()}
    reasons = [
        LIMITS[name].text.format(x=figures[name])
        for name in LIMITS
        if states.get(name, "ok") != "ok"
    ]
    return max(states.values(), key=FIDELITIES.index, default="ok"), reasons


class FidelityAudit:
    """Watches one episode.

    Args:
        began: The machine when it began.
        links: Watches what the switch ports send.
        preflight: Figures of the emulator's preflight.
    """

    def __init__(
        self,
        began: MachineLoad,
        links: LinkAudit,
        preflight: Mapping[str, float] | None = None,
    ) -> None:
        self._began = began
        self.links = links
        self._preflight = dict(preflight or {})
        self._overruns_ns: list[int] = []
        self._silence_ns = self._looks = self._silent_looks = 0
        self._late_start_share = math.nan
        self._records_lost = 0
        self._lost_flow_share = math.nan
        self._link_delays: Mapping[str, float] = {}

    def interval(self, overrun_ns: int) -> None:
        """Note by how much the end of a control interval was missed."""
        self._overruns_ns.append(overrun_ns)

    def generator_silence(self, silence_ns: int) -> None:
        """Note the age of the generator's last sign of life."""
        self._silence_ns = max(self._silence_ns, silence_ns)
        self._looks += 1
        self._silent_looks += silence_ns > SILENT_NS

    def starts(self, started: int, late: int) -> None:
        """Note how many runs were started, and how many over 2 ms after their planned time.

        The share of a few flows says nothing at its limit of one in a hundred: those of a burst
        are late together.
        """
        if started >= LEAST_STARTS:
            self._late_start_share = late / started

    def records_lost(self, lost: int) -> None:
        """Note how many flow records of the episode nobody has read."""
        self._records_lost = lost

    def link_delays(self, figures: Mapping[str, float]) -> None:
        """Note how late the packets of links with a delay have left, by the names of `LIMITS`."""
        self._link_delays = figures

    def tool_flows(self, outcomes: npt.NDArray[np.uint64]) -> None:
        """Note how the flows of a traffic tool have ended: what it loses is not in the results.

        Args:
            outcomes: Outcome of each flow that has ended.
        """
        self._lost_flow_share = _share(np.isin(outcomes, (REFUSED, RESET)))

    def verdict(self, now: MachineLoad, flow_records: npt.NDArray[np.void]) -> Fidelity:
        """Judge the episode so far.

        Args:
            now: The machine now.
            flow_records: Flows that have ended in this episode.
        """
        overruns_ms = np.array(self._overruns_ns, np.float64) / 1e6
        figures = {
            "late_share": _share(overruns_ms > LATE_NS / 1e6),
            "overrun_ms_p99": _p99(overruns_ms),
            "rate_excess": self.links.excess,
            "rate_deficit": self.links.deficit,
            "generator_silence_ms": self._silence_ns / 1e6,
            "generator_silent_share": self._silent_looks / max(self._looks, 1),
            "generator_lag_ms_p99": _p99(_lags_ms(flow_records)),
            "late_start_share": self._late_start_share,
            "records_lost": self._records_lost,
            "lost_flow_share": self._lost_flow_share,
            **self._link_delays,
            **now.since(self._began),
            **self._preflight,
        }
        status, reasons = judge(figures)
        measured = {name: value for name, value in figures.items() if not math.isnan(value)}
        return Fidelity(status, tuple(reasons), measured)


def _lags_ms(flow_records: npt.NDArray[np.void]) -> npt.NDArray[np.float64]:
    starts = flow_records["start_ns"].astype(np.float64)
    lags: npt.NDArray[np.float64] = (starts - flow_records["planned_start_ns"]) / 1e6
    return lags


def _share(chosen: npt.NDArray[np.bool_]) -> float:
    return float(chosen.mean()) if chosen.size else math.nan


def _p99(values: npt.NDArray[np.float64]) -> float:
    return float(np.quantile(values, 0.99)) if values.size else math.nan
