"""What a fabric carries and what it costs: ping, one TCP flow, small datagrams, processor time."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

from dcgym.errors import BackendError, CommandError
from experiments.speed.networks import Execute, network

__all__ = ["measure_fabric", "measure_small_packets_pps", "measure_tcp"]

PINGS = 200
TCP_SECONDS = 3
UDP_SECONDS = 2
SMALL_BYTES = 64
SERVER_DEADLINE_S = 5.0


def measure_fabric(kind: str) -> dict[str, Any]:
    """All figures of one kind of network."""
    with network(kind) as execute:
        result: dict[str, Any] = {"network": kind, "rtt_us": measure_rtt_us(execute)}
        result["tcp_gso_bps"], result["gso_ms_per_gbit"] = measure_tcp(execute)
        for host in ("h1", "h2"):
            name = _interface(execute, host)
            execute(host, "ethtool", "-K", name, "tso", "off", "gso", "off", "gro", "off")
        result["tcp_1500_bps"], result["1500_ms_per_gbit"] = measure_tcp(execute)
        result["small_kpps"] = measure_small_packets_pps(execute) / 1e3
    return result


def measure_rtt_us(execute: Execute) -> float:
    """Mean round trip of ping."""
    output = execute("h1", "ping", "-n", "-q", "-c", str(PINGS), "-i", "0.002", "10.0.0.2")
    found = re.search(r"= [\d.]+/([\d.]+)/", output)
    if found is None:
        raise BackendError(f"ping printed no round trip: {output.strip()}")
    return float(found[1]) * 1000


def measure_tcp(execute: Execute) -> tuple[float, float]:
    """Measure one TCP flow from h1 to h2.

    Returns:
        Throughput in bit/s after the first second, and the processor time of the whole machine in
        ms for each Gbit carried: sender, fabric and receiver together, less where it is idle.
    """
    before_s = _busy_s()
    arguments = ("--time", str(TCP_SECONDS), "--omit", "1")
    result = _iperf3(execute, TCP_SECONDS + 1, *arguments)
    busy_s = _busy_s() - before_s
    carried_gbit = sum(interval["sum"]["bytes"] for interval in result["intervals"]) * 8e-9
    throughput_bps = float(result["end"]["sum_received"]["bits_per_second"])
    return throughput_bps, busy_s * 1e3 / carried_gbit


def measure_small_packets_pps(execute: Execute) -> float:
    """Measure datagrams of 64 bytes a second that h2 gets while h1 sends all it can."""
    arguments = ("--udp", "--bitrate", "0", "--length", str(SMALL_BYTES))
    result = _iperf3(execute, UDP_SECONDS, *arguments, "--time", str(UDP_SECONDS))
    seen = result["end"]["sum"]
    return float((seen["packets"] - seen["lost_packets"]) / seen["seconds"])


def _iperf3(execute: Execute, seconds: int, *arguments: str) -> dict[str, Any]:
    execute("h2", "iperf3", "--server", "--one-off", "--daemon")
    deadline = time.monotonic() + SERVER_DEADLINE_S
    command = ("iperf3", "--client", "10.0.0.2", "--json", *arguments)
    while True:
        try:
            return dict(json.loads(execute("h1", *command, timeout_s=seconds + 20)))
        except CommandError:
            # The server forks to the background before it listens.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _busy_s() -> float:
    """Seconds that the machine's processors have worked since boot (proc(5))."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    if words[0] != "cpu":
        raise BackendError("/proc/stat does not begin with the line of all processors")
    user, nice, system, _idle, _iowait, irq, softirq = map(int, words[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _interface(execute: Execute, host: str) -> str:
    listing = execute(host, "ip", "link", "show")
    for found in re.finditer(r"^\d+: ([\w-]+)@", listing, re.MULTILINE):
        if found[1] != "lo":
            return str(found[1])
    raise BackendError(f"{host} has no interface")
