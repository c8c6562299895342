"""Cost of the second level by BPF_PROG_TEST_RUN: a device for a new flow, and a report taken.

Balancers with and without devices are timed in turn, so that both see the same machine; each figure
is the least of several repetitions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from dcgym.tasks.accelerators.rules import DEVICE_RULES
from experiments.speed.balancer import HOUR_NS, MAC, RULES, SYN, benchmark_frame, make_balancer

__all__ = ["measure_device_choices", "measure_device_reports"]

# Short runs, many times: an interrupt then spoils one of them.
SERVERS, RUNS, REPETITIONS = 64, 5000, 40
SERVER_RULES = ("ecmp", "sed")
OWN = "10.0.0.99"
REPORT_TYPE, STATUS_KIND, MESSAGE_PORT = 0x88B6, 4, 47


def measure_device_choices() -> list[dict[str, Any]]:
    """Time the placing of a new flow on one of 64 servers, with and without a second level.

    Every server has two accelerators and has reported of all three devices.

    Returns:
        Rows of server rule and device rule, ns with one level and with both, their difference, and
        the same where reports older than an hour do not count.
    """
    one_level, two_levels = make_balancer(SERVERS, collect=True), _with_devices(2)
    balancers = (one_level, two_levels)
    frame = benchmark_frame(1024, SYN)
    for balancer in balancers:
        balancer.set_timeouts(0, HOUR_NS, HOUR_NS, HOUR_NS)
    rows = []
    for server_rule in SERVER_RULES:
        for balancer in balancers:
            balancer.pools.set_rule(0, RULES[server_rule])
        for rule in DEVICE_RULES.values():
            alone, both, aged = _in_turn(
                lambda: one_level.time_select(frame, RUNS),
                lambda: _timed_choice(two_levels, rule.number, 0, frame),  # noqa: B023
                lambda: _timed_choice(two_levels, rule.number, HOUR_NS, frame),  # noqa: B023
            )
            rows.append(
                {
                    "server rule": server_rule,
                    "device rule": rule.name,
                    "one level": alone,
                    "both": both,
                    "difference": both - alone,
                    "with a limit of age": aged - alone,
                }
            )
    for balancer in balancers:
        balancer.close()
    return rows


def measure_device_reports() -> list[dict[str, Any]]:
    """Time what becomes of an agent's packet.

    Returns:
        Rows of packet and ns.
    """
    balancer = _with_devices(2)
    frames = {
        "header, taken": _header(3, 1, 3, 1),
        "status, taken": _status(3, 1),
        "header, of another's MAC: dropped": _header(3, 1, 3, 2),
        "header, of no device: dropped": _header(3, 7, 3, 7),
    }
    found = _in_turn(
        *(lambda frame=frame: balancer.time_report(frame, RUNS) for frame in frames.values())
    )
    taken = balancer.counters()["device_reports"]
    assert taken >= 2 * RUNS * REPETITIONS, f"{taken} reports were taken"
    balancer.close()
    return [{"packet": name, "ns": ns} for name, ns in zip(frames, found, strict=True)]


def _in_turn(*measures: Callable[[], int]) -> list[int]:
    rounds = [[measure() for measure in measures] for _ in range(REPETITIONS)]
    return [min(column) for column in zip(*rounds, strict=True)]


def _timed_choice(balancer: Any, rule: int, max_age_ns: int, frame: bytes) -> int:
    balancer.devices.set_policy(0, rule=rule, max_age_ns=max_age_ns)
    ns: int = balancer.time_select(frame, RUNS)
    return ns


def _mac(server: int, device: int) -> str:
    return f"02:dc:00:{device:02x}:01:{server:02x}"


def _with_devices(accelerators: int) -> Any:
    """Return a balancer of 64 servers whose devices have all reported."""
    balancer = make_balancer(SERVERS, collect=True, devices=True)
    balancer.set_messages(OWN)
    numbers = range(accelerators + 1)
    for server in range(SERVERS):
        balancer.set_accelerators(0, server, {d: _mac(server, d) for d in numbers[1:]})
    balancer.devices.set_policy(
        0,
        weights=[[5.0] + [1.0] * accelerators] * SERVERS,
        members={server: list(numbers) for server in range(SERVERS)},
    )
    loads = np.random.default_rng(1).integers(0, 100, (SERVERS, accelerators + 1))
    for server in range(SERVERS):
        for device in numbers:
            balancer.test_balance(_header(server, device, server, device, loads[server, device]))
    return balancer


def _header(server: int, device: int, by_server: int, by_device: int, load: int = 50) -> bytes:
    """Return P4Hauler's header of a device, from a device's MAC."""
    macs = bytes.fromhex((MAC + _mac(by_server, by_device)).replace(":", ""))
    return macs + struct.pack("!H6BHI", REPORT_TYPE, 1, 0, server, device, int(load), 20, 7, 0)


def _status(server: int, device: int) -> bytes:
    """Return P4Mite's status of a device."""
    macs = bytes.fromhex((MAC + _mac(server, device)).replace(":", ""))
    message = struct.pack("!HBBHHQQIBBH", 0xDC4D, 1, STATUS_KIND, server, 0, 0, 0, 0, device, 1, 0)
    udp = struct.pack("!4H", MESSAGE_PORT, MESSAGE_PORT, 8 + len(message), 0)
    ip = struct.pack("!BBHIBBH", 0x45, 0, 28 + len(message), 0, 64, 17, 0)
    return macs + bytes([8, 0]) + ip + bytes([10, 0, 1, server, 10, 0, 0, 99]) + udp + message
