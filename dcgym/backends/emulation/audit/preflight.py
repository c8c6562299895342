"""Before the first episode: do a few links do what they are configured to do?

Bursts of datagrams towards one host fill the queues on the way. While a queue is not empty its port
must send at exactly its rate; when it drops, its length is its limit; and marks must begin where
the queue passes the threshold. The round trip of an idle network is what its links make it.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.backends.fidelity import LIMITS
from dcgym.errors import CommandError
from dcgym.monitors import Snapshot
from dcgym.topologies import Port, Topology
from dcgym.topologies.round_trips import frame_bytes, full_frame_bytes

__all__ = ["Probe", "evaluate", "run_preflight"]

PING_BYTES = 98
LEAST_PINGS, MOST_PINGS = 5, 200
# Longer than it takes to fill 400 KB at 10 Mbit/s; what takes longer is not measured.
BURST_S = 0.6
QUEUE_OVERFILL = 1.3
MOST_BURST_BYTES = 3_500_000
MOST_SENDERS = 3
# Below these a frame more or less would hide an error, of 1514 bytes one of 1 %.
LEAST_BYTES = 100 * 1514
LEAST_LOOKS = 20
LEAST_NS = 20_000_000

Figures = dict[str, float]
Look = tuple[Snapshot, int]


@dataclass(frozen=True)
class Probe:
    """What the preflight may do to a network.

    Attributes:
        look: Reads the state, and the time (CLOCK_MONOTONIC, ns) when that was done.
        burst: Sends datagrams: names of the senders, of the receiver, how many from each.
        hold: Holds back (true) what the hosts have to send, or lets it go (false).
        ping: Pings the second host from the first so many times, waits so many seconds for the last
            answer, and returns what ping(8) printed.
        flush: Empties every queue.
    """

    look: Callable[[], Look]
    burst: Callable[[Sequence[str], str, int], None]
    hold: Callable[[bool], None]
    ping: Callable[[str, str, int, float], str]
    flush: Callable[[], None]


@dataclass
class Trace:
    """What one port showed at each look.

    Attributes:
        time_ns: CLOCK_MONOTONIC at which each look began.
        done_ns: When it was over; the counters are of some moment between.
        backlog_bytes: Its queue.
        peak_bytes: The longest queue so far.
        tx_bytes: What it has sent.
        marks: What it has marked.
        drops: What it has dropped.
    """

    time_ns: npt.NDArray[np.float64]
    done_ns: npt.NDArray[np.float64]
    backlog_bytes: npt.NDArray[np.float64]
    peak_bytes: npt.NDArray[np.float64]
    tx_bytes: npt.NDArray[np.float64]
    marks: npt.NDArray[np.float64]
    drops: npt.NDArray[np.float64]


def run_preflight(topology: Topology, probe: Probe) -> Figures:
    """Measure a sample of the links; takes about a second.

    Args:
        topology: The network as it should be.
        probe: What may be done to it.

    Returns:
        The worst of each figure, by the names of `dcgym.backends.fidelity.LIMITS`;
        NaN where nothing could be measured, as where one host alone could not fill a queue.
    """
    hosts = [host.name for host in topology.hosts]
    found = [{"preflight_rtt_excess_ms": _rtt_excess_ms(topology, probe, hosts)}]
    found += [_measure(topology, probe, target) for target in dict.fromkeys((hosts[-1], hosts[0]))]
    return _worst_of(found)


def _measure(topology: Topology, probe: Probe, target: str) -> Figures:
    """Return the worst figures of the ports that lead to a host.

    A wrong rate is measured again: a machine that paused meanwhile did that once, a wrong link is
    wrong again.
    """
    figures = _measure_once(topology, probe, target)
    error = figures["preflight_rate_error"]
    if LIMITS["preflight_rate_error"].status(error) != "ok":
        again = _measure_once(topology, probe, target)["preflight_rate_error"]
        figures["preflight_rate_error"] = min(error, again)
    return figures


def _measure_once(topology: Topology, probe: Probe, target: str) -> Figures:
    looks = _fill(topology, probe, target)
    probe.flush()
    ports = enumerate(topology.switch_ports)
    return _worst_of([evaluate(port, _trace(looks, index)) for index, port in ports])


def evaluate(port: Port, trace: Trace) -> Figures:
    """Compare what a port did with its configuration.

    Args:
        port: The port as it should be.
        trace: What it did.
    """
    return {
        "preflight_rate_error": _rate_error(port, trace),
        "preflight_queue_error": _queue_error(port, trace),
        "preflight_mark_error": _mark_error(port, trace),
    }


def _fill(topology: Topology, probe: Probe, target: str) -> list[Look]:
    """Overfill the queue in front of a host and watch every port meanwhile."""
    sources = _senders(topology, target)
    port = topology.ports(target)[0]
    rate_bps = min(topology.ports(name)[0].rate_bps for name in sources)
    burst_bytes = min(QUEUE_OVERFILL * port.queue_bytes, BURST_S * rate_bps / 8, MOST_BURST_BYTES)
    looks = [probe.look()]
    # All at once: one after the other the hosts would not overfill a fast link.
    probe.hold(True)
    probe.burst(sources, target, max(1, int(burst_bytes / full_frame_bytes(topology))))
    probe.hold(False)
    # A token bucket looks at its new rate when its old timer fires, or when one more packet comes.
    probe.burst(sources, target, 1)
    # Meanwhile all may be on the wires.
    flight_s = max(_flight(topology, name, target).most_ms for name in sources) / 1e3
    began = time.monotonic()
    while (passed_s := time.monotonic() - began) < BURST_S + flight_s:
        looks.append(probe.look())
        is_over = len(looks) > LEAST_LOOKS and passed_s > flight_s
        if is_over and not looks[-1][0].ports["backlog_bytes"].any():
            break
        time.sleep(0.0005)
    return looks


def _senders(topology: Topology, target: str) -> list[str]:
    """Hosts near the target and far from it, so that several paths meet in front of it."""
    names = [host.name for host in topology.hosts]
    at = names.index(target)
    places = (at + 1, at - 1, at + len(names) // 2, at + 2)
    chosen = dict.fromkeys(names[place % len(names)] for place in places)
    return [name for name in chosen if name != target][:MOST_SENDERS]


def _trace(looks: Sequence[Look], index: int) -> Trace:
    def column(name: str) -> npt.NDArray[np.float64]:
        return np.array([look.ports[name][index] for look, _ in looks], np.float64)

    return Trace(
        np.array([look.time_ns for look, _ in looks], np.float64),
        np.array([done_ns for _, done_ns in looks], np.float64),
        column("backlog_bytes"),
        column("peak_bytes"),
        column("tx_bytes"),
        column("marks"),
        column("drops"),
    )


def _rate_error(port: Port, trace: Trace) -> float:
    """Compare with the rate over the longest time in which the queue was never empty.

    The time is known as well as the looks were short, the bytes to a frame; only what that does
    not explain counts.
    """
    most_bytes = frame_bytes(port.link)
    begin, end = _longest_run(trace.backlog_bytes > 2 * most_bytes)
    sent = trace.tx_bytes[end] - trace.tx_bytes[begin]
    least_ns = trace.time_ns[end] - trace.done_ns[begin]
    most_ns = trace.done_ns[end] - trace.time_ns[begin]
    if sent < LEAST_BYTES or least_ns < LEAST_NS:
        return math.nan
    byte_ns = 8e9 / port.rate_bps
    too_fast = (sent - most_bytes) * byte_ns / most_ns - 1
    too_slow = 1 - (sent + most_bytes) * byte_ns / least_ns
    return float(max(too_fast, too_slow, 0.0))


def _queue_error(port: Port, trace: Trace) -> float:
    """Compare the limit with the longest queue, where the port dropped; a frame may not fit."""
    # A fast port may be empty again before anybody looks; its peak stays.
    longest = max(trace.backlog_bytes.max(), trace.peak_bytes.max())
    if trace.drops[-1] == trace.drops[0]:
        return math.nan
    most_bytes = frame_bytes(port.link)
    beyond = max(longest - port.queue_bytes, port.queue_bytes - most_bytes - longest, 0.0)
    return float(beyond / port.queue_bytes)


def _mark_error(port: Port, trace: Trace) -> float:
    """Compare a step with the queues just before and just after the first mark."""
    threshold, most_bytes = port.mark_bytes, frame_bytes(port.link)
    if threshold is None or port.link.mark_max_bytes is not None or port.link.mark_probability < 1:
        return math.nan
    marked = np.flatnonzero(trace.marks > trace.marks[0])
    if not marked.size:
        return 1.0 if trace.backlog_bytes.max() > threshold + 2 * most_bytes else math.nan
    low = trace.backlog_bytes[marked[0] - 1] - most_bytes
    high = trace.peak_bytes[marked[0]] + most_bytes
    return float(max(low - threshold, threshold - high, 0.0) / threshold)


def _longest_run(chosen: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """First and last index of the longest run of true; the same index where there is none."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], chosen, [False])).astype(np.int8)))
    if not edges.size:
        return 0, 0
    begins, ends = edges[::2], edges[1::2] - 1
    longest = int(np.argmax(ends - begins))
    return int(begins[longest]), int(ends[longest])


