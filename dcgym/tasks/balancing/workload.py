"""The traffic of a scenario: its applications, and how much of them arrives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dcgym.config import check_in, check_positive, read_numbers
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
from dcgym.traffic.arrivals.read import Arrivals
from dcgym.traffic.http import Application

__all__ = ["Workload"]


@dataclass(frozen=True)
class Workload:
    """Which flows arrive, and how many.

    The load is the utilisation of the busiest resource over the servers present at the start.

    Attributes:
        applications: The kinds of flows; all with a rate of their own, or none.
        load: Utilisation from which the arrival rates follow; None where applications give rates,
            or where the arrivals have a rate of their own (recorded ones, users).
        allow_overload: Accept a load above 1.
        arrivals: When the flows arrive. Poisson: every application has a process of its own. Else
            all share one, and each flow is of an application drawn by the rates.
    """

    applications: tuple[Application, ...]
    load: float | None = None
    allow_overload: bool = False
    arrivals: Arrivals = field(default_factory=Arrivals)

    def __post_init__(self) -> None:
        """Freeze the applications and check every field."""
        read_numbers(self)
        applications = check_items("scenario.applications", self.applications, Application)
        object.__setattr__(self, "applications", applications)
        check_unique("scenario.applications", [app.name for app in applications])
        check_in("scenario.allow_overload", self.allow_overload, (True, False))
        given = [app.name for app in applications if app.rate_per_s is not None]
        if not isinstance(self.arrivals, Arrivals):
            raise ConfigError("scenario.arrivals", self.arrivals, "Arrivals")
        self._check_arrivals(given)
        if self.load is None and len(given) < len(applications) and not self._has_own_rate:
            raise ConfigError("scenario.load", None, "a load, or a rate for each application")
        if self.load is not None:
            check_positive("scenario.load", self.load)
            if given:
                raise ConfigError("scenario.load", self.load, "None where applications give rates")

    @property
    def is_closed_loop(self) -> bool:
        """Whether users wait for their flows, so that what arrives depends on the servers."""
        return self.arrivals.process.users is not None

    @property
    def _has_own_rate(self) -> bool:
        return self.is_closed_loop or self.arrivals.process.recording is not None

    def _check_arrivals(self, given: Sequence[str]) -> None:
        process = self.arrivals.process
        if self.is_closed_loop and self.load is not None:
            raise ConfigError("scenario.load", self.load, "None with users, who wait for answers")
        if given and self.is_closed_loop:
            raise ConfigError("application.rate_per_s", given[0], "None with users")
        if process.recording is not None:
            names = [app.name for app in self.applications]
            for name in sorted(set(process.recording.applications)):
                check_in("scenario.arrivals, application", name, names)
            if given and process.recording.applications:
                raise ConfigError("application.rate_per_s", given[0], "None: the recording says it")

    def check(self, pool: ServerPool) -> None:
        """Refuse what a pool cannot serve.

        Args:
            pool: The servers.

        Raises:
            ConfigError: They lack a resource that a stage needs, the load is above 1, or not every
                application is asked for at one virtual address, and some at each.
        """
        self._check_vips(pool)
        for app in self.applications:
            for stage in app.stages:
                check_in("stage.resource", stage.resource, pool.resources)
        offered = self.offered_load(pool)
        if offered > 1 and not self.allow_overload and not self.is_closed_loop:
            allowed = "at most 1, or more with allow_overload"
            raise ConfigError("scenario.load", round(offered, 6), allowed)

    def _check_vips(self, pool: ServerPool) -> None:
        names, asked = [app.name for app in self.applications], self._asked(pool)
        for name in (name for own in asked for name in own):
            check_in("vip.applications", name, names)
        for name in names:
            found = [vip.name for vip, own in zip(pool.vips, asked, strict=True) if name in own]
            if len(found) != 1:
                raise ConfigError("vip.applications", found, f"one virtual address for {name}")
        for vip, own in zip(pool.vips, asked, strict=True):
            if not own:
                allowed = f"at least one application for {vip.name}: other addresses have all"
                raise ConfigError("vip.applications", list(vip.applications), allowed)

    def _asked(self, pool: ServerPool) -> list[list[str]]:
        """Return the names of the applications that are asked for at each virtual address."""
        named = {name for vip in pool.vips for name in vip.applications}
        rest = [app.name for app in self.applications if app.name not in named]
        return [list(vip.applications) or rest for vip in pool.vips]

    def vips_asked(self, pool: ServerPool) -> tuple[int, ...]:
        """Return the number of the virtual address that each application is asked for at.

        Args:
            pool: The virtual addresses.
        """
        of = {name: vip for vip, names in enumerate(self._asked(pool)) for name in names}
        return tuple(of[app.name] for app in self.applications)

    def offered_load(self, pool: ServerPool) -> float:
        """Return the utilisation of the busiest resource that `rates_per_s` ask for.

        Where several virtual addresses share servers it is a lower bound: the busiest resource of
        all servers together, or of those of one address under its own applications.

        Args:
            pool: The servers.
        """
        if self.load is not None:
            return self.load
        rates = self.rates_per_s(pool)
        return sum(rates) * self._load_per_rate(pool, [rate / sum(rates) for rate in rates])

    def rates_per_s(self, pool: ServerPool) -> tuple[float, ...]:
        """Return the mean arrivals a second of each application.

        Of users, whose number depends on how soon they are answered, it is what they would send if
        none ever waited.

        Args:
            pool: The servers.
        """
        given = [app.rate_per_s for app in self.applications if app.rate_per_s is not None]
        if self.load is None and len(given) == len(self.applications):
            return tuple(given)
        shares = self._shares()
        process = self.arrivals.process
        if process.users is not None:
            cycle_s = 1e-9 * process.users.think.mean_ns + self._least_s(pool, shares)
            rate = process.users.count / cycle_s
        elif self.load is not None:
            rate = self.load / self._load_per_rate(pool, shares)
        else:
            assert process.recording is not None
            rate = process.recording.rate_per_s
        return tuple(rate * share for share in shares)

    def _shares(self) -> list[float]:
        recording = self.arrivals.process.recording
        if recording is not None and recording.applications:
            names = recording.applications
            return [names.count(app.name) / len(names) for app in self.applications]
        total = sum(app.share for app in self.applications)
        return [app.share / total for app in self.applications]

    def _least_s(self, pool: ServerPool, shares: Sequence[float]) -> float:
        """Return the mean service time on the fastest servers."""
        return sum(
            self._mean_s(name, shares) / max(group.resource(name).speed for group in pool.groups)
            for name in pool.resources
        )

    def _load_per_rate(self, pool: ServerPool, shares: Sequence[float]) -> float:
        loads = [self._mean_s(name, shares) / pool.capacity(name) for name in pool.resources]
        if len(pool.vips) > 1:
            asked = self.vips_asked(pool)
            for number, vip in enumerate(pool.vips):
                own = [share * (at == number) for share, at in zip(shares, asked, strict=True)]
                loads += [self._mean_s(n, own) / pool.capacity(n, vip) for n in pool.resources]
        return max(loads)

    def _mean_s(self, resource: str, shares: Sequence[float]) -> float:
        means_ns = [app.mean_ns(resource) for app in self.applications]
        return 1e-9 * sum(share * mean for share, mean in zip(shares, means_ns, strict=True))

    def to_dict(self) -> dict[str, object]:
        """Return the workload as plain data; `from_dict` reads it back."""
        return {
            "applications": [app.to_dict() for app in self.applications],
            "load": self.load,
            "allow_overload": self.allow_overload,
            "arrivals": self.arrivals.to_dict(),
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
        if "arrivals" in content:
            content["arrivals"] = Arrivals.of(content["arrivals"])
        return build(cls, content)
