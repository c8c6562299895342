"""Whether the machine kept up with the emulation during an episode."""

from __future__ import annotations

from typing import Any

__all__ = ["FidelityAudit"]

LATE_NS = 5_000_000
DEGRADED_LATE_SHARE = 0.01
INVALID_LATE_SHARE = 0.10
DEGRADED_LAG_NS = 100_000_000
INVALID_LAG_NS = 500_000_000


class FidelityAudit:
    """Counts late control intervals and the silence of the traffic generator."""

    def __init__(self) -> None:
        self._intervals = 0
        self._late = 0
        self._worst_overrun_ns = 0
        self._worst_lag_ns = 0
        self._late_start_share = 0.0

    def interval(self, overrun_ns: int) -> None:
        """Note by how much the end of a control interval was missed."""
        self._intervals += 1
        self._late += overrun_ns > LATE_NS
        self._worst_overrun_ns = max(self._worst_overrun_ns, overrun_ns)

    def generator_lag(self, lag_ns: int) -> None:
        """Note the age of the generator's last sign of life."""
        self._worst_lag_ns = max(self._worst_lag_ns, lag_ns)

    def starts(self, started: int, late: int) -> None:
        """Note how many runs were started, and how many over 2 ms after their planned time."""
        self._late_start_share = late / max(started, 1)

    def verdict(self) -> dict[str, Any]:
        """Return status (ok, degraded, invalid), reasons and the figures behind them."""
        late_share = self._late / max(self._intervals, 1)
        reasons = []
        if late_share > DEGRADED_LATE_SHARE:
            late_ms = LATE_NS / 1e6
            reasons.append(f"{late_share:.1%} of the intervals ended over {late_ms:g} ms late")
        if self._worst_lag_ns > DEGRADED_LAG_NS:
            lag_ms = self._worst_lag_ns / 1e6
            reasons.append(f"the traffic generator was silent for {lag_ms:.0f} ms")
        if self._late_start_share > DEGRADED_LATE_SHARE:
            reasons.append(f"{self._late_start_share:.1%} of the flows began over 2 ms late")
        invalid = late_share > INVALID_LATE_SHARE or self._worst_lag_ns > INVALID_LAG_NS
        return {
            "status": "invalid" if invalid else "degraded" if reasons else "ok",
            "reasons": reasons,
            "late_share": late_share,
            "late_start_share": self._late_start_share,
            "worst_overrun_ms": self._worst_overrun_ns / 1e6,
            "worst_generator_lag_ms": self._worst_lag_ns / 1e6,
        }
