"""Hosts on one Linux bridge, without shaping: a network for what is not about the network."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from types import TracebackType

from dcgym.errors import BackendError

__all__ = ["Star"]

_DEADLINE_S = 5.0


class Star:
    """Network namespaces, each held by a sleeping process, joined by a bridge in one of their own.

    The machine's own namespace never sees an interface of it.

    Attributes:
        names: Names of the hosts: h1, h2, ...
        addresses: Their addresses: 10.0.0.1, 10.0.0.2, ...
    """

    def __init__(self, n_hosts: int) -> None:
        """Build it.

        Args:
            n_hosts: Number of hosts, at most 250.

        Raises:
            BackendError: Needs root, or the network could not be built.
        """
        self.names = [f"h{i + 1}" for i in range(n_hosts)]
        self.addresses = [f"10.0.0.{i + 1}" for i in range(n_hosts)]
        self._holders: list[subprocess.Popen[bytes]] = []
        try:
            for _ in range(n_hosts + 1):
                self._holders.append(_hold())
            self._connect()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        bridge = ["link add br0 type bridge", "link set br0 up"]
        for number, holder in enumerate(self._holders[:-1]):
            bridge.append(f"link add p{number} type veth peer name eth0 netns {holder.pid}")
            bridge.append(f"link set p{number} master br0 up")
        self._configure(-1, bridge)
        for number, address in enumerate(self.addresses):
            lines = [f"addr add {address}/24 dev eth0", "link set eth0 up", "link set lo up"]
            self._configure(number, lines)

    def _configure(self, number: int, lines: list[str]) -> None:
        argv = ["nsenter", "-t", str(self._holders[number].pid), "-n", "ip", "-batch", "-"]
        text = "\n".join(lines) + "\n"
        done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BackendError(f"the star could not be built: {done.stderr.strip()}")

    def hosts(self) -> list[tuple[int, str, str]]:
        """Return number, namespace file and address of each host, as `Generator` takes them."""
        return [
            (number, f"/proc/{self._holders[number].pid}/ns/net", address)
            for number, address in enumerate(self.addresses)
        ]

    def command(self, host: str, argv: list[str]) -> list[str]:
        """Return the command that runs another one in a host's namespace."""
        pid = self._holders[self.names.index(host)].pid
        return ["nsenter", "-t", str(pid), "-n", *argv]

    def close(self) -> None:
        """End the namespaces; may be called again."""
        for holder in self._holders:
            holder.kill()
            holder.wait()
        self._holders.clear()

    def __enter__(self) -> Star:
        """Return the star itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the namespaces."""
        self.close()


def _hold() -> subprocess.Popen[bytes]:
    """Start a process that keeps a new network namespace; it dies with this one."""
    argv = ["setpriv", "--pdeathsig", "KILL", "--", "unshare", "-n", "sleep", "infinity"]
    holder = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    own, deadline = os.readlink("/proc/self/ns/net"), time.monotonic() + _DEADLINE_S
    while time.monotonic() < deadline and holder.poll() is None:
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{holder.pid}/ns/net") != own:
                return holder
        time.sleep(0.001)
    holder.kill()
    holder.wait()
    raise BackendError("no network namespace could be made; it needs root")
