"""Whether the machine kept up with the emulation during an episode."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from dcgym.backends.emulation.audit.links import LinkAudit
from dcgym.backends.emulation.audit.machine_load import MachineLoad
from dcgym.backends.fidelity import judge
from dcgym.backends.records import Fidelity
from dcgym.traffic.generators.view import REFUSED, RESET

__all__ = ["FidelityAudit"]

# Five times the period of the generator's sign of life.
SILENT_NS = 20_000_000
LEAST_STARTS = 100


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
        return judge(figures)


def _lags_ms(flow_records: npt.NDArray[np.void]) -> npt.NDArray[np.float64]:
    starts = flow_records["start_ns"].astype(np.float64)
    lags: npt.NDArray[np.float64] = (starts - flow_records["planned_start_ns"]) / 1e6
    return lags


def _share(chosen: npt.NDArray[np.bool_]) -> float:
    return float(chosen.mean()) if chosen.size else math.nan


def _p99(values: npt.NDArray[np.float64]) -> float:
    return float(np.quantile(values, 0.99)) if values.size else math.nan
