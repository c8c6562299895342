"""Plans of HTTP requests: columns, the same for every policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.config import check_in, check_int, check_name
from dcgym.errors import ConfigError
from dcgym.native.tables import names_of
from dcgym.traffic.http.applications import MAX_BYTES, MAX_STAGES
from dcgym.traffic.http.resources import check_resource_name
from dcgym.traffic.http.servers import check_address
from dcgym.traffic.sizes.distributions import LONGEST_NS

__all__ = [
    "MAX_DATAGRAM_BYTES",
    "REQUEST_DTYPE",
    "TIMEOUT_NS",
    "TRANSPORTS",
    "RequestKind",
    "RequestPlan",
]

TIMEOUT_NS = 60 * 10**9
TRANSPORTS = names_of("transports")
MAX_DATAGRAM_BYTES = 60_000
"""Of an answer's body over UDP; with its header it is one datagram."""

REQUEST_DTYPE = np.dtype(
    [
        ("start_ns", "<i8"),
        ("client", "<u4"),
        ("target", "<u4"),
        ("application", "<u4"),
        ("bytes", "<i8"),
    ]
)
"""One request: its start from the origin of the plan, then numbers of its client, target and
application in the plan's lists, and the length of the response's body."""

_LARGEST = 2**60
_LARGEST_SEED = 2**63 - 1
_PATH_REFUSED = set("?#")

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RequestKind:
    """An application: what all its requests have in common.

    Attributes:
        name: Name, unique in the plan.
        resources: Name of what each stage occupies, in order. A server that has none of this name
            answers with status 400.
        path: Path of the URL. dcgym's own servers answer ``/work``; other servers get the stages
            as a query that they ignore.
    """

    name: str
    resources: tuple[str, ...] = ("cpu",)
    path: str = "/work"

    def __post_init__(self) -> None:
        """Check the fields."""
        check_name("application.name", self.name)
        object.__setattr__(self, "resources", tuple(self.resources))
        if len(self.resources) > MAX_STAGES:
            allowed = f"at most {MAX_STAGES} stages"
            raise ConfigError("application.resources", len(self.resources), allowed)
        for resource in self.resources:
            check_resource_name("application.resources", resource)
        path = self.path
        is_plain = isinstance(path, str) and all("!" <= c <= "~" for c in path)
        if not is_plain or not path.startswith("/") or _PATH_REFUSED & set(path):
            allowed = "a path such as /work, without spaces and query"
            raise ConfigError("application.path", path, allowed)


