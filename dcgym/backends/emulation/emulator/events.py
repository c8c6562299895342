"""Makes the events of an episode happen, at their times, and undoes them."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dcgym.backends.emulation.emulator.link_delays import LinkDelays
from dcgym.backends.emulation.emulator.rerouting import Reroute, Rerouter
from dcgym.backends.records import Record
from dcgym.errors import BackendError
from dcgym.native import require
from dcgym.tasks.network.events import Event
from dcgym.topologies import Port, Topology
from dcgym.topologies.round_trips import frame_bytes

if TYPE_CHECKING:
    from dcgym.native._native import Fabric, LinkMonitor, TokenBucket

__all__ = ["EpisodeEvents"]

STATE_DEADLINE_S = 5.0
# Waking by condition variable may be late; the rest is slept to an absolute time.
SPIN_NS = 2_000_000


class EpisodeEvents:
    """The events of one emulator: a thread per episode, netlink and BPF maps.

    Taking down one end of a link takes the carrier from the other, so a link falls by its first
    end that is a switch's; a switch falls by all of its ports.

    Args:
        topology: The network.
        fabric: Its data plane.
        ifindexes: Interface number of every switch port, in the topology's order.
        delays: Delays of its links, if any have one.
    """

    def __init__(
        self,
        topology: Topology,
        fabric: Fabric,
        ifindexes: Sequence[int],
        delays: LinkDelays | None = None,
    ) -> None:
        self._native = require()
        self._topology, self._fabric, self._delays = topology, fabric, delays
        self._ports = {port.name: port for port in topology.switch_ports}
        self._ifindexes = dict(zip(self._ports, ifindexes, strict=True))
        self._monitor: LinkMonitor = self._native.LinkMonitor()
        self._rerouter = Rerouter(topology, fabric, self._ifindexes, self._native.LinkMonitor())
        self._rerouter.start()
        # A socket of its own: the one of the network is the environment's.
        self._rtnl_fd = self._native.open_rtnl()
        self._events: tuple[Event, ...] = ()
        self._down: dict[str, set[str]] = {}
        self._lossy: set[str] = set()
        self._slowed: set[str] = set()
        self._records: list[Record] = []
        self._error = ""
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def dead_ports(self) -> frozenset[str]:
        """Names of the ports that the routes avoid."""
        return self._rerouter.dead

    def prepare(self, events: Sequence[Event]) -> None:
        """Undo what the last episode did to the network, and take the next one's events."""
        self._stop()
        self._undo()
        self._events = tuple(events)
        self._records = []
        self._error = ""

    def start(self, start_ns: int) -> None:
        """Let the events happen, counted from a CLOCK_MONOTONIC time."""
        if self._events:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._run, args=(start_ns,), daemon=True)
            self._thread.start()

    def records(self) -> list[Record]:
        """Return what has happened, in plain data; times in s and us, from the traffic's start.

        Raises:
            BackendError: An event could not be made to happen.
        """
        if self._error:
            raise BackendError(self._error)
        return list(self._records)

    def _run(self, start_ns: int) -> None:
        try:
            for event in self._events:
                if not self._sleep_until(start_ns + event.at_ns):
                    return
                self._records.append(self._happen(event, start_ns))
        except Exception as error:
            traceback.print_exc()
            self._error = f"event {event.kind} of {event.target}: {error}"

    def _sleep_until(self, deadline_ns: int) -> bool:
        left_ns = deadline_ns - time.monotonic_ns()
        if left_ns > SPIN_NS and self._stopping.wait((left_ns - SPIN_NS) / 1e9):
            return False
        self._native.wait_until(deadline_ns)
        return not self._stopping.is_set()

    def _happen(self, event: Event, start_ns: int) -> Record:
        began_ns = time.monotonic_ns()
        reroute = None
        if event.kind in ("down", "up"):
            reroute = self._change_state(event, began_ns)
        elif event.kind == "rate":
            self._change_rate(event)
        else:
            self._lose(event)
        done_ns = time.monotonic_ns()
        record = {
            "at_s": event.at_ns / 1e9,
            "action": event.kind,
            "target": event.target,
            "late_us": (began_ns - start_ns - event.at_ns) / 1e3,
            "applied_us": (done_ns - began_ns) / 1e3,
        }
        if reroute is not None:
            record["noticed_us"] = (reroute.seen_ns - began_ns) / 1e3
            record["recovery_us"] = (reroute.installed_ns - began_ns) / 1e3
            record["routes_changed"] = reroute.changed
        return record

    def _change_state(self, event: Event, began_ns: int) -> Reroute | None:
        ports = event.end_ports(self._topology)
        for port in ports:
            causes = self._down.setdefault(port.name, set())
            (causes.add if event.kind == "down" else causes.discard)(event.target)
        fallen = {port.name for port in ports if self._down[port.name]}
        self._set_up([port.name for port in ports if port.name not in fallen], True)
        self._set_up(sorted(fallen), False)
        # A port that comes up is alive only if its peer is up too, which another event may prevent.
        down = {name for name, causes in self._down.items() if causes}
        if self._delays is not None:
            # What is under way on a link that is down when it should arrive is lost.
            peers = {port.name: port.peer_name for port in self._ports.values()}
            self._delays.set_down(down | {peers[name] for name in down})
        rising = {p.name for p in ports if p.name not in down and p.peer_name not in down}
        return self._rerouter.wait_for(
            lambda dead: fallen <= dead and not rising & dead, began_ns, STATE_DEADLINE_S
        )

    def _set_up(self, names: Sequence[str], up: bool) -> None:
        self._monitor.set_up([self._ifindexes[name] for name in names], up)

    def _change_rate(self, event: Event) -> None:
        ports = event.link_ports(self._topology)
        self._slowed |= {port.name for port in ports}
        self._native.change_rates([self._bucket(port, event.rate_bps) for port in ports])

    def _bucket(self, port: Port, rate_bps: int | None) -> TokenBucket:
        full_bps, ifindex = port.rate_bps, self._ifindexes[port.name]
        bucket: TokenBucket = self._native.TokenBucket(
            self._rtnl_fd,
            ifindex,
            rate_bps or full_bps,
            port.queue_bytes,
            frame_bytes(port.link),
            full_bps,
        )
        return bucket

    def _lose(self, event: Event) -> None:
        assert event.probability is not None
        for port in event.link_ports(self._topology):
            self._lossy.add(port.name)
            # The host at the other end has no program of ours to lose what it is sent.
            is_last = self._topology.node(port.peer).is_endpoint
            loss_out = event.probability if is_last else 0.0
            self._fabric.set_loss(self._ifindexes[port.name], event.probability, loss_out)

    def _stop(self) -> None:
        if self._thread is not None:
            self._stopping.set()
            self._thread.join(STATE_DEADLINE_S)
            if self._thread.is_alive():
                raise BackendError(f"an event did not end within {STATE_DEADLINE_S} s")
            self._thread = None

    def _undo(self) -> None:
        for name in sorted(self._lossy):
            self._fabric.set_loss(self._ifindexes[name], 0.0, 0.0)
        slowed = [self._bucket(self._ports[name], None) for name in sorted(self._slowed)]
        self._native.change_rates(slowed)
        self._lossy.clear()
        self._slowed.clear()
        self._down.clear()
        if self._rerouter.dead:
            # Whoever took them down: an episode begins with the whole network.
            self._set_up(list(self._ports), True)
            self._rerouter.wait_for(lambda dead: not dead, 0, STATE_DEADLINE_S)
        self._rerouter.forget()
