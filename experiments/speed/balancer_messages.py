"""Cost of the rules that go by what servers say, with and without it, by BPF_PROG_TEST_RUN.

A decision uses up answers and idle servers. So each is timed alone, right after fresh messages came
by the balancer's own program, and one of ECMP's before each: the difference is free of the clock,
of caches that went cold and of the machine's other work. Odd servers are silent, slow or full, so
that decisions without messages would show.
"""

from __future__ import annotations

import mmap
import socket
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.errors import BackendError
from dcgym.monitors.balancer.layout import REGION, BalancerRegion
from experiments.speed.balancer import (
    ACK,
    FLOWS_PER_SERVER,
    HOUR_NS,
    MAC,
    RULES,
    SYN,
    benchmark_frame,
    make_balancer,
)
from experiments.speed.balancer_probes import ProbeRing

__all__ = ["RULES_OF_MESSAGES", "measure_messages", "measure_told_flows"]

RULES_OF_MESSAGES = ("sapp", "wsapp", "prequal", "jiq", "peak-ewma", "c3-rank")
# Probes are asked of a thread that is awake, or has to be woken.
WITH_PROBES = ("prequal, and 3 probes", "prequal, and 3 probes by a thread that sleeps")
PROBES = 3
POOLS = (8, 64)
RUNS, REPETITIONS = 400, 7
OWN, MESSAGE_PORT, MAGIC, VERSION, ANSWER, IDLE = "10.0.0.99", 47, 0xDC4D, 1, 2, 3
NO_KIND, MOST_ANSWERS = 0, 16
COOKIE_BITS, REPORT_KIND, REPORT_ID = 24, 254, 0xDC47
FIN, FULL = 0x01, 60_000
# More than by what one server may have more flows than another.
SLOW, SLOWER, LEAST_SLOW_S = 1, 40, 0.05
FIRST_PORT = 40_000  # of the flows that end
SNAPSHOT_S = 5.0

Refresh = Callable[[], None]


def measure_told_flows() -> list[dict[str, Any]]:
    """Time the placing of a new flow by the rules that go by messages.

    Returns:
        Rows of rule, and for each pool the ns that a decision takes over one of ECMP's: before any
        message came, and with fresh ones.

    Raises:
        BackendError: A decision was made without messages, or some were not taken.
    """
    rows: list[dict[str, Any]] = [{"rule": name} for name in (*RULES_OF_MESSAGES, *WITH_PROBES)]
    names = [row["rule"] for row in rows]
    for n in POOLS:
        pool = _ToldPool(n)
        before, fresh = (pool.time_rules(names, is_told) for is_told in (False, True))
        pool.close()
        for row in rows:
            row[f"{n}: no messages"] = before[row["rule"]]
            row[f"{n}: fresh ones"] = fresh[row["rule"]]
    return rows


