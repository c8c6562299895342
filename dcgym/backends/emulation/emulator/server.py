"""The emulator's process: private namespaces, a network inside them, and a command loop.

Started by `EmulatorProcess` as ``python -m dcgym.backends.emulation.emulator.server``. Two processes: the first owns
the namespaces' outside and waits; the second is process 1 of the pid namespace and does the work.
When either dies, or the environment does, all of it ends.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

from dcgym.backends.emulation.channel import Channel
from dcgym.backends.emulation.emulator.congestion import CongestionControls
from dcgym.backends.emulation.emulator.hosts_file import name_hosts
from dcgym.backends.emulation.emulator.mininet_path import make_importable
from dcgym.backends.emulation.emulator.pod_commands import PodCommands
from dcgym.errors import BackendError, CommandError, ConfigError, DcgymError, FeatureNotSupported
from dcgym.native import require
from dcgym.tasks.network.events import Event
from dcgym.topologies import Topology
from dcgym.traffic.generators.generator import Generator

__all__ = ["main"]

Answer = tuple[dict[str, Any], list[int]]


class Emulator(PodCommands):
    """Commands of one emulated network, each a method named ``do_<command>``."""

    def __init__(self, run_id: str) -> None:
        self._congestion = CongestionControls(run_id)
        self._network: Any = None
        self._generator: Generator | None = None

    def do_build(
        self,
        topology: dict[str, Any],
        switch: str,
        flow_matrix: bool,
        probes: list[list[str]],
        flow_entries: int,
        generator: str,
    ) -> Answer:
        """Build the network; answers with the descriptors that the environment works through."""
        make_importable()
        from dcgym.backends.emulation.emulator.network import HOST_QUEUE_BYTES, EmulatedNetwork

        graph = Topology.from_dict(topology)
        name_hosts({host.name: graph.ip(host.name) for host in graph.hosts})
        network = EmulatedNetwork(graph, switch, flow_matrix, flow_entries)
        namespaces = [f"/proc/{os.getpid()}/fd/{fd}" for fd in network.namespace_fds]
        names = [host.name for host in network.topology.hosts]
        addresses = [network.topology.ip(name) for name in names]
        hosts = list(zip(range(len(names)), namespaces, addresses, strict=True))
        pairs = [(source, target) for source, target in probes]
        self._generator = Generator(hosts, names, probes=pairs, kind=generator)
        self._network = network
        fabric = network.fabric
        fds = [network.rtnl_fd, fabric.port_map_fd, fabric.flow_map_fd]
        fds += [fabric.group_map_fd, fabric.control_map_fd]
        fds += [network.queues.program_fd, network.queues.map_fd]
        fds += [self._generator.shm_fd, os.pidfd_open(self._generator.pid)]
        return {
            "port_ifindexes": network.port_ifindexes,
            "host_ifindexes": network.host_ifindexes,
            "host_queue_bytes": HOST_QUEUE_BYTES,
            "n_queues": network.n_queues,
            "rx_slots": network.rx_slots,
        }, fds + network.host_rtnl_fds

    def do_stop_traffic(self) -> Answer:
        """Cut every flow."""
        self.generator.stop()
        return {}, []

    def do_prepare(
        self,
        fds: list[int],
        n_flows: int,
        congestion_control: dict[str, str],
        marking: bool,
        events: list[dict[str, Any]],
    ) -> Answer:
        """Make the network whole, set marking and congestion control, load plan and events.

        The plan comes as a descriptor of its memory file.
        """
        if self._network.events is not None:
            self._network.events.prepare([Event.from_dict(event) for event in events])
        # Per socket, not per namespace: a namespace may only default to an unrestricted algorithm.
        kernel_names = {
            name: self._congestion.kernel_name(name) for name in set(congestion_control.values())
        }
        names = {host: kernel_names[name] for host, name in congestion_control.items()}
        self._network.set_marking(marking)
        self.generator.load_file(fds[0], n_flows, names)
        return {"congestion_control": self._congestion.implementations(congestion_control)}, []

    def do_start_traffic(self, start_ns: int) -> Answer:
        """Start the plan and its events at a CLOCK_MONOTONIC time."""
        self.generator.start(start_ns)
        if self._network.events is not None:
            self._network.events.start(start_ns)
        return {}, []

    def do_app_records(self) -> Answer:
        """Tell what became of the plan's applications."""
        return {"records": self.generator.app_records()}, []

    def do_event_records(self) -> Answer:
        """Tell which events have happened, and how long the routes took to recover."""
        events = self._network.events
        return {"records": events.records() if events is not None else []}, []

    def do_dead_ports(self) -> Answer:
        """Name the switch ports that the routes avoid."""
        events = self._network.events
        return {"ports": sorted(events.dead_ports) if events is not None else []}, []

    def do_set_marking(self, enabled: bool) -> Answer:
        """Switch the marking of all ports on or off."""
        self._network.set_marking(enabled)
        return {}, []

    def do_burst(self, sources: list[str], target: str, datagrams: int) -> Answer:
        """Send datagrams from some hosts to one."""
        self._network.burst(sources, target, datagrams)
        return {}, []

    def do_execute(self, host: str, argv: list[str], timeout_s: float) -> Answer:
        """Run a command in a host."""
        return {"output": self._network.execute(host, argv, timeout_s)}, []

    def do_ping_matrix(self) -> Answer:
        """Ping between all pairs of hosts."""
        return {"lost": self._network.ping_matrix()}, []

    def do_drops(self) -> Answer:
        """Count what the fabric refused, by reason."""
        return {"drops": self._network.fabric.drop_counters()}, []

    @property
    def generator(self) -> Generator:
        """The traffic generator of the built network."""
        if self._generator is None:
            raise BackendError("the network is not built")
        return self._generator


