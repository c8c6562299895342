"""The agent of a device: watches it and reports to the balancer. A program, run by its path.

It needs nothing but the standard library, so that one starts in milliseconds and costs what such an
agent costs. `dcgym.backends.emulation.emulator.agents` starts one in each device's network; its
only argument is a JSON object. Formats of the packets: `device_reports.h` and `server_messages.h`.

A periodic agent reads the use of its device's workers, as `psutil` reads processors, and sends
P4Hauler's header right behind Ethernet's. An event-driven one measures processing times from the
packets that come and go, as `tcpdump` shows them, and sends P4Mite's status over UDP.

Sources: Tajbakhsh, "Programmable and intelligent accelerator-aware load balancers in data centers"
(2023), sections 4.3 and 5.3.
"""

from __future__ import annotations

import collections
import json
import mmap
import random
import select
import signal
import socket
import struct
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

REPORT_TYPE, REPORT_VERSION = 0x88B6, 1
MESSAGE_MAGIC, MESSAGE_VERSION, STATUS = 0xDC4D, 1, 4
FULL_LOAD, MOST_QUEUE, MOST_SEQUENCE = 100, 0xFFFF, 0xFFFFFFFF
HEADER = struct.Struct("!6BHI")
MESSAGE = struct.Struct("!HBBHHQQIBBH")
ROW = struct.Struct("<IIIHHQQQQQQQ")  # dcgym_http_server of http.h
SHOWN_WORDS = 8  # AGENT_DTYPE of dcgym.backends.emulation.wire.device_messages

ETH_P_ALL, ETH_P_IP, ETH_BYTES = 0x0003, 0x0800, 14
PACKET_OUTGOING = 4  # linux/if_packet.h
SO_TIMESTAMPNS = 35  # asm-generic/socket.h
TIMESPEC = struct.Struct("@ll")
TCP, UDP = 6, 17
RECEIVE_BYTES = 4 << 20
SO_RCVBUFFORCE = 33
# Who asked and was never answered is forgotten.
FORGOTTEN_NS = 60 * 10**9
MEMORY_NS = 10**9
# Nothing is waited for that the network itself takes.
LEAST_DELAY_NS = 1_000_000


