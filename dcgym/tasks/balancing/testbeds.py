"""The testbeds of Yao's thesis as scenarios that both backends run (sections 6.4, 7.5 and 7.6)."""

from __future__ import annotations

from dcgym.config import check_in
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.distributions import Distribution, constant, exponential
from dcgym.tasks.balancing.parts import Application, ServerGroup, Stage
from dcgym.tasks.balancing.scenario import Scenario

__all__ = ["testbed_7", "testbed_20"]

_APPLICATIONS = ("for-loop", "wiki", "files")
_LATENCY_NS = (20_000, 60_000)


def testbed_7(
    load: float = 0.85,
    application: str = "for-loop",
    balancers: int = 2,
    service: Distribution | None = None,
    allow_overload: bool = False,
) -> Scenario:
    """Return the small testbed: 3 servers of 2 and 4 of 4 processors, backlog 128.

    Both backends run it. The clients send nothing while they wait for an answer, as clients of web
    servers do: balancers sample a flow's duration at its end.

    Args:
        load: Utilisation of the busier resource.
        application: "for-loop", a script that counts (140 ms of CPU); "wiki", pages of 12 KiB
            (96 ms of CPU) and three times as many static files (I/O), 755 a second together at the
            default load; "files", files of 200 KB.
        balancers: Number of balancers.
        service: CPU time of the for-loop; exponential with a mean of 140 ms if None.
        allow_overload: Accept a load above 1.
    """
    groups = (ServerGroup("weak", 3, workers=2), ServerGroup("strong", 4, workers=4))
    return _testbed(
        "testbed-7",
        groups,
        _applications(application, service),
        balancers,
        load,
        allow_overload,
    )


def testbed_20(
    load: float = 0.85,
    application: str = "wiki",
    balancers: int = 6,
    service: Distribution | None = None,
    allow_overload: bool = False,
) -> Scenario:
    """Return the large testbed: 10 servers of 2, 10 of 4 processors, 2060 requests a second.

    Args:
        load: Utilisation of the busier resource.
        application: As in `testbed_7`.
        balancers: Number of balancers.
        service: CPU time of the for-loop; exponential with a mean of 140 ms if None.
        allow_overload: Accept a load above 1.
    """
    groups = (ServerGroup("weak", 10, workers=2), ServerGroup("strong", 10, workers=4))
    return _testbed(
        "testbed-20",
        groups,
        _applications(application, service),
        balancers,
        load,
        allow_overload,
    )


def _testbed(
    name: str,
    groups: tuple[ServerGroup, ...],
    applications: tuple[Application, ...],
    balancers: int,
    load: float,
    allow_overload: bool,
) -> Scenario:
    return Scenario(
        name=name,
        groups=groups,
        applications=applications,
        balancers=balancers,
        load=load,
        allow_overload=allow_overload,
        backlog=128,
        latency_ns=_LATENCY_NS,
        packet_interval_ns=0,
    )


def _applications(name: str, service: Distribution | None) -> tuple[Application, ...]:
    """Return the traffic of Yao's thesis, section 6.4: sizes as published, times scaled to it.

    The trace's split into pages and files is not published: a quarter of pages of 96 ms makes the
    published rates (650 to 800 requests a second here, 2023 to 2071 on the large testbed) a load of
    73 to 90 % and of 83 to 85 %.
    """
    check_in("application", name, _APPLICATIONS)
    if service is not None and name != "for-loop":
        raise ConfigError("service", service, "None, except for the application for-loop")
    if name == "for-loop":
        time = service or exponential("140ms")
        return (Application("for-loop", (Stage("cpu", time),), response_bytes=3_600),)
    if name == "files":
        stages = (Stage("cpu", constant("2ms")), Stage("io", exponential("20ms")))
        return (Application("files", stages, response_bytes=200_000),)
    page = (Stage("cpu", exponential("96ms")),)
    static = (Stage("cpu", constant("1ms")), Stage("io", exponential("4ms")))
    return (
        Application("page", page, share=0.25, response_bytes=12_288),
        Application("static", static, share=0.75, response_bytes=12_288),
    )