class RequestPlan:
    """Requests that clients send at planned times, each on a connection of its own.

    Attributes:
        name: What to call it in results.
        seed: The seed it was drawn with.
        clients: Names of the hosts that send.
        targets: Address and port of what is asked, such as a balancer's virtual address.
        applications: The kinds of requests.
        requests: The requests, of `REQUEST_DTYPE`; read-only.
        demands_ns: Time that each stage takes on a processor (or device) of speed 1 that is not
            shared; shape (n, most stages), 0 beyond the stages of an application; read-only.
        timeout_ns: How long a request may take before its client gives up; 0 for ever.
        transport: "tcp", or "udp": a request is one datagram, and so is its answer.
    """

    def __init__(
        self,
        name: str,
        seed: int,
        clients: Sequence[str],
        targets: Sequence[tuple[str, int]],
        applications: Sequence[RequestKind],
        requests: npt.NDArray[np.void],
        demands_ns: npt.ArrayLike,
        timeout_ns: int = TIMEOUT_NS,
        transport: str = "tcp",
    ) -> None:
        """Gather columns, which are copied.

        Raises:
            ConfigError: A value is not allowed; the first such row is named.
        """
        self.name = check_name("plan.name", name)
        self.seed = check_int("plan.seed", seed, 0, _LARGEST_SEED)
        self.clients = tuple(clients)
        self.targets = tuple(
            (check_address("plan.targets", ip), check_int("plan.targets, port", port, 1, 65_535))
            for ip, port in targets
        )
        self.applications = tuple(applications)
        names = [kind.name for kind in self.applications]
        for kind_name in names:
            if names.count(kind_name) > 1:
                raise ConfigError("plan.applications", kind_name, "names that differ")
        self.requests = np.array(requests, REQUEST_DTYPE)
        demands = np.array(demands_ns, np.int64)
        # Without requests, -1 could be anything.
        width = -1 if demands.size else demands.shape[-1]
        self.demands_ns: IntArray = demands.reshape(len(self.requests), width)
        self.timeout_ns = int(check_int("plan.timeout_ns", timeout_ns, 0, _LARGEST))
        self.transport = check_in("plan.transport", transport, TRANSPORTS)
        self._check_columns()
        self._check_demands()
        self.requests.flags.writeable = self.demands_ns.flags.writeable = False

    def _check_columns(self) -> None:
        most_bytes = MAX_DATAGRAM_BYTES if self.transport == "udp" else MAX_BYTES
        limits = {
            "start_ns": (_LARGEST, f"a whole number from 0 to {_LARGEST}"),
            "client": (len(self.clients) - 1, f"below {len(self.clients)}"),
            "target": (len(self.targets) - 1, f"below {len(self.targets)}"),
            "application": (len(self.applications) - 1, f"below {len(self.applications)}"),
            "bytes": (most_bytes, f"a whole number from 0 to {most_bytes}"),
        }
        for field, (most, allowed) in limits.items():
            column = self.requests[field].astype(np.int64)
            _refuse((column < 0) | (column > most), column, field, allowed)

    def _check_demands(self) -> None:
        if self.demands_ns.shape[1] > MAX_STAGES:
            allowed = f"at most {MAX_STAGES} columns"
            raise ConfigError("plan.demands_ns", self.demands_ns.shape, allowed)
        most = max((len(kind.resources) for kind in self.applications), default=0)
        if self.demands_ns.shape[1] < most and len(self):
            allowed = f"a column for each of {most} stages"
            raise ConfigError("plan.demands_ns", self.demands_ns.shape, allowed)
        for stage in range(self.demands_ns.shape[1]):
            column = self.demands_ns[:, stage]
            wrong = (column < 0) | (column > LONGEST_NS)
            _refuse(wrong, column, f"demands_ns[{stage}]", f"0 to {LONGEST_NS}")
            unused = self.stage_counts() <= stage
            allowed = "0, because the application has fewer stages"
            _refuse(unused & (column != 0), column, f"demands_ns[{stage}]", allowed)

    def stage_counts(self) -> IntArray:
        """Return the number of stages of each request; shape (n,)."""
        counts = np.array([len(kind.resources) for kind in self.applications], np.int64)
        return counts[self.requests["application"]] if len(self) else np.empty(0, np.int64)

    @property
    def resources(self) -> tuple[str, ...]:
        """Names of what the stages occupy, each once, in the order of the applications."""
        names = (name for kind in self.applications for name in kind.resources)
        return tuple(dict.fromkeys(names))

    def demand_ns(self, resource: str) -> IntArray:
        """Return what each request asks of a resource, 0 for one that it does not use; shape (n,).

        Args:
            resource: Its name.
        """
        used = np.zeros((max(len(self.applications), 1), self.demands_ns.shape[1]), np.int64)
        for number, kind in enumerate(self.applications):
            for stage, name in enumerate(kind.resources):
                used[number, stage] = name == resource
        sums: IntArray = (self.demands_ns * used[self.requests["application"]]).sum(axis=1)
        return sums

    def __len__(self) -> int:
        """Return the number of requests."""
        return len(self.requests)

    def __eq__(self, other: object) -> bool:
        """Compare everything, row by row."""
        if not isinstance(other, RequestPlan):
            return NotImplemented
        names = ("name", "seed", "clients", "targets", "applications", "timeout_ns", "transport")
        return (
            all(getattr(self, name) == getattr(other, name) for name in names)
            and np.array_equal(self.requests, other.requests)
            and np.array_equal(self.demands_ns, other.demands_ns)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Name the plan and its size."""
        return f"RequestPlan({self.name!r}, seed={self.seed}, {len(self)} requests)"


def _refuse(wrong: npt.NDArray[np.bool_], column: IntArray, field: str, allowed: str) -> None:
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ConfigError(f"plan.requests[{row}], {field}", int(column[row]), allowed)
