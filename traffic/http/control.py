"""The owner's side of the generator's HTTP servers and clients."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence

from dcgym.config import check_in, check_int, check_positive, check_range
from dcgym.errors import ConfigError, FeatureNotSupported
from dcgym.traffic.http.plan import RequestPlan
from dcgym.traffic.http.results import RequestResults
from dcgym.traffic.http.servers import HttpServer, ServerRows, rows_bytes, server_lines

__all__ = ["HttpControl"]

_CHANGES = ("drain", "kill", "restart", "reset")
# As the events of these names.
_FAULTS = ("fail-fast", "gray-failure", "false-reports")
_MOST_SPEED = 1e6
_MOST_COLOCATED = 1024
_LARGEST_TIME_NS = 2**60


class HttpControl(ABC):
    """The part of `generator.Generator` that is about HTTP."""

    _names: tuple[str, ...]

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._server_rows: ServerRows | None = None
        self._n_servers = 0

    @abstractmethod
    def _request(self, message: str, *fds: int) -> str:
        """Send a request with descriptors to the generator and return its reply."""

    def serve(self, servers: Sequence[HttpServer], rows_fd: int | None = None) -> ServerRows | None:
        """Open HTTP servers in the place of those there were; server numbers count from 0.

        Args:
            servers: The servers; none closes all.
            rows_fd: Where they show their state: a memory file of `http_server.rows_bytes`, or a
                BPF array map made with BPF_F_MMAPABLE, with a row a value. None for
                memory of their own.

        Returns:
            The state of the servers; None without any.

        Raises:
            BackendError: The generator could not open a server, or does not answer.
            ConfigError: A server's host is not the generator's, or a port is taken twice.
            FeatureNotSupported: This kind of generator has no servers.
        """
        self._require_native()
        message = f"servers {server_lines(servers, self._names)}"
        self._close_rows()
        fd = os.dup(rows_fd) if rows_fd is not None else _rows_file(len(servers))
        try:
            self._request(message, fd)
            self._n_servers = len(servers)
            self._server_rows = ServerRows(fd, len(servers)) if servers else None
        finally:
            os.close(fd)
        return self._server_rows

    def change_server(self, number: int, change: str, at_ns: int = 0) -> None:
        """Change the state of a server.

        Args:
            number: The server.
            change: "drain" takes no more connections and finishes the requests there are; "kill"
                resets all connections; "restart" resets them and begins anew; "reset" begins anew
                without a packet, at the first speed, without co-located load and with zero counts,
                and forgets changes that were to come.
            at_ns: When (CLOCK_MONOTONIC); 0 for now.
        """
        check_in("change", change, _CHANGES)
        if change == "reset":
            check_int("at_ns", at_ns, 0, 0)
        self._change(number, change, at_ns)

    def set_server(
        self,
        number: int,
        *,
        speed: float | None = None,
        colocated: float | None = None,
        at_ns: int = 0,
    ) -> None:
        """Change the capacity of a server for what it serves from then on.

        Args:
            number: The server.
            speed: Its processors run at this times their first speed.
            colocated: So many CPU-bound processes share its processors with the requests; a server
                with burnt CPU takes whole numbers, others are rounded.
            at_ns: When (CLOCK_MONOTONIC); 0 for now.
        """
        if speed is not None:
            speed = check_range("speed", check_positive("speed", speed), 0, _MOST_SPEED)
            self._change(number, f"speed {float(speed)}", at_ns)
        if colocated is not None:
            colocated = check_range("colocated", colocated, 0, _MOST_COLOCATED)
            self._change(number, f"colocated {float(colocated)}", at_ns)

    def set_fault(self, number: int, fault: str, value: float, at_ns: int = 0) -> None:
        """Let a server do something wrong, until "reset".

        Args:
            number: The server.
            fault: "fail-fast" answers a share of the requests with status 503 at once;
                "gray-failure" makes a share of them ten times the work; "false-reports" multiplies
                the load that probes find.
            value: The share, 0 to 1, or the factor.
            at_ns: When (CLOCK_MONOTONIC); 0 for now.
        """
        check_in("fault", fault, _FAULTS)
        value = check_range("value", value, 0, _MOST_SPEED if fault == "false-reports" else 1.0)
        self._change(number, f"{fault} {float(value)}", at_ns)

    def set_messages(
        self,
        balancers: Sequence[str],
        *,
        members: Sequence[Sequence[int]] | None = None,
        loss: float = 0.0,
        copies: float = 0.0,
        delay_ns: tuple[int, int] = (0, 0),
    ) -> None:
        """Let the servers answer probes, and tell balancers when they are idle.

        Args:
            balancers: IPv4 addresses of the balancers; none ends it.
            members: Numbers of the servers that answer each virtual address; None for one that all
                of them answer.
            loss: Share of the messages that the servers lose, each way.
            copies: Share of the answers that they send twice.
            delay_ns: Bounds of the uniform time that they hold a message, each way.
        """
        loss = check_range("loss", loss, 0.0, 1.0)
        copies = check_range("copies", copies, 0.0, 1.0)
        low, high = delay_ns
        low = check_int("delay_ns", low, 0)
        high = check_int("delay_ns", high, low, _LARGEST_TIME_NS)
        self._require_native()
        rows = [range(self._n_servers)] if members is None else members
        words = [loss, copies, low, high, len(rows)]
        words += [word for row in rows for word in (len(row), *row)]
        self._request(" ".join(["messages", *map(str, words), *balancers]))

    def set_listeners(self, frontends: Sequence[int]) -> None:
        """Say with which front ends idle servers register: each with those of its addresses.

        Args:
            frontends: Numbers of front ends: each virtual address at each balancer, balancer by
                balancer, in the order of `set_messages`.
        """
        self._request(" ".join(["listeners", *map(str, frontends)]))

    def load_requests(self, plan: RequestPlan) -> RequestResults:
        """Replace the plan of HTTP requests; what still ran is cut.

        Args:
            plan: The requests.

        Returns:
            What becomes of the requests; the caller closes it.

        Raises:
            BackendError: The generator refused the plan, or does not answer.
            ConfigError: The plan names a host that the generator does not have.
            FeatureNotSupported: This kind of generator has no HTTP clients.
        """
        results = RequestResults(plan, self._names)
        try:
            self.load_request_file(results.fd, results.request)
        except BaseException:
            results.close()
            raise
        return results

    def load_request_file(self, fd: int, request: str) -> None:
        """Replace the plan of requests by the one of a `RequestResults`: its fd and request.

        Args:
            fd: Memory file of the plan.
            request: The message that goes with it.
        """
        self._require_native()
        self._request(request, fd)

    def _require_native(self) -> None:
        if self._kind != "native":
            raise FeatureNotSupported(f"HTTP with {self._kind}", "use the native generator")

    def _change(self, number: int, change: str, at_ns: int) -> None:
        if number not in range(self._n_servers):
            raise ConfigError("server", number, f"0 to {self._n_servers - 1}")
        at_ns = check_int("at_ns", at_ns, 0, _LARGEST_TIME_NS)
        self._request(f"server {number} {at_ns} {change}")

    def _close_rows(self) -> None:
        self._n_servers = 0
        if self._server_rows is not None:
            self._server_rows.close()
            self._server_rows = None


def _rows_file(n_servers: int) -> int:
    fd = os.memfd_create("dcgym-servers", os.MFD_CLOEXEC)
    os.ftruncate(fd, rows_bytes(n_servers))
    return fd