def measure_messages() -> list[dict[str, Any]]:
    """Time what becomes of a message of one of 64 servers.

    Returns:
        Rows of message and the median ns of one alone; the first is a new flow by ECMP.
    """
    pool = _ToldPool(64)
    pool.time_rules(["prequal", "jiq"], is_told=True)
    for _ in range(RUNS // 64):
        pool.hear_reports()
    found = {name: round(np.median(times)) for name, times in pool.alone_ns.items()}
    pool.close()
    return [{"packet": name, "ns": ns} for name, ns in found.items()]


class _ToldPool:
    """A balancer and its servers, which tell it something, but for the odd ones."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.alone_ns: dict[str, list[int]] = {}
        self._balancer = make_balancer(n, collect=True)
        self._ring = ProbeRing(self._balancer.probe_map_fd)
        self._memory = mmap.mmap(self._balancer.region_map_fd, REGION.itemsize)
        self._answers = self._decisions = 0
        self._ask(0)
        self._set_rule("random")
        for port in range(FLOWS_PER_SERVER * n):
            for flags in (SYN, ACK):
                self._balancer.test_balance(benchmark_frame(2048 + port, flags))
        self._balancer.set_timeouts(0, HOUR_NS, HOUR_NS, HOUR_NS)
        self._set_rule("ecmp")
        frames = (benchmark_frame(port, SYN) for port in range(1025, 2048))
        # By ECMP a server that speaks gets it, so that its runs spoil no check.
        self._frame = next(f for f in frames if self._balancer.test_balance(f)[1][5] == 0)

    def close(self) -> None:
        """Release the balancer."""
        self._ring.close()
        self._balancer.close()

    def time_rules(self, names: list[str], is_told: bool) -> dict[str, int]:
        """Return the ns of a decision by each rule over ECMP's, as the repetitions' median."""
        refresh: dict[str, Refresh] = dict.fromkeys(names, self._adopt)
        if is_told:
            self._hear_responses()
            self.hear_reports()
            refresh |= {"prequal": self._hear_answers, "jiq": self._hear_idle}
            refresh |= dict.fromkeys(WITH_PROBES, self._hear_answers)
            refresh[WITH_PROBES[0]] = self._hear_answers_and_ask
        found: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(REPETITIONS):
            for name in names:
                self._set_rule(name)
                refresh[name]()
                before = self._packets()
                found[name].append(self._time(name, refresh[name]))
                if is_told:
                    self._check_informed(name, self._packets() - before)
        self._check_taken("answers", self._answers)
        return {name: round(np.median(times)) for name, times in found.items()}

    def hear_reports(self) -> None:
        """Let a SYN-ACK of each server pass, with its load."""
        taken = self._balancer.counters()["reports"]
        for server in range(self.n):
            self._hear("report on a SYN-ACK", _syn_ack(server, FULL if server % 2 else 3))
        self._check_taken("reports", taken + self.n)

    def _time(self, name: str, refresh: Refresh) -> float:
        """Return a rule's excess over ECMP.

        It is the mean of two medians: Prequal removes the oldest and the worst answer by turns.
        """
        ecmp, rule, turn = np.empty(RUNS), np.empty(RUNS), np.empty(RUNS)
        for number in range(RUNS):
            self._set_rule("ecmp")
            self._adopt()
            ecmp[number] = self._alone("new flow by ECMP", self._balancer.time_select, self._frame)
            self._set_rule(name)
            for _ in range(1 + number % 2):
                refresh()
            self._ask(PROBES if name in WITH_PROBES else 0)
            turn[number] = self._decisions % 2
            rule[number] = self._balancer.time_select(self._frame, 1)
            self._decisions += 1
        medians = [np.median(rule[turn == which]) for which in np.unique(turn)]
        return float(np.mean(medians) - np.median(ecmp))

    def _hear_responses(self) -> None:
        """Let a flow of each server open and end; that of the slow one takes by far the longest."""
        self._balancer.set_timeouts(HOUR_NS, HOUR_NS, HOUR_NS, HOUR_NS)
        longest_s = max(
            self._hear_response(server, 0) for server in range(self.n) if server != SLOW
        )
        self._hear_response(SLOW, max(LEAST_SLOW_S, SLOWER * longest_s))
        self._balancer.set_timeouts(0, HOUR_NS, HOUR_NS, HOUR_NS)
        weights = np.random.default_rng(1).uniform(1.0, 2.0, self.n)
        self._balancer.pools.replace(0, RULES["ecmp"], list(range(self.n)), list(weights))

    def _hear_response(self, server: int, takes_s: float) -> float:
        """Return how long it took."""
        self._balancer.pools.replace(0, RULES["ecmp"], [server], [1.0])
        began_s = time.monotonic()
        for flags in (SYN, ACK):
            self._balancer.test_balance(benchmark_frame(FIRST_PORT + server, flags))
        time.sleep(takes_s)
        self._balancer.test_balance(benchmark_frame(FIRST_PORT + server, FIN | ACK))
        return time.monotonic() - began_s

    def _hear_answers(self) -> None:
        """Fill the pool of answers: one request asks all servers, half of them answer."""
        self._ring.take()
        self._decide(probes=self.n)
        asked = [(serial, server) for serial, server in self._ring.take() if server % 2 == 0]
        self._ask(0)
        for serial, server in asked[:MOST_ANSWERS]:
            self._hear("answer to a probe", _message(server, ANSWER, serial))
            self._answers += 1

    def _hear_answers_and_ask(self) -> None:
        """Leave a probe to be sent, too: the thread that sends them is awake."""
        self._hear_answers()
        self._decide(probes=1)

    def _decide(self, probes: int) -> None:
        self._ask(probes)
        self._balancer.test_balance(self._frame)
        self._decisions += 1

    def _hear_idle(self) -> None:
        for server in range(0, self.n, 2):
            self._hear("idle server", _message(server, IDLE))

    def _hear(self, what: str, frame: bytes) -> None:
        self._alone(what, self._balancer.time_report, frame)

    def _alone(self, what: str, run: Callable[[bytes, int], int], frame: bytes) -> int:
        self.alone_ns.setdefault(what, []).append(found := run(frame, 1))
        return found

    def _adopt(self) -> None:
        """Let the program take the pool over, which is no part of the decision."""
        self._balancer.test_balance(_message(0, NO_KIND))

    def _ask(self, probes: int) -> None:
        self._balancer.set_messages(OWN, probes=probes, timeout_ns=HOUR_NS)

    def _set_rule(self, name: str) -> None:
        self._balancer.pools.set_rule(0, RULES[name.split(",")[0]])

    def _packets(self) -> npt.NDArray[np.int64]:
        """Return the packets of each server, newer than this call."""
        asked_ns = time.monotonic_ns()
        region = BalancerRegion(self._memory)
        deadline = time.monotonic() + SNAPSHOT_S
        while (newest := region.snapshot())["time_ns"] <= asked_ns:
            if time.monotonic() > deadline:
                raise BackendError(f"the balancer has published nothing for {SNAPSHOT_S:.0f} s")
        packets: npt.NDArray[np.int64] = newest["servers"]["packets"].astype(np.int64)
        return packets

    def _check_taken(self, counter: str, expected: int) -> None:
        taken = self._balancer.counters()[counter]
        if taken != expected:
            raise BackendError(f"{counter}: {taken} of {expected} were taken")

    def _check_informed(self, name: str, packets: npt.NDArray[np.int64]) -> None:
        """Raise if a server got flows that no informed decision gives it."""
        avoided = _AVOIDED.get(name.split(",")[0], slice(0))
        if packets.sum() < RUNS or packets[: self.n][avoided].any():
            raise BackendError(f"{name}: not every decision was made with messages")


# Silent servers, those that are full, and the slow one. Charon's candidates are those of the hash.
_AVOIDED: Mapping[str, slice] = {
    **dict.fromkeys(("prequal", "jiq", "c3-rank"), slice(1, None, 2)),
    "peak-ewma": slice(SLOW, SLOW + 1),
}


def _ethernet(server: int) -> bytes:
    return bytes.fromhex(MAC.replace(":", "")) + bytes([2, 0xDC, 0, 0, 1, server]) + b"\x08\x00"


def _ip(protocol: int, source: str, to: str, content: bytes) -> bytes:
    ends = socket.inet_aton(source) + socket.inet_aton(to)
    header = struct.pack("!BBHIBBH", 0x45, 0, 20 + len(content), 0, 64, protocol, 0)
    return header + ends + content


def _message(server: int, kind: int, serial: int = 0) -> bytes:
    """Return a message of ``server_messages.h``: one request in flight, 1 ms."""
    first = struct.pack("!HBBHH", MAGIC, VERSION, kind, server, 0)
    message = first + struct.pack("!QQII", serial, 10**6, 1, 0)
    udp = struct.pack("!4H", MESSAGE_PORT, MESSAGE_PORT, 8 + len(message), 0) + message
    return _ethernet(server) + _ip(17, f"10.0.1.{server}", OWN, udp)


def _syn_ack(server: int, flows: int) -> bytes:
    """Return a server's SYN-ACK with its number in the timestamp, and a report (``l4lb.h``)."""
    stamp = struct.pack("!BBBBII", 1, 1, 8, 10, server << COOKIE_BITS, 0)
    report = struct.pack("!BBH6xHII", REPORT_KIND, 20, REPORT_ID, flows, 1000, 1000)
    options = stamp + report
    tcp = struct.pack("!HHIIBBHHH", 80, 1024, 0, 0, (20 + len(options)) << 2, SYN | ACK, 0, 0, 0)
    return _ethernet(server) + _ip(6, "10.0.0.100", "10.0.0.1", tcp + options)
