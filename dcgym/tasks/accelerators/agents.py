"""Agents: what devices tell the balancer, how often, and how long that takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from dcgym.config import check_in, check_int, check_range, read_numbers
from dcgym.errors import ConfigError
from dcgym.native.tables import names_of
from dcgym.tasks.balancing.fields import LONGEST_NS, Plain, build, parse_fields
from dcgym.units import NS_PER_S

__all__ = ["KINDS", "Agents"]

KINDS = names_of("agent_kinds")
"""The kinds, in the order of their numbers in the compiled twin."""

MOST_PERIODS = 10_000


@dataclass(frozen=True)
class Agents:
    """The agents of all devices of a pool.

    Attributes:
        kind: "periodic": each device reports its utilisation and its queue `rate_per_s` times a
            second (P4Hauler). "event": each says that it is busy when a processing time is above
            `threshold_ns`, and that it is not once one is below `release` of that or it has
            nothing left to do (P4Mite). "none": nobody reports.
        rate_per_s: Reports a second of each device, 1 to 200.
        window_ns: Time that a utilisation is taken over; None for one period. It is cut to whole
            periods, and reported in whole per cent without decimals.
        threshold_ns: Processing time above which a device is busy; a number, or one by application.
        release: Share of the threshold below which it is not busy any more, up to 1: hysteresis.
        second_report_ns: With "event": how long after it said "busy" a device says the contrary,
            whatever happens; P4Mite's within 5 ms for heavy applications. 0 for never.
        delay_ns: From a report to its effect in the balancer.
        loss: Share of the reports that are lost.
        max_age_ns: Reports that are older count as if there were none; None for no limit.
    """

    kind: str = "periodic"
    rate_per_s: float = 100.0
    window_ns: int | None = None
    threshold_ns: int | Mapping[str, int] | None = None
    release: float = 1.0
    second_report_ns: int = 0
    delay_ns: int = 20_000
    loss: float = 0.0
    max_age_ns: int | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        read_numbers(self)
        check_in("agents.kind", self.kind, KINDS)
        check_range("agents.rate_per_s", self.rate_per_s, 1, 200)
        if self.window_ns is not None:
            most_ns = min(self.period_ns * MOST_PERIODS, LONGEST_NS)
            check_int("agents.window_ns", self.window_ns, self.period_ns, most_ns)
        check_range("agents.release", self.release, 0, 1)
        check_int("agents.second_report_ns", self.second_report_ns, 0, LONGEST_NS)
        check_int("agents.delay_ns", self.delay_ns, 0, LONGEST_NS)
        check_range("agents.loss", self.loss, 0, 1)
        if self.max_age_ns is not None:
            check_int("agents.max_age_ns", self.max_age_ns, 1, LONGEST_NS)
        if self.kind == "event":
            self._check_thresholds()

    def _check_thresholds(self) -> None:
        given = self.threshold_ns
        for time_ns in given.values() if isinstance(given, Mapping) else [given]:
            check_int("agents.threshold_ns", time_ns, 1, LONGEST_NS)

    @property
    def period_ns(self) -> int:
        """Time between two periodic reports."""
        return round(NS_PER_S / self.rate_per_s)

    @property
    def window(self) -> int:
        """Periods that a utilisation is taken over."""
        return 1 if self.window_ns is None else max(1, self.window_ns // self.period_ns)

    def serves(self, needs: str) -> bool:
        """Tell whether the agents report what a rule needs.

        Args:
            needs: `DeviceRule.needs`.
        """
        if needs == "nothing":
            return True
        return self.kind == ("event" if needs == "busy" else "periodic")

    def threshold_of(self, application: str) -> int:
        """Return the threshold of an application; 0 for agents without one.

        Args:
            application: Its name.

        Raises:
            ConfigError: There is none for it.
        """
        if self.kind != "event":
            return 0
        given = self.threshold_ns
        found = given.get(application) if isinstance(given, Mapping) else given
        if found is None:
            raise ConfigError("agents.threshold_ns", given, f"a time for {application}")
        return found

    def to_dict(self) -> dict[str, object]:
        """Return the agents as plain data."""
        fields = asdict(self)
        if isinstance(self.threshold_ns, Mapping):
            fields["threshold_ns"] = dict(self.threshold_ns)
        return fields

    @classmethod
    def from_dict(cls, data: Plain) -> Agents:
        """Build agents from plain data.

        Args:
            data: The fields; times are numbers of ns, or texts such as "300ms".

        Raises:
            ConfigError: A field is unknown or not allowed.
        """
        return build(cls, parse_fields(data, cls, "agents"))
