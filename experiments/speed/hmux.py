"""Cost of a decision of a switch that is a mux, beside plain forwarding of the same packet.

By BPF_PROG_TEST_RUN in a network namespace of its own; each figure is the mean of many runs on one
packet, the least of several repetitions, which alternate.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from typing import Any

from dcgym.native import bpf_object, require
from experiments.speed.path_rules import tcp_frame

__all__ = ["measure_hmux"]

RUNS, REPETITIONS = 20_000, 15
PORTS = 2
N_HOSTS, FIRST_VIP = 16, 0x80_0000
DIPS = 8


def measure_hmux() -> list[dict[str, Any]]:
    """Time decisions about a packet: plain switch, switch with VIPs, mux of its VIP.

    Returns:
        Rows of ``decision``, ``ns``, and ``over_plain_ns``.
    """
    command = ["unshare", "-n", sys.executable, "-m", __name__]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def _measure() -> list[dict[str, Any]]:
    indexes = []
    for number in range(PORTS):
        _ip(f"link add p{number} type veth peer name p{number}p")
        indexes.append(socket.if_nametoindex(f"p{number}"))
    native = require()
    size = native.HmuxSize(n_vips=64, first_vip=FIRST_VIP, software_mux=N_HOSTS, seed=1)
    plain, mux = (_fabric(indexes, hmux) for hmux in ({}, {"hmux": size}))
    for dip in range(DIPS):
        mux.hmux.set_tunnel(0, dip, dip + 1)
        mux.hmux.set_entry(0, dip, dip)
    mux.hmux.set_block(0, 0, 0, DIPS)
    to_host, to_vip, to_prefix = (tcp_frame(number) for number in (2, FIRST_VIP, FIRST_VIP + 1))
    cases = {
        "plain forwarding": lambda: plain.time_select(to_host, indexes[0], RUNS),
        "to a host, at a switch with VIPs": lambda: mux.time_dip(to_host, indexes[0], RUNS),
        "to a VIP, on to the software mux": lambda: mux.time_dip(to_prefix, indexes[0], RUNS),
        "to a VIP, by tunnel to its server": lambda: mux.time_dip(to_vip, indexes[0], RUNS),
    }
    least = dict.fromkeys(cases, sys.maxsize)
    for _ in range(REPETITIONS):
        for name, run in cases.items():
            least[name] = min(least[name], int(run()))
    base = least["plain forwarding"]
    return [{"decision": n, "ns": ns, "over_plain_ns": ns - base} for n, ns in least.items()]


def _fabric(indexes: list[int], options: dict[str, Any]) -> Any:
    fabric = require().Fabric(
        str(bpf_object("fabric")),
        n_switches=1,
        n_hosts=N_HOSTS,
        n_ports=PORTS,
        n_groups=1,
        **options,
    )
    for number, index in enumerate(indexes):
        fabric.add_port(index, 0, number)
    fabric.set_group(0, 7, indexes, [1.0] * PORTS)
    for host in range(1, N_HOSTS + 1):
        fabric.set_route(0, host, 0)
    return fabric


def _ip(arguments: str) -> None:
    subprocess.run(["ip", *arguments.split()], check=True)


if __name__ == "__main__":
    json.dump(_measure(), sys.stdout)
