"""Real TCP through a balancer that keeps nothing: the servers' numbers travel in timestamps."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

from balanced import PORT, VIP, ask, client, join, serve
from network import ip, quiet, run, within

from dcgym.errors import ConfigError
from dcgym.native import bpf_object, require
from dcgym.tasks.balancing.rules import RULES

SERVERS, BALANCER, CLIENT = (1, 2, 3, 4), 9, 20


def sysctl(namespace: int, name: str, value: int) -> None:
    """Set a sysctl of IPv4 in a namespace."""
    path = Path("/proc/sys/net/ipv4") / name
    within(namespace, lambda: path.write_text(str(value)))


def reporter_on(namespace: int, number: int, load_map: int) -> Any:
    """Return the balancer's part at a server."""
    reporter = require().LoadReporter(str(bpf_object("l4lb_server")), number, load_map)
    reporter.add_vip(VIP, PORT)
    within(namespace, lambda: reporter.attach(socket.if_nametoindex("eth0")))
    return reporter


def balancer_on(namespace: int, rule: str, servers: tuple[int, ...]) -> Any:
    """Return a balancer without a flow table."""
    balancer = require().Balancer(
        str(bpf_object("l4lb")), "02:dc:00:00:00:09", consistency="cookie", flow_entries=0
    )
    balancer.add_vip(0, VIP, PORT)
    balancer.set_servers(0, {number: f"02:dc:00:00:00:{number:02x}" for number in SERVERS})
    pool(balancer, rule, servers)
    within(namespace, lambda: balancer.attach(socket.if_nametoindex("eth0")))
    return balancer


def syn_cookies(namespace: int) -> int:
    """Return how many SYN-ACKs of the namespace were cookies."""
    path = Path("/proc/thread-self/net/netstat")
    names, values = within(namespace, path.read_text).splitlines()[:2]
    return int(values.split()[names.split().index("SyncookiesSent")])


def refusal(namespace: int) -> str:
    """Return what is said of a server whose timestamps have random offsets."""
    sysctl(namespace, "tcp_timestamps", 1)
    try:
        reporter_on(namespace, 1, -1)
    except ConfigError as error:
        return str(error)
    return ""


def counted(balancer: Any) -> dict[str, int]:
    """Return the counters that are not 0."""
    return {name: count for name, count in balancer.counters().items() if count}


def pool(balancer: Any, rule: str, servers: tuple[int, ...]) -> None:
    """Replace the pool by one of equal weights."""
    balancer.pools.replace(0, RULES[rule].number, list(servers), [1.0] * len(servers))


def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    quiet()
    ip("link add br0 type bridge", "link set dev br0 up")
    nodes = {number: join(number, number in SERVERS) for number in (*SERVERS, BALANCER, CLIENT)}
    home = nodes[CLIENT]
    within(home, lambda: run(f"ip neigh add {VIP} lladdr 02:dc:00:00:00:09 dev eth0"))
    load_map = require().create_load_map(8)
    reporters = []
    for number in SERVERS:
        sysctl(nodes[number], "tcp_timestamps", 2)
        serve(nodes[number], number)
        reporters.append(reporter_on(nodes[number], number, load_map))
    rule, n = request["rule"], request["connections"]
    balancer = balancer_on(nodes[BALANCER], rule, (1, 2, 3))
    kept = [client(home, socket.SOCK_STREAM) for _ in range(n)]
    rounds = [[ask(connection) for connection in kept]]
    pool(balancer, rule, (2, 3, 4))
    rounds.append([ask(connection) for connection in kept])
    counters = [counted(balancer)]
    balancer.close()
    balancer = balancer_on(nodes[BALANCER], rule, (4,))
    rounds.append([ask(connection) for connection in kept])
    answers = [ask(client(home, socket.SOCK_STREAM)) for _ in range(n)]
    sysctl(nodes[4], "tcp_syncookies", 2)
    answers += [ask(client(home, socket.SOCK_STREAM)) for _ in range(n)]
    counters.append(counted(balancer))
    sysctl(home, "tcp_timestamps", 0)
    pool(balancer, rule, (1, 2, 3, 4))
    without = [client(home, socket.SOCK_STREAM) for _ in range(n)]
    pairs = [(ask(connection), ask(connection)) for connection in without]
    counters.append(counted(balancer))
    result = {"rounds": rounds, "answers": answers, "pairs": pairs, "counters": counters}
    result |= {"cookies_sent": syn_cookies(nodes[4]), "refused": refusal(home)}
    json.dump(result, sys.stdout)


main()