@dataclass(frozen=True)
class Flight:
    """What becomes of a ping on its way in one direction, along the first of the equal-cost paths.

    Attributes:
        least_ms: Time that the links take for it.
        most_ms: The same, with the whole jitter of every link.
        arrives: Probability that it is not lost.
    """

    least_ms: float
    most_ms: float
    arrives: float


def _rtt_excess_ms(topology: Topology, probe: Probe, hosts: Sequence[str]) -> float:
    source, target = hosts[0], hosts[-1]
    if source == target:
        return math.nan
    flight = _flight(topology, source, target)
    count = _enough_pings(flight.arrives**2)
    if count > MOST_PINGS:
        return math.nan
    try:
        answer = probe.ping(source, target, count, 1 + 2 * flight.most_ms / 1e3)
    except CommandError:
        return math.inf
    found = re.search(r"= ([\d.]+)/", answer)
    if found is None:
        return math.inf
    fastest_ms = float(found[1])
    return max(2 * flight.least_ms - fastest_ms, fastest_ms - 2 * flight.most_ms, 0.0)


def _enough_pings(arrives: float) -> int:
    """Return how many pings are all lost once in a million times, 5 at least."""
    if arrives >= 1:
        return LEAST_PINGS
    needed = math.log(1e-6) / math.log(1 - arrives) if arrives > 0 else math.inf
    return max(LEAST_PINGS, math.ceil(min(needed, MOST_PINGS + 1)))


def _flight(topology: Topology, source: str, target: str) -> Flight:
    port, total_ns, jitter_ns, arrives = topology.ports(source)[0], 0.0, 0, 1.0
    while True:
        link = port.link
        total_ns += PING_BYTES * 8e9 / port.rate_bps + link.delay_ns
        jitter_ns += link.jitter_ns
        arrives *= 1 - link.loss_probability
        if port.peer == target:
            return Flight(total_ns / 1e6, (total_ns + jitter_ns) / 1e6, arrives)
        number = topology.next_hops(port.peer, target)[0]
        port = next(p for p in topology.ports(port.peer) if p.number == number)


def _worst_of(found: Sequence[Figures]) -> Figures:
    names = dict.fromkeys(name for figures in found for name in figures)
    return {name: _worst([figures[name] for figures in found if name in figures]) for name in names}


def _worst(values: Sequence[float]) -> float:
    measured = [value for value in values if not math.isnan(value)]
    return max(measured, default=math.nan)
