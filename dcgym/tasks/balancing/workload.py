"""The traffic of a scenario: its applications, and how much of them arrives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dcgym.config import check_in, check_positive
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.fields import (
    Plain,
    build,
    check_items,
    check_unique,
    parse_fields,
    parse_rows,
)
from dcgym.tasks.balancing.pool import ServerPool
from dcgym.traffic.http import Application

__all__ = ["Workload"]


@dataclass(frozen=True)
class Workload:
    """Which flows arrive, and how many.

    The load is the utilisation of the busiest resource over the servers present at the start.

    Attributes:
        applications: The kinds of flows; all with a rate of their own, or none.
        load: Utilisation from which the arrival rates follow; None where applications give rates.
        allow_overload: Accept a load above 1.
    """

    applications: tuple[Application, ...]
    load: float | None = None
    allow_overload: bool = False

    def __post_init__(self) -> None:
        """Freeze the applications and check every field."""
        applications = check_items("scenario.applications", self.applications, Application)
        object.__setattr__(self, "applications", applications)
        check_unique("scenario.applications", [app.name for app in applications])
        check_in("scenario.allow_overload", self.allow_overload, (True, False))
        given = [app.name for app in applications if app.rate_per_s is not None]
        if self.load is None and len(given) < len(applications):
            raise ConfigError("scenario.load", None, "a load, or a rate for each application")
        if self.load is not None:
            check_positive("scenario.load", self.load)
            if given:
                raise ConfigError("scenario.load", self.load, "None where applications give rates")

    def check(self, pool: ServerPool) -> None:
        """Refuse what a pool cannot serve.

        Args:
            pool: The servers.

        Raises:
            ConfigError: They lack a resource that a stage needs, or the load is above 1.
        """
        for app in self.applications:
            for stage in app.stages:
                check_in("stage.resource", stage.resource, pool.resources)
        offered = self.offered_load(pool)
        if offered > 1 and not self.allow_overload:
            allowed = "at most 1, or more with allow_overload"
            raise ConfigError("scenario.load", round(offered, 6), allowed)

    def offered_load(self, pool: ServerPool) -> float:
        """Return the utilisation of the busiest resource that the arrival rates ask for.

        Args:
            pool: The servers.
        """
        if self.load is not None:
            return self.load
        rates = [app.rate_per_s or 0.0 for app in self.applications]
        return sum(rates) * self._load_per_rate(pool, [rate / sum(rates) for rate in rates])

    def rates_per_s(self, pool: ServerPool) -> tuple[float, ...]:
        """Return the arrivals a second of each application.

        Args:
            pool: The servers.
        """
        if self.load is None:
            return tuple(app.rate_per_s or 0.0 for app in self.applications)
        total = sum(app.share for app in self.applications)
        shares = [app.share / total for app in self.applications]
        rate = self.load / self._load_per_rate(pool, shares)
        return tuple(rate * share for share in shares)

    def _load_per_rate(self, pool: ServerPool, shares: Sequence[float]) -> float:
        return max(
            self._mean_s(resource, shares) / pool.capacity(resource) for resource in pool.resources
        )

    def _mean_s(self, resource: str, shares: Sequence[float]) -> float:
        means_ns = [app.mean_ns(resource) for app in self.applications]
        return 1e-9 * sum(share * mean for share, mean in zip(shares, means_ns, strict=True))

    def to_dict(self) -> dict[str, object]:
        """Return the workload as plain data; `from_dict` reads it back."""
        return {
            "applications": [app.to_dict() for app in self.applications],
            "load": self.load,
            "allow_overload": self.allow_overload,
        }

    @classmethod
    def from_dict(cls, data: Plain) -> Workload:
        """Build a workload from plain data.

        Args:
            data: The fields; ``applications`` is a list of what `Application.from_dict` takes.

        Raises:
            ConfigError: A field is unknown or not allowed.
        """
        content = parse_fields(data, cls, "scenario")
        rows = parse_rows(content, "applications", "scenario")
        content["applications"] = tuple(Application.from_dict(row) for row in rows)
        return build(cls, content)
