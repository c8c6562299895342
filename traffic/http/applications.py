"""Applications: what a request asks of a server, the same in the emulation, the twin and HTTP.

An application is a description alone. The balancing twin draws its demands while it runs, an
emulated pool and `make_requests` send them to real servers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields

from dcgym.config import (
    check_int,
    check_keys,
    check_list,
    check_name,
    check_positive,
    check_range,
    check_text,
    read_numbers,
)
from dcgym.errors import ConfigError
from dcgym.registry import Registry
from dcgym.traffic.http.resources import check_resource_name
from dcgym.traffic.sizes.distributions import LONGEST_NS, Distribution, constant, exponential
from dcgym.traffic.sizes.read import read_distribution
from dcgym.units import NS_PER_S, format_size, parse_duration, parse_rate, parse_size

__all__ = [
    "APPLICATIONS",
    "MAX_BYTES",
    "MAX_STAGES",
    "STATIC_FILE_SIZES",
    "Application",
    "ApplicationKind",
    "Correlation",
    "Stage",
    "make_application",
]

MAX_STAGES = 8
MAX_BYTES = 2**30

STATIC_FILE_SIZES = ("100KB", "200KB", "500KB", "750KB", "1MB", "2MB", "5MB")
"""Sizes of the files of Yao's thesis (section 3.2), each asked for equally often."""

_PAGE_BYTES = 12_288
# Mean reply of the thesis' loop: 36 kB for 1.4 s of CPU time, 3.6 kB for 140 ms.
_LOOP_BYTES = 3_600

Options = Mapping[str, object]


