"""The owner's side of the traffic generator process."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from types import TracebackType

from dcgym.errors import BackendError
from dcgym.native import program_path
from dcgym.processes import module_environment, module_words
from dcgym.traffic.generators.tools import NATIVE, require_generator
from dcgym.traffic.generators.view import GeneratorView, RecordStream, block_bytes
from dcgym.traffic.http.control import HttpControl
from dcgym.traffic.plans.applications import APPS
from dcgym.traffic.plans.plan import Plan

__all__ = ["Generator", "GeneratorView", "RecordStream", "plan_file"]

DEADLINE_S = 10.0
RECORD_CAPACITY = 65_536
PROBE_PERIOD_NS = 10_000_000

_MOST_REQUEST_BYTES = 1 << 20
_SO_SNDBUFFORCE = 32  # socket(7); beyond net.core.wmem_max, for root
_REPLY_BYTES = 1 << 20


class Generator(HttpControl):
    """One process that sends and receives for all hosts.

    The process dies with the thread that made this object (PR_SET_PDEATHSIG), and when the
    control socket closes. Its counters are read through `GeneratorView(generator.shm_fd)`.
    """

    def __init__(
        self,
        hosts: Sequence[tuple[int, str, str]],
        names: Sequence[str] | None = None,
        *,
        probes: Sequence[tuple[str, str]] = (),
        probe_period_ns: int = PROBE_PERIOD_NS,
        record_capacity: int = RECORD_CAPACITY,
        deadline_s: float = DEADLINE_S,
        kind: str = NATIVE,
    ) -> None:
        """Start the process.

        Args:
            hosts: For each host: its index from 0, the file of its network namespace
                (``/proc/PID/ns/net``), and its IPv4 address.
            names: The hosts' names, as the plan's flows use them; by default h1, h2, ...
            probes: Pairs of hosts between which the round trip is measured all the time.
            probe_period_ns: Time between two requests of a probe.
            record_capacity: How many flow records are kept.
            deadline_s: Longest wait for a reply.
            kind: A name of `GENERATORS`, or `APPS` for applications; "native" alone has probes.

        Raises:
            BackendError: The process does not start, or refuses the hosts.
            ConfigError: There is no generator of this kind.
            FeatureNotSupported: The executable was not built, or the tool is not installed.
        """
        if kind != APPS:
            require_generator(kind)
        super().__init__(kind)
        self._names = tuple(names or (f"h{i + 1}" for i in range(len(hosts))))
        self._deadline_s = deadline_s
        self._process: subprocess.Popen[bytes] | None = None
        self.shm_fd = os.memfd_create("dcgym-generator", os.MFD_CLOEXEC)
        self._socket, theirs = _channel(deadline_s)
        try:
            os.ftruncate(self.shm_fd, block_bytes(len(hosts), record_capacity, len(probes)))
            with theirs:
                self._process = self._spawn(theirs.fileno())
            self._send_hosts(hosts)
            self._send_probes(probes, probe_period_ns)
        except BaseException:
            self.close()
            raise

    def _spawn(self, control_fd: int) -> subprocess.Popen[bytes]:
        fds = (control_fd, self.shm_fd)
        argv = [str(program_path("dcgym-generator"))]
        if self._kind != NATIVE:
            # Dies with its parent as the native one sees to itself.
            argv = ["setpriv", "--pdeathsig", "KILL", "--"]
            argv += [*module_words("dcgym.traffic.generators.adapter"), "--tool", self._kind]
        argv += ["--control-fd", str(fds[0]), "--shm-fd", str(fds[1])]
        return subprocess.Popen(
            argv,
            pass_fds=fds,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=module_environment(),
        )

    def _send_hosts(self, hosts: Sequence[tuple[int, str, str]]) -> None:
        rows = (f"{i} {namespace} {ip}\n" for i, namespace, ip in hosts)
        self._request("hosts\n" + "".join(rows))

    def _send_probes(self, probes: Sequence[tuple[str, str]], period_ns: int) -> None:
        rows = [f"{self._names.index(src)} {self._names.index(dst)}" for src, dst in probes]
        if rows:
            self._request("\n".join([f"probes {period_ns}", *rows]))

    @property
    def pid(self) -> int:
        """Process identifier of the generator, 0 after `close`."""
        return self._process.pid if self._process is not None else 0

    def load(self, plan: Plan, congestion_control: Mapping[str, str] | None = None) -> None:
        """Replace the plan; what still ran is cut.

        Args:
            plan: The flows.
            congestion_control: Name of the TCP congestion control per sending host; hosts left
                out use their namespace's default.

        Raises:
            BackendError: The generator refused the plan, or does not answer.
            ConfigError: The plan names a host that the generator does not have.
        """
        fd = plan_file(plan, self._names)
        try:
            self.load_file(fd, len(plan), congestion_control or {})
        finally:
            os.close(fd)

    def load_file(self, fd: int, n_flows: int, congestion_control: Mapping[str, str]) -> None:
        """Replace the plan by the one in a memory file that `plan_file` made.

        Args:
            fd: The memory file.
            n_flows: Number of its flows.
            congestion_control: As of `load`.

        Raises:
            BackendError: The generator refused the plan, or does not answer.
        """
        names = " ".join(congestion_control.get(name, "-") for name in self._names)
        self._request(f"plan {n_flows}\n{names}", fd)

    def start(self, start_ns: int) -> None:
        """Run the loaded plans from their beginning.

        Args:
            start_ns: Their time 0 (CLOCK_MONOTONIC).

        Raises:
            BackendError: The generator does not answer.
        """
        self._request(f"start {start_ns}")

    def stop(self) -> int:
        """Cut all flows and requests at once and return how many there were."""
        return int(self._request("stop").split()[1])

    def app_records(self) -> list[dict[str, object]]:
        """Return what became of the applications of the plan, in its order."""
        return self._reports()

    def process_records(self) -> list[dict[str, object]]:
        """Return the processes that a traffic tool runs for each flow; none of the native one.

        Each record has ``flow``, ``listens_at`` and ``connects_at``, names of hosts, and the
        command lines ``listener`` and ``connector``. Repetitions of a flow use the same.
        """
        if self._kind in (NATIVE, APPS):
            return []
        hosts = ("listens_at", "connects_at")
        return [
            row | {name: self._names[int(str(row[name]))] for name in hosts}
            for row in self._reports()
        ]

    def _reports(self) -> list[dict[str, object]]:
        """Return all rows of the adapter's report, of which one message holds a part."""
        rows: list[dict[str, object]] = []
        while True:
            part = json.loads(self._request(f"report {len(rows)}").removeprefix("ok "))
            if not part:
                return rows
            rows += part

    def close(self) -> None:
        """End the process and release its memory; may be called again."""
        self._close_rows()
        self._socket.close()
        if self._process is not None:
            self._end_process(self._process)
            self._process = None
        if self.shm_fd >= 0:
            os.close(self.shm_fd)
            self.shm_fd = -1

    @staticmethod
    def _end_process(process: subprocess.Popen[bytes]) -> None:
        try:
            process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _request(self, message: str, *fds: int) -> str:
        try:
            socket.send_fds(self._socket, [message.encode()], fds)
            reply = self._socket.recv(_REPLY_BYTES).decode()
        except TimeoutError as error:
            # A late reply would be taken for the answer to the next request.
            with contextlib.suppress(OSError):
                self._socket.close()
            reason = f"no reply within {self._deadline_s} s"
            raise BackendError(f"the traffic generator hangs: {reason}") from error
        except OSError as error:
            raise BackendError(f"the traffic generator is dead: {error}") from error
        if not reply:
            raise BackendError("the traffic generator is dead: it closed its control socket")
        if not reply.startswith("ok"):
            raise BackendError(f"the traffic generator refused: {reply.removeprefix('error ')}")
        return reply

    def __enter__(self) -> Generator:
        """Return the generator itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process."""
        self.close()


def _channel(deadline_s: float) -> tuple[socket.socket, socket.socket]:
    """Return both ends of a control socket, ours with the deadline."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(deadline_s)
    # A request that names thousands of hosts is one message.
    ours.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _MOST_REQUEST_BYTES)
    return ours, theirs


def plan_file(plan: Plan, hosts: Sequence[str]) -> int:
    """Write a plan to a new memory file, as the generator reads it.

    Args:
        plan: The flows.
        hosts: Names of the generator's hosts, in its order.

    Returns:
        A descriptor, which the caller closes.

    Raises:
        ConfigError: The plan names none of the hosts.
    """
    content = plan.to_generator(hosts)
    fd = os.memfd_create("dcgym-plan", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(content)
    return fd
