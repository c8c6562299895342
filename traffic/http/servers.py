"""HTTP servers of the native generator: what they are, and the memory that shows their state."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from ipaddress import ip_address

import numpy as np
import numpy.typing as npt

from dcgym.config import check_in, check_int, check_keys, check_list, read_arguments, read_numbers
from dcgym.errors import ConfigError
from dcgym.native.sequence_lock import read_whole
from dcgym.traffic.http.resources import DEFAULT_RESOURCES, Resource, check_resources

__all__ = [
    "CPUS",
    "SERVER_DTYPE",
    "HttpServer",
    "ServerRows",
    "check_address",
    "rows_bytes",
    "server_lines",
]

CPUS = ("timed", "burnt")

SERVER_DTYPE = np.dtype(
    [
        ("busy", "<u4"),
        ("waiting", "<u4"),
        ("later", "<u4"),
        ("workers_busy", "<u2"),
        ("workers", "<u2"),
        ("sequence", "<u8"),
        ("accepted", "<u8"),
        ("completed", "<u8"),
        ("rejected", "<u8"),
        ("heartbeat_ns", "<u8"),
        ("mean_service_ns", "<u8"),
        ("busy_ns", "<u8"),
    ]
)
"""A server's state (`dcgym_http_server` of dcgym/native/include/http.h): flows at the server, of
these waiting for the first resource and at later ones, workers of the first in use and in all;
then, since the start, connections accepted, requests completed, connections and requests rejected;
when it was written (CLOCK_MONOTONIC, 0 while the server is down), the exponentially weighted time
from the begin of service to its end, and the workers in use, summed over the time until it was
written."""

_LONGEST_IDLE_NS = 86_400 * 10**9


@dataclass(frozen=True)
class HttpServer:
    """A server that answers ``GET /work?cpu_us=..&io_us=..&bytes=..``, a key for each resource.

    Attributes:
        host: Name of the host it runs on.
        resources: What it has, as the servers of a scenario. Speed and co-located load are about
            the first one, as is the backlog.
        cpu: "timed" passes the time of a request at the first resource, which costs next to
            nothing; "burnt" uses it up on as many real threads as the resource has workers, which
            the machine must have processors for. Time at the others always passes.
        backlog: Requests that may wait for the first resource; one more is reset.
        idle_timeout_ns: Time within which a request must be whole, the next one of a connection
            begin, and an answer be taken. An idle connection is closed then, another one reset.
        address: IPv4 or IPv6 address; empty for every address of the host's namespace.
        port: TCP port.
    """

    host: str
    resources: tuple[Resource, ...] = DEFAULT_RESOURCES
    cpu: str = "timed"
    backlog: int = 128
    idle_timeout_ns: int = 60 * 10**9
    address: str = ""
    port: int = 8000

    def __post_init__(self) -> None:
        """Check the fields."""
        read_numbers(self)
        if not isinstance(self.host, str) or not self.host:
            raise ConfigError("server.host", self.host, "the name of a host")
        resources = check_resources("server.resources", self.resources)
        object.__setattr__(self, "resources", resources)
        check_in("server.cpu", self.cpu, CPUS)
        check_int("server.backlog", self.backlog, 0, 1_000_000)
        check_int("server.idle_timeout_ns", self.idle_timeout_ns, 1, _LONGEST_IDLE_NS)
        if self.address:
            check_address("server.address", self.address)
        check_int("server.port", self.port, 1, 65_535)

    def to_dict(self) -> dict[str, object]:
        """Return the server as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> HttpServer:
        """Build a server from plain data.

        Args:
            data: The fields.

        Raises:
            ConfigError: A field is unknown or wrong.
        """
        check_keys(data, [field.name for field in fields(cls)], "server")
        content = {"host": "", **data}
        if "resources" in data:
            rows = check_list("server.resources", data["resources"], "a list")
            content["resources"] = tuple(map(Resource.from_dict, rows))
        return cls(**read_arguments(cls, content))


def check_address(field: str, value: object) -> str:
    """Return the text if it is an IPv4 or IPv6 address, else raise ConfigError.

    Args:
        field: Name of the field in the error.
        value: What was written.
    """
    try:
        if not isinstance(value, str):
            raise ValueError
        ip_address(value)
    except ValueError:
        raise ConfigError(field, value, "an IPv4 or IPv6 address") from None
    return value


def server_lines(servers: Sequence[HttpServer], hosts: Sequence[str]) -> str:
    """Return the servers as the generator reads them from its control socket.

    Args:
        servers: The servers.
        hosts: Names of the generator's hosts, in its order.

    Raises:
        ConfigError: A server's host is none of these, or two servers have one address and port.
    """
    lines = [str(len(servers))]
    taken: set[tuple[str, str, int]] = set()
    for number, server in enumerate(servers):
        if server.host not in hosts:
            raise ConfigError(f"servers[{number}].host", server.host, list(hosts))
        place = (server.host, server.address, server.port)
        if place in taken:
            allowed = f"a port that no earlier server of {server.host} has"
            raise ConfigError(f"servers[{number}].port", server.port, allowed)
        taken.add(place)
        words = (
            hosts.index(server.host),
            server.address or "*",
            server.port,
            CPUS.index(server.cpu),
            server.backlog,
            server.idle_timeout_ns,
            len(server.resources),
        )
        lines.append(" ".join(map(str, words)))
        lines += map(_resource_line, server.resources)
    return "\n".join(lines)


def _resource_line(one: Resource) -> str:
    """Return a resource as the generator reads it; 0 is no limit."""
    words = (one.name, one.workers, one.slots_in_service, float(one.speed), one.limit or 0)
    return " ".join(map(str, words))


def rows_bytes(n_servers: int) -> int:
    """Return the size of the servers' rows in whole pages, which a BPF map is mapped in.

    Args:
        n_servers: Number of servers.
    """
    return -(-n_servers * SERVER_DTYPE.itemsize // mmap.PAGESIZE) * mmap.PAGESIZE


class ServerRows:
    """Reads the state of the servers, from any process that holds the descriptor."""

    def __init__(self, fd: int, n_servers: int) -> None:
        """Map the rows.

        Args:
            fd: A memory file, or a BPF array map made with BPF_F_MMAPABLE, with a row a value.
            n_servers: Number of rows.
        """
        self._map = mmap.mmap(fd, rows_bytes(n_servers), prot=mmap.PROT_READ)
        self._rows = np.frombuffer(self._map, SERVER_DTYPE, n_servers)

    def read(self) -> npt.NDArray[np.void]:
        """Return a copy of the rows, each whole by itself.

        Raises:
            BackendError: The generator died while it was writing.
        """
        copy = np.empty(len(self._rows), SERVER_DTYPE)
        torn = np.ones(len(copy), bool)

        def copy_torn() -> npt.NDArray[np.void] | None:
            before = self._rows["sequence"].copy()
            copy[torn] = self._rows[torn]
            torn[:] &= (before % 2 == 1) | (self._rows["sequence"] != before)
            return None if torn.any() else copy

        return read_whole(
            copy_torn, "the traffic generator died while it was writing a server's state"
        )

    def close(self) -> None:
        """Release the mapping; copies stay valid."""
        self._rows = np.empty(0, SERVER_DTYPE)
        self._map.close()