class Agent(ABC):
    """What both kinds do: send, lose and delay reports, and show how many there were.

    Args:
        settings: `AgentSettings` of `dcgym.backends.emulation.wire.device_messages`, as plain data.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings
        self.server, self.device = int(settings["server"]), int(settings["device"])
        self.is_new = False
        self._sequence = self._sent = self._lost = 0
        self._random = random.Random(int(settings["seed"]))
        delay_ns = int(settings["delay_ns"])
        self._delay_ns = delay_ns if delay_ns >= LEAST_DELAY_NS else 0
        self.held: collections.deque[tuple[int, bytes]] = collections.deque()
        self._shown = memoryview(mmap.mmap(int(settings["shown_fd"]), 0)).cast("Q")
        signal.signal(signal.SIGUSR1, self._begin)

    def _begin(self, *_: object) -> None:
        """An episode begins: what was seen before is forgotten."""
        self.is_new = True

    def send(self, report: bytes) -> None:
        """Send a report, unless it is one of those that are lost."""
        loss = float(self.settings["loss"])
        if loss and self._random.random() < loss:
            self._lost += 1
        elif self._delay_ns:
            self.held.append((time.monotonic_ns() + self._delay_ns, report))
        else:
            self._transmit(report)
        self.show()

    def send_held(self) -> None:
        """Send what has been held for long enough."""
        while self.held and self.held[0][0] <= time.monotonic_ns():
            self._transmit(self.held.popleft()[1])
            self.show()

    def _transmit(self, report: bytes) -> None:
        try:
            self.put(report)
            self._sent += 1
        except OSError:
            # A link that is down, a full queue: lost like any other.
            self._lost += 1

    @abstractmethod
    def put(self, report: bytes) -> None:
        """Put a report on the wire."""

    @abstractmethod
    def run(self) -> None:
        """Watch and report for ever."""

    def show(self) -> None:
        """Show how many reports were sent and lost."""
        # Word by word: `struct` clears them first, and a reader would see counts fall.
        at = int(self.settings["number"]) * SHOWN_WORDS
        self._shown[at], self._shown[at + 1] = self._sent, self._lost

    def next_sequence(self) -> int:
        """Return the number of the next report; 0 would say that it has none."""
        self._sequence = self._sequence % MOST_SEQUENCE + 1
        return self._sequence


class PeriodicAgent(Agent):
    """Reports use of the workers, of memory, and the queue (P4Hauler)."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        n_rows = int(settings["n_rows"])
        pages = -(-n_rows * ROW.size // mmap.PAGESIZE) * mmap.PAGESIZE
        self._rows = mmap.mmap(int(settings["rows_fd"]), pages, prot=mmap.PROT_READ)
        self._at = int(settings["number"]) * ROW.size
        self._wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self._wire.bind((settings["interface"], 0))
        source = self._wire.getsockname()[4]
        to = bytes.fromhex(settings["balancer_mac"].replace(":", ""))
        self._ethernet = to + source + struct.pack("!H", REPORT_TYPE)
        self._samples: collections.deque[tuple[int, int]] = collections.deque(
            maxlen=int(settings["window"]) + 1
        )
        self._memory, self._memory_ns = 0, 0

    def put(self, report: bytes) -> None:
        """Send a frame: nothing of IP is in it."""
        self._wire.send(report)

    def run(self) -> None:
        """Report for ever, each time a period after the last."""
        period_ns = int(self.settings["period_ns"])
        # Those of a pool take turns, as in the twin.
        due_ns = time.monotonic_ns() + int(period_ns * float(self.settings["phase"]))
        while True:
            wake_ns = min(due_ns, self.held[0][0]) if self.held else due_ns
            time.sleep(max(wake_ns - time.monotonic_ns(), 0) / 1e9)
            self.send_held()
            now_ns = time.monotonic_ns()
            if now_ns < due_ns:
                continue
            self._report()
            # What it has slept through is not made up for.
            due_ns += ((now_ns - due_ns) // period_ns + 1) * period_ns

    def _report(self) -> None:
        if self.is_new:
            self.is_new = False
            self._samples.clear()
            self.held.clear()
        now_ns, busy_ns, workers, queue = self._read()
        self._samples.append((now_ns, busy_ns))
        from_ns, from_busy_ns = self._samples[0]
        load, whole_ns = 0, (now_ns - from_ns) * workers
        if whole_ns > 0:
            load = min(max((busy_ns - from_busy_ns) * FULL_LOAD // whole_ns, 0), FULL_LOAD)
        fields = (REPORT_VERSION, 0, self.server, self.device, load, self._memory_use(now_ns))
        header = HEADER.pack(*fields, min(queue, MOST_QUEUE), self.next_sequence())
        self.send(self._ethernet + header)

    def _read(self) -> tuple[int, int, int, int]:
        """Return time, workers' time in use until then, workers, and requests at the device."""
        while True:
            row = ROW.unpack_from(self._rows, self._at)
            if row[5] % 2 == 0 and ROW.unpack_from(self._rows, self._at)[5] == row[5]:
                break
        now_ns = time.monotonic_ns()
        busy, workers_busy, workers, shown_ns, busy_ns = row[0], row[3], row[4], row[9], row[11]
        if shown_ns:
            busy_ns += workers_busy * max(now_ns - shown_ns, 0)
        return now_ns, busy_ns, max(workers, 1), busy

    def _memory_use(self, now_ns: int) -> int:
        if now_ns - self._memory_ns >= MEMORY_NS:
            self._memory_ns = now_ns
            with open("/proc/meminfo", encoding="ascii") as file:
                found = {line.split(":")[0]: int(line.split()[1]) for line in file}
            total = max(found["MemTotal"], 1)
            self._memory = (total - found["MemAvailable"]) * FULL_LOAD // total
        return self._memory


class EventAgent(Agent):
    """Says that its device is busy once a request takes too long, and that it is not (P4Mite)."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self._service = (socket.inet_aton(settings["vip"]), int(settings["port"]))
        self._balancer = (settings["balancer"], int(settings["balancer_port"]))
        self._out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self._tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BYTES)
        self._tap.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._tap.bind((settings["interface"], ETH_P_ALL))
        self._tap.setblocking(False)
        self._began_ns: dict[bytes, int] = {}
        self._is_busy = False
        self._second_ns = 0

    def put(self, report: bytes) -> None:
        """Send a datagram."""
        self._out.sendto(report, self._balancer)

    def run(self) -> None:
        """Watch for ever."""
        poll = select.poll()
        poll.register(self._tap, select.POLLIN)
        while True:
            poll.poll(self._patience_ms())
            if self.is_new:
                self._forget()
            self.send_held()
            if self._second_ns and time.monotonic_ns() >= self._second_ns:
                self._second_ns = 0
                self._say(False)
            self._drain()

    def _patience_ms(self) -> int:
        """Return how long nothing but a packet is to be done; -1 for ever."""
        due = [self._second_ns] if self._second_ns else []
        due += [self.held[0][0]] if self.held else []
        if not due:
            return -1
        return max(-(-(min(due) - time.monotonic_ns()) // 1_000_000), 0)

    def _forget(self) -> None:
        self.is_new, self._is_busy, self._second_ns = False, False, 0
        self._began_ns.clear()
        self.held.clear()

    def _drain(self) -> None:
        while True:
            try:
                frame, notes, _, address = self._tap.recvmsg(128, 64)
            except BlockingIOError:
                return
            seconds, ns = TIMESPEC.unpack(notes[0][2][: TIMESPEC.size])
            self._look(frame, address[2] == PACKET_OUTGOING, seconds * 10**9 + ns)

    def _look(self, frame: bytes, is_answer: bool, time_ns: int) -> None:
        """Note when a request came, and judge how long it took once its answer begins."""
        ports = payload_ports(frame)
        if ports is None:
            return
        source_port, port, at = ports
        ours, peer = (frame[26:30], frame[30:34]) if is_answer else (frame[30:34], frame[26:30])
        own_port = source_port if is_answer else port
        if (ours, own_port) != self._service:
            return
        # The client's address and port.
        key = peer + (frame[at + 2 : at + 4] if is_answer else frame[at : at + 2])
        if not is_answer:
            self._began_ns.setdefault(key, time_ns)
        elif (began_ns := self._began_ns.pop(key, None)) is not None:
            self._judge(time_ns - began_ns, time_ns)

    def _judge(self, took_ns: int, time_ns: int) -> None:
        """Follow the twin's agent (`Simulation::watch`): the same conditions in the same order."""
        settings = self.settings
        threshold_ns = int(settings["threshold_ns"])
        is_over = took_ns > threshold_ns
        is_under = took_ns < threshold_ns * float(settings["release"])
        self._forget_lost(time_ns)
        is_idle = not self._began_ns
        if second_ns := int(settings["second_report_ns"]):
            if is_over and not self._is_busy:
                self._say(True)
                self._second_ns = time.monotonic_ns() + second_ns
        elif is_under or is_idle if self._is_busy else is_over and not is_idle:
            self._say(not self._is_busy)

    def _forget_lost(self, time_ns: int) -> None:
        """Forget the oldest requests that nobody will answer any more."""
        while self._began_ns:
            oldest = next(iter(self._began_ns))
            if time_ns - self._began_ns[oldest] < FORGOTTEN_NS:
                return
            del self._began_ns[oldest]

    def _say(self, is_busy: bool) -> None:
        self._is_busy = is_busy
        kind = (MESSAGE_MAGIC, MESSAGE_VERSION, STATUS, self.server, 0)
        self.send(MESSAGE.pack(*kind, self.next_sequence(), 0, 0, self.device, is_busy, 0))


def payload_ports(frame: bytes) -> tuple[int, int, int] | None:
    """Return source port, port, and where they lie, of IPv4 that carries data over TCP or UDP.

    Args:
        frame: The first bytes of an Ethernet frame.
    """
    if len(frame) < ETH_BYTES + 28 or frame[12:14] != ETH_P_IP.to_bytes(2, "big"):
        return None
    at = ETH_BYTES + (frame[ETH_BYTES] & 15) * 4
    protocol = frame[ETH_BYTES + 9]
    if protocol not in (TCP, UDP) or len(frame) < at + 8:
        return None
    if protocol == TCP:
        if len(frame) < at + 20:
            return None
        bytes_in_all = int.from_bytes(frame[ETH_BYTES + 2 : ETH_BYTES + 4], "big")
        if ETH_BYTES + bytes_in_all <= at + (frame[at + 12] >> 4) * 4:
            return None
    return (
        int.from_bytes(frame[at : at + 2], "big"),
        int.from_bytes(frame[at + 2 : at + 4], "big"),
        at,
    )


def main() -> None:
    """Run the agent that the argument describes."""
    settings = json.loads(sys.argv[1])
    kinds: Mapping[str, type[Agent]] = {"periodic": PeriodicAgent, "event": EventAgent}
    agent = kinds[settings["kind"]](settings)
    agent.show()
    print("ready", flush=True)
    agent.run()


if __name__ == "__main__":
    main()
