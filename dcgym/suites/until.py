"""Seeds until differences are known: how many a case needs, from those that it has."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from dcgym.config import check_int
from dcgym.errors import ConfigError
from dcgym.suites.comparisons import from_best, mean_of, samples_of
from dcgym.suites.results import Records, known_layout
from dcgym.tasks.common.layout import Layout

__all__ = ["Until"]

_TEXT = re.compile(r"(?:(?P<metric>\w+)=)?(?P<share>[0-9]*\.?[0-9]+)%")


@dataclass(frozen=True)
class Until:
    """When a case has enough seeds.

    Attributes:
        metric: Name of a metric that has a better end.
        share: Half of the 95 % interval of a policy's difference from the best one, pair by pair,
            as a part of the best mean.
        most_seeds: Seeds that a case never goes beyond.
    """

    metric: str
    share: float
    most_seeds: int = 100

    def __post_init__(self) -> None:
        """Check the numbers; `check_suite` checks the metric."""
        if not 0 < self.share < 1:
            raise ConfigError("until", f"{100 * self.share:g}%", "above 0 % and below 100 %")
        check_int("most_seeds", self.most_seeds, 1)

    @classmethod
    def of(cls, text: object, layout: Layout) -> Until:
        """Return what a text such as "2%" or "fct_us_p99=2%" says.

        Args:
            text: The text.
            layout: Of the environment; its main metric is meant where the text names none.

        Raises:
            ConfigError: It is no such text.
        """
        found = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ConfigError("until", text, "a percentage, such as 2% or fct_us_p99=2%")
        main = "" if layout.main is None else layout.main.metric
        return cls(found["metric"] or main, float(found["share"]) / 100)

    def seeds(self, records: Records, seeds: int) -> int:
        """Return how many seeds a case needs; as many as it has where these are enough.

        The interval shrinks with the root of their number. It is a guess of few seeds, so that a
        case at most doubles them before the next look.

        Args:
            records: Records of all of its runs with these seeds.
            seeds: How many it has.
        """
        samples = samples_of(records, self.metric)
        found = from_best(samples, known_layout(str(records[0]["env"])).ends[self.metric])
        needed = seeds
        for one in found[1:]:
            allowed = self.share * abs(mean_of(samples[one.other]))
            if math.isnan(one.gap.half_width):
                needed = max(needed, seeds + 1)
            elif one.gap.half_width > allowed:
                ratio = one.gap.half_width / allowed if allowed else math.inf
                needed = max(needed, seeds + 1, math.ceil(seeds * min(ratio, 2.0) ** 2))
        return min(needed, 2 * seeds, max(seeds, self.most_seeds))
