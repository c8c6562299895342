"""The distribution of durations of which some are only known to be longer than what was seen.

Every completion time of a run is estimated here, whatever its task and its backend.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["Survival", "completion_metrics", "count_flows", "ends_of", "enough_for"]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


def ends_of(outcomes: npt.NDArray[np.integer], names: Sequence[str]) -> tuple[BoolArray, BoolArray]:
    """Return which flows were served, and which ended otherwise; the rest are under way.

    Args:
        outcomes: Of each flow its position in the names, or their number while it is under way.
        names: The outcomes, "completed" among them.
    """
    is_finished = outcomes == names.index("completed")
    return is_finished, ~is_finished & (outcomes != len(names))


def count_flows(is_finished: BoolArray, is_failed: BoolArray) -> dict[str, float]:
    """Return how many flows there were, and what became of them.

    Args:
        is_finished: Whether each was served.
        is_failed: Whether it ended otherwise; the rest are censored: their end is not known.

    Returns:
        ``flows``, ``flows_finished``, ``flows_censored``, ``flows_failed``, and ``censored_share``
        of all, NaN without any.
    """
    flows, finished, failed = is_finished.size, int(is_finished.sum()), int(is_failed.sum())
    censored = flows - finished - failed
    return {
        "flows": float(flows),
        "flows_finished": float(finished),
        "flows_censored": float(censored),
        "flows_failed": float(failed),
        "censored_share": censored / flows if flows else math.nan,
    }


def completion_metrics(
    name: str, elapsed: FloatArray, is_finished: BoolArray, percents: Sequence[int]
) -> dict[str, float]:
    """Return mean and percentiles of completion times, by the Kaplan-Meier estimate (`Survival`).

    Where all flows finished they are the plain ones.

    Args:
        name: What the metrics are called, such as "fct_us".
        elapsed: Completion times, or how long a flow had lasted when it failed or was last seen.
        is_finished: Whether the flow was served.
        percents: Percentiles, such as 99.

    Returns:
        ``NAME_mean``, and ``NAME_pNN`` of each percentile: NaN where too few flows lasted so long,
        or there are too few for it (`enough_for`).
    """
    times = Survival(elapsed, is_finished)
    found = {f"{name}_mean": times.mean()}
    for percent in percents:
        is_known = enough_for(percent / 100, elapsed.size)
        found[f"{name}_p{percent}"] = times.quantile(percent / 100) if is_known else math.nan
    return found


def enough_for(quantile: float, number: int) -> bool:
    """Tell whether samples are so many that one is expected beyond a quantile.

    Args:
        quantile: The quantile, 0 to 1.
        number: Number of samples.
    """
    return number * (1 - quantile) >= 1 - 1e-9


class Survival:
    """The Kaplan-Meier estimate (J. Amer. Statist. Assoc. 53, 1958, pp. 457-481).

    At each observed end the share of longer durations falls by the ends over the durations that
    had lasted until then. Leaving the unfinished ones out would favour short durations; taking
    them as finished would, too.
    """

    def __init__(self, durations: FloatArray, is_observed: BoolArray) -> None:
        """Estimate.

        Args:
            durations: Whole durations, or how long each had lasted when it was last seen.
            is_observed: Whether the duration is whole.
        """
        self._times, index = np.unique(durations, return_inverse=True)
        ends = np.bincount(index.reshape(-1), is_observed, len(self._times))
        seen = np.bincount(index.reshape(-1), minlength=len(self._times))
        at_risk = np.cumsum(seen[::-1])[::-1]
        self._share_longer = np.cumprod(1 - ends / at_risk)

    def quantile(self, q: float) -> float:
        """Return the shortest duration that a share q does not exceed; NaN if none is so long.

        Args:
            q: The share, between 0 and 1.
        """
        # Products of rounded factors: 0.5 may come out as 0.5000000000000001.
        reached = np.flatnonzero(self._share_longer <= 1 - q + 1e-9)
        return float(self._times[reached[0]]) if reached.size else math.nan

    def mean(self) -> float:
        """Return the mean up to the longest duration seen: a lower bound if that is unfinished."""
        if not self._times.size:
            return math.nan
        widths = np.diff(self._times, prepend=0.0)
        longer = np.concatenate([[1.0], self._share_longer[:-1]])
        return float((widths * longer).sum())