def serve(channel: Channel, emulator: Emulator) -> None:
    """Answer commands until the environment closes the channel."""
    while True:
        request, received = channel.receive()
        command = request.pop("command")
        handler: Callable[..., Answer] | None = getattr(emulator, f"do_{command}", None)
        try:
            if handler is None:
                raise BackendError(f"unknown command {command!r}")
            answer, fds = handler(**request, **({"fds": received} if received else {}))
        except Exception as error:
            traceback.print_exc()
            answer, fds = _describe(error), []
        finally:
            for fd in received:
                os.close(fd)
        channel.send(answer, fds)


def _describe(error: Exception) -> dict[str, Any]:
    """An error in a form that crosses the channel."""
    details: list[Any] = []
    if isinstance(error, ConfigError):
        details = [error.field, repr(error.value), error.allowed, error.hint]
    elif isinstance(error, FeatureNotSupported):
        details = [error.feature, error.hint]
    elif isinstance(error, CommandError):
        details = [list(error.argv), error.returncode, error.stderr]
    text = str(error) if isinstance(error, DcgymError) else f"{type(error).__name__}: {error}"
    return {"error": text, "kind": type(error).__name__, "details": details}


def _first_process(channel_fd: int, owner_pidfd: int, run_id: str) -> None:
    """Body of process 1 of the namespaces."""
    native = require()
    native.die_with_parent()
    native.mount_private()
    native.watch_owner(channel_fd, owner_pidfd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A pty pair and a shell per node; the machine's own default limit is often 1024.
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with socket.socket(fileno=channel_fd) as sock:
        sock.setblocking(True)
        channel = Channel(sock)
        _set_loopback_up()
        channel.send({}, [os.pidfd_open(os.getpid())])
        serve(channel, Emulator(run_id))


def _set_loopback_up() -> None:
    from dcgym.backends.emulation.emulator.run import run

    run("ip", "link", "set", "lo", "up")


def main() -> int:
    """Enter the namespaces and run the emulator; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--channel-fd", type=int, required=True)
    parser.add_argument("--owner-pid", type=int, required=True)
    parser.add_argument("--run-id", required=True)
    arguments = parser.parse_args()
    owner_pidfd = os.pidfd_open(arguments.owner_pid)
    if os.getppid() != arguments.owner_pid:
        return 1  # The environment died before we could watch it.
    require().unshare_namespaces()
    child = os.fork()
    if child == 0:
        try:
            _first_process(arguments.channel_fd, owner_pidfd, arguments.run_id)
        except BackendError:
            os._exit(0)  # The environment closed the channel.
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(arguments.channel_fd)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) & 0xFF


if __name__ == "__main__":
    sys.exit(main())
