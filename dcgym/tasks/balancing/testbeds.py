"""The testbeds of Yao's thesis as scenarios that both backends run (sections 6.4, 7.5 and 7.6)."""

from __future__ import annotations

from collections.abc import Callable

from dcgym.config import check_in
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.data_plane import DataPlane
from dcgym.tasks.balancing.pool import ServerPool
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.tasks.balancing.servers import ServerGroup, server_group
from dcgym.tasks.balancing.workload import Workload
from dcgym.traffic.http import Application, make_application
from dcgym.traffic.sizes import Distribution

__all__ = ["testbed_7", "testbed_20"]

_APPLICATIONS = ("for-loop", "wiki", "files")
# Clients of web servers send nothing while they wait: a duration is sampled at its end.
_DATA_PLANE = DataPlane(latency_ns=(20_000, 60_000), packet_interval_ns=0, half_open_limit=0)
_BACKLOG = 128


def _testbed(
    name: str, groups: tuple[ServerGroup, ...], default: str, default_balancers: int
) -> Callable[..., Scenario]:
    def build(
        load: float = 0.85,
        application: str = default,
        balancers: int = default_balancers,
        service: Distribution | None = None,
        allow_overload: bool = False,
    ) -> Scenario:
        """Return the testbed; its defaults are the published ones.

        Args:
            load: Utilisation of the busiest resource.
            application: "for-loop", a script that counts (140 ms of CPU); "wiki", pages of 12 KiB
                (96 ms of CPU) and three times as many static files (I/O); "files", files of 200 KB.
            balancers: Number of balancers.
            service: CPU time of the for-loop; exponential with a mean of 140 ms if None.
            allow_overload: Accept a load above 1.
        """
        return Scenario(
            name,
            ServerPool(groups, balancers, _BACKLOG),
            Workload(_applications(application, service), load, allow_overload),
            _DATA_PLANE,
        )

    return build


testbed_7 = _testbed(
    "testbed-7",
    (server_group("weak", 3, workers=2), server_group("strong", 4, workers=4)),
    default="for-loop",
    default_balancers=2,
)
"""The small testbed: 3 servers of 2 and 4 of 4 processors; the wiki is 755 requests a second."""

testbed_20 = _testbed(
    "testbed-20",
    (server_group("weak", 10, workers=2), server_group("strong", 10, workers=4)),
    default="wiki",
    default_balancers=6,
)
"""The large testbed: 10 servers of 2 and 10 of 4 processors, 2060 requests a second."""


def _applications(name: str, service: Distribution | None) -> tuple[Application, ...]:
    check_in("application", name, _APPLICATIONS)
    if service is None:
        return make_application(name)
    if name != "for-loop":
        raise ConfigError("service", service, "None, except for the application for-loop")
    return make_application(name, {"cpu": service})
