"""The owner's side of the native traffic generator process."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from types import TracebackType

from dcgym.errors import BackendError, FeatureNotSupported
from dcgym.traffic.plan import Flow, Plan
from dcgym.traffic.view import GeneratorView, block_bytes

__all__ = ["Generator", "GeneratorView", "generator_path"]

DEADLINE_S = 10.0
RECORD_CAPACITY = 65_536

_MESSAGE_BYTES = 32_768  # a datagram must fit the default socket buffer
_REPLY_BYTES = 4096


def generator_path() -> Path:
    """Return the path of the executable.

    Raises:
        FeatureNotSupported: It was not built.
    """
    path = Path(str(resources.files("dcgym"))) / "native" / "bin" / "dcgym-generator"
    if not path.exists():
        raise FeatureNotSupported(
            "the traffic generator", "apt-get install g++ libasio-dev, then 'make setup'"
        )
    return path


class Generator:
    """One process that sends and receives for all hosts.

    The process dies with the thread that made this object (PR_SET_PDEATHSIG), and when the
    control socket closes. Its counters are read through `GeneratorView(generator.shm_fd)`.
    """

    def __init__(
        self,
        hosts: Sequence[tuple[int, str, str]],
        names: Sequence[str] | None = None,
        *,
        record_capacity: int = RECORD_CAPACITY,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        """Start the process.

        Args:
            hosts: For each host, in order: its index from 0, the file of its network
                namespace (such as ``/proc/PID/ns/net``), and its IPv4 address.
            names: The hosts' names, as the plan's flows use them; by default h1, h2, ...
            record_capacity: How many flow records are kept.
            deadline_s: Longest time to wait for a reply.

        Raises:
            BackendError: The process does not start, or refuses the hosts.
            FeatureNotSupported: The executable was not built.
        """
        names = names if names is not None else [f"h{i + 1}" for i in range(len(hosts))]
        self._index = {name: i for i, name in enumerate(names)}
        self._deadline_s = deadline_s
        self._process: subprocess.Popen[bytes] | None = None
        self.shm_fd = os.memfd_create("dcgym-generator", os.MFD_CLOEXEC)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(deadline_s)
        try:
            os.ftruncate(self.shm_fd, block_bytes(len(hosts), record_capacity))
            with theirs:
                self._process = self._spawn(theirs.fileno())
            self._send_hosts(hosts)
        except BaseException:
            self.close()
            raise

    def _spawn(self, control_fd: int) -> subprocess.Popen[bytes]:
        fds = (control_fd, self.shm_fd)
        argv = [str(generator_path()), "--control-fd", str(fds[0]), "--shm-fd", str(fds[1])]
        return subprocess.Popen(argv, pass_fds=fds, stdin=subprocess.DEVNULL)

    def _send_hosts(self, hosts: Sequence[tuple[int, str, str]]) -> None:
        rows = (f"{i} {namespace} {ip}\n" for i, namespace, ip in hosts)
        self._request("hosts\n" + "".join(rows))

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
        """
        chosen = congestion_control or {}
        ports = plan.ports()
        rows = (
            self._row(i, flow, port, chosen.get(flow.src, "-"))
            for i, (flow, port) in enumerate(zip(plan.flows, ports, strict=True))
        )
        command = "plan\n"
        for chunk in _chunks(rows):
            self._request(command + chunk)
            command = "plan+\n"

    def _row(self, number: int, flow: Flow, port: int, congestion_control: str) -> str:
        try:
            src, dst = self._index[flow.src], self._index[flow.dst]
        except KeyError as error:
            raise BackendError(f"the traffic plan names an unknown host {error}") from error
        limits = (flow.size_bytes, flow.duration_ns, flow.rate_bps)
        size, duration, rate = (-1 if limit is None else limit for limit in limits)
        return (
            f"{number} {src} {dst} {flow.transport} {port} {flow.start_ns} {size} {duration} "
            f"{rate} {flow.repetitions} {flow.gap_ns} {congestion_control}\n"
        )

    def start(self, start_ns: int) -> None:
        """Run the loaded plan from its beginning; its time 0 is start_ns (CLOCK_MONOTONIC)."""
        self._request(f"start {start_ns}")

    def stop(self) -> int:
        """Cut all flows at once and return how many there were."""
        return int(self._request("stop").split()[1])

    def close(self) -> None:
        """End the process and release its memory; may be called again."""
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

    def _request(self, message: str) -> str:
        try:
            self._socket.sendall(message.encode())
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


def _chunks(rows: Iterable[str]) -> Iterator[str]:
    """Join rows into messages that fit a datagram; an empty plan is one empty message."""
    chunk = ""
    for row in rows:
        if len(chunk) + len(row) > _MESSAGE_BYTES:
            yield chunk
            chunk = ""
        chunk += row
    yield chunk
