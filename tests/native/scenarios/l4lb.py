"""Real TCP and UDP through a balancer on a bridge: client, balancer and two servers, one VIP."""

from __future__ import annotations

import json
import mmap
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from balanced import PORT, VIP, ask, asked, client, join, serve
from network import ip, quiet, run, wait_for, within

from dcgym.monitors.balancer.layout import REGION, BalancerRegion
from dcgym.native import bpf_object, require

ROUND_ROBIN = 2


def balancer_on(namespace: int) -> Any:
    """Return a balancer of two servers on the node's interface."""
    balancer = require().Balancer(
        str(bpf_object("l4lb")), "02:dc:00:00:00:09", snapshot_interval_ns=1_000_000
    )
    for protocol in ("tcp", "udp"):
        balancer.add_vip(0, VIP, PORT, protocol)
    balancer.set_servers(0, {number: f"02:dc:00:00:00:{number:02x}" for number in (1, 2)})
    balancer.pools.replace(0, ROUND_ROBIN, [1, 2], [1.0, 1.0])
    within(namespace, lambda: balancer.attach(socket.if_nametoindex("eth0")))
    return balancer


def refused(namespace: int) -> int:
    """Return how many packets the namespace's stack refused as for another address."""
    path = Path("/proc/thread-self/net/snmp")
    names, values = within(namespace, path.read_text).splitlines()[:2]
    return int(values.split()[names.split().index("InAddrErrors")])


def wait_until_free(node: int, client_node: int) -> None:
    """Wait until packets to the VIP come to the stack of the node, which refuses them."""
    before = refused(node)
    with client(client_node, socket.SOCK_DGRAM) as datagrams:

        def came_through() -> bool:
            datagrams.send(b"who")
            return refused(node) > before

        wait_for("the stack to see a packet to the VIP", came_through)


def answer_then_kill(node: int, client_node: int) -> list[int]:
    """Balance in a process of its own, and kill that; return who answered before."""
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        balancer = balancer_on(node)
        os.write(tell, b"!")
        signal.pause()
        balancer.close()
    os.close(tell)
    try:
        assert os.read(ready, 1), "the other process could not balance"
        return asked(client_node, socket.SOCK_DGRAM, 2)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def completed(balancer: Any, total: int) -> list[int]:
    """Wait until so many connections were seen to end; return how many by server."""
    region = BalancerRegion(mmap.mmap(balancer.region_map_fd, REGION.itemsize))
    wait_for("ends", lambda: region.snapshot()["servers"]["completed"].sum() >= total)
    return [int(region.snapshot()["servers"]["completed"][number]) for number in (1, 2)]


def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    quiet()
    ip("link add br0 type bridge", "link set dev br0 up")
    nodes = {number: join(number, number in (1, 2)) for number in (1, 2, 9, 20)}
    run_in = nodes[20]
    within(run_in, lambda: run(f"ip neigh add {VIP} lladdr 02:dc:00:00:00:09 dev eth0"))
    for number in (1, 2):
        serve(nodes[number], number)
    balancer = balancer_on(nodes[9])
    result: dict[str, Any] = {}
    result["tcp"] = asked(run_in, socket.SOCK_STREAM, request["connections"])
    result["completed"] = completed(balancer, request["connections"])
    result["udp"] = asked(run_in, socket.SOCK_DGRAM, request["datagrams"])
    with client(run_in, socket.SOCK_STREAM) as connection:
        result["kept"] = [ask(connection)]
        # Whose turn it was depends on what was sent twice; now it is the other server's alone.
        balancer.pools.replace(0, ROUND_ROBIN, [3 - result["kept"][0]], [1.0])
        result["kept"] += [ask(connection), ask(connection)]
    result["counters"] = {name: n for name, n in balancer.counters().items() if n}
    balancer.close()  # from another namespace than the interface's
    wait_until_free(nodes[9], run_in)
    result["before_kill"] = answer_then_kill(nodes[9], run_in)
    wait_until_free(nodes[9], run_in)
    json.dump(result, sys.stdout)


main()