@dataclass(frozen=True)
class Correlation:
    """Demands that are alike for a while, as under a slow page or a long query of the day.

    The normal scores of two demands of a stage whose requests arrive s apart have the correlation
    ``share * exp(-s / time)``; for lognormal demands that is the one of their logarithms. (A
    stationary Gaussian process, the same for all requests, and a part of each request's own.) The
    distribution of the demands stays as it is.

    Attributes:
        share: Part of the variance of the scores that the process makes, above 0, at most 1.
        time_ns: Time after which the correlation has fallen to 1/e of that.
    """

    share: float
    time_ns: int

    def __post_init__(self) -> None:
        """Check the fields."""
        read_numbers(self)
        check_range("correlation.share", check_positive("correlation.share", self.share), 0, 1)
        check_int("correlation.time_ns", self.time_ns, 1, LONGEST_NS)

    @classmethod
    def from_dict(cls, data: object) -> Correlation:
        """Build a correlation from plain data.

        Args:
            data: ``share``, and ``time_ns`` or ``time`` ("2s").

        Raises:
            ConfigError: A field is unknown, missing or wrong.
        """
        if isinstance(data, Correlation):
            return data
        if not isinstance(data, Mapping):
            raise ConfigError("correlation", data, "a mapping of share and time")
        check_keys(data, ("share", "time", "time_ns"), "correlation")
        time_ns = data.get("time_ns")
        if "time" in data:
            time_ns = parse_duration(data["time"], "correlation.time")
        # The constructor checks what the types promise.
        return cls(data.get("share"), time_ns)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Stage:
    """One stage of a request's processing.

    Attributes:
        resource: Name of what it occupies; the servers that are asked must have it.
        time: Time on a processor (or device) of speed 1 that is not shared.
        correlation: How alike the times of successive requests are; None: independent.
    """

    resource: str
    time: Distribution
    correlation: Correlation | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        check_resource_name("stage.resource", self.resource)
        if not isinstance(self.time, Distribution):
            raise ConfigError("stage.time", self.time, "a Distribution")
        if self.correlation is not None and not isinstance(self.correlation, Correlation):
            raise ConfigError("stage.correlation", self.correlation, "a Correlation, or None")

    def to_dict(self) -> dict[str, object]:
        """Return the stage as plain data."""
        data: dict[str, object] = {"resource": self.resource, "time": self.time.to_dict()}
        return (
            data if self.correlation is None else data | {"correlation": asdict(self.correlation)}
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Stage:
        """Build a stage from plain data.

        Args:
            data: ``resource`` ("cpu" if not given), ``time`` as `read_distribution` takes it, and
                ``correlation`` perhaps.

        Raises:
            ConfigError: A field is unknown or wrong.
        """
        check_keys(data, ("resource", "time", "correlation"), "stage")
        time = read_distribution(data.get("time", {}), "stage.time")
        named = data.get("resource", "cpu")
        resource = check_text("stage.resource", named, "the name of a resource")
        given = data.get("correlation")
        return cls(resource, time, None if given is None else Correlation.from_dict(given))


@dataclass(frozen=True)
class Application:
    """A kind of request.

    Attributes:
        name: Name, unique among those that are offered together.
        stages: Stages in order, such as CPU, or CPU-I/O, or CPU-I/O-CPU.
        rate_per_s: Arrivals a second, on average; None where a load is given for all.
        share: Part of all arrivals, relative to the other applications'.
        response_bytes: Body of the answer; the twin, whose links have no rate, ignores it.
    """

    name: str
    stages: tuple[Stage, ...]
    rate_per_s: float | None = None
    share: float = 1.0
    response_bytes: int = 1024

    def __post_init__(self) -> None:
        """Freeze the stages and check the fields."""
        read_numbers(self)
        check_name("application.name", self.name)
        object.__setattr__(self, "stages", tuple(self.stages))
        if not 1 <= len(self.stages) <= MAX_STAGES:
            raise ConfigError("application.stages", len(self.stages), f"1 to {MAX_STAGES} stages")
        for stage in self.stages:
            if not isinstance(stage, Stage):
                raise ConfigError("application.stages", stage, "Stage objects")
        if self.rate_per_s is not None:
            check_positive("application.rate_per_s", self.rate_per_s)
            check_range("application.rate_per_s", self.rate_per_s, 0, 1e8)
        check_positive("application.share", self.share)
        check_int("application.response_bytes", self.response_bytes, 0, MAX_BYTES)

    @property
    def resources(self) -> tuple[str, ...]:
        """What each stage occupies, in order."""
        return tuple(stage.resource for stage in self.stages)

    def mean_ns(self, resource: str) -> int:
        """Return the mean demand of a request on a resource, at speed 1.

        Args:
            resource: Its name.
        """
        return sum(stage.time.mean_ns for stage in self.stages if stage.resource == resource)

    def to_dict(self) -> dict[str, object]:
        """Return the application as plain data."""
        return asdict(self) | {"stages": [stage.to_dict() for stage in self.stages]}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Application:
        """Build an application from plain data.

        Args:
            data: The fields; ``stages`` is a list of what `Stage.from_dict` takes.

        Raises:
            ConfigError: A field is unknown, missing or wrong.
        """
        check_keys(data, [field.name for field in fields(cls)], "application")
        rows = check_list("application.stages", data.get("stages"), "a list")
        stages = tuple(Stage.from_dict(row) for row in rows)
        # The constructor checks what the types promise.
        return cls(**{"name": None, **data, "stages": stages})  # type: ignore[arg-type]


@dataclass(frozen=True)
class ApplicationKind:
    """What the name of an application stands for.

    Attributes:
        options: Names of its options.
        make: Makes the applications that requests of this name are a mix of, from the options
            and from what precedes their names in error messages.
    """

    options: tuple[str, ...]
    make: Callable[[Options, str], tuple[Application, ...]]


APPLICATIONS: Registry[ApplicationKind] = Registry("applications", "application")
"""Applications by name: what each means in the emulation, in the twin and as HTTP requests."""


def make_application(
    name: object, options: Options | None = None, where: str = "application"
) -> tuple[Application, ...]:
    """Return the applications that a name stands for, each with its share of the requests.

    Args:
        name: A name of `APPLICATIONS`.
        options: Options of that application; None for none.
        where: What precedes the names of the options in error messages.

    Raises:
        ConfigError: No such application, or an option is not allowed.
    """
    kind = APPLICATIONS.find(name, f"{where}.name")
    check_keys(options or {}, kind.options, where)
    return kind.make(options or {}, where)


def _for_loop(options: Options, where: str) -> tuple[Application, ...]:
    time = _time(options, "cpu", exponential("140ms"), where)
    return (Application("for-loop", (Stage("cpu", time),), response_bytes=_LOOP_BYTES),)


def _wiki(options: Options, where: str) -> tuple[Application, ...]:
    """Return pages and static content.

    The trace's split into pages and files is not published: a quarter of pages of 96 ms makes the
    published rates (650 to 800 requests a second on the small testbed, 2023 to 2071 on the large
    one) a load of 73 to 90 % and of 83 to 85 %.
    """
    share = check_range(f"{where}.static_share", options.get("static_share", 0.75), 0, 1)
    page = (Stage("cpu", _time(options, "cpu", exponential("96ms"), where)),)
    static = (
        Stage("cpu", constant("1ms")),
        Stage("io", _time(options, "io", exponential("4ms"), where)),
    )
    parts = (("page", page, 1 - share), ("static", static, share))
    return tuple(
        Application(name, stages, share=part, response_bytes=_PAGE_BYTES)
        for name, stages, part in parts
        if part > 0
    )


def _files(_options: Options, _where: str) -> tuple[Application, ...]:
    stages = (Stage("cpu", constant("2ms")), Stage("io", exponential("20ms")))
    return (Application("files", stages, response_bytes=200_000),)


def _static_files(options: Options, where: str) -> tuple[Application, ...]:
    """Return files of a few sizes, each read from the device at its rate."""
    sizes = check_list(f"{where}.sizes", options.get("sizes", STATIC_FILE_SIZES), "a list of sizes")
    if not sizes:
        raise ConfigError(f"{where}.sizes", sizes, "a list of sizes")
    rate_bps = parse_rate(options.get("io_rate", "2Gbit"), f"{where}.io_rate")
    applications = []
    for size in sizes:
        size_bytes = check_int(f"{where}.sizes", parse_size(size, f"{where}.sizes"), 1, MAX_BYTES)
        time = Distribution("constant", -(-size_bytes * 8 * NS_PER_S // rate_bps))
        name = f"file-{format_size(size_bytes)}"
        applications.append(Application(name, (Stage("io", time),), response_bytes=size_bytes))
    return tuple(applications)


def _time(options: Options, key: str, default: Distribution, where: str) -> Distribution:
    return read_distribution(options.get(key, default), f"{where}.{key}")


APPLICATIONS.add(
    "for-loop", ApplicationKind(("cpu",), _for_loop), "a script that counts: 140 ms of CPU time"
)
APPLICATIONS.add(
    "wiki",
    ApplicationKind(("static_share", "cpu", "io"), _wiki),
    "pages (CPU) and three times as many static files (I/O), 12 KiB each",
)
APPLICATIONS.add("files", ApplicationKind((), _files), "files of 200 KB: 20 ms of I/O")
APPLICATIONS.add(
    "static-files",
    ApplicationKind(("sizes", "io_rate"), _static_files),
    "files of 100 KB to 5 MB, read at the device's rate",
)
