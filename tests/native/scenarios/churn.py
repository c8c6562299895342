"""Real connections through a balancer whose weights, rule and members change 100 times a second."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections import Counter
from typing import Any

import numpy as np
from balanced import PORT, VIP, ask, client, join, serve
from network import ip, quiet, run, within

from dcgym.native import bpf_object, require
from dcgym.tasks.balancing.rules import RULES

SERVERS, BALANCER, CLIENT = (1, 2, 3, 4), 9, 20
INTERVAL_S = 0.01
CHANGES = 20  # at least


def part_at(namespace: int, number: int) -> Any:
    """Return the balancer's part at a server."""

    def start() -> Any:
        with open("/proc/sys/net/ipv4/tcp_timestamps", "w") as file:
            file.write("2")
        part = require().LoadReporter(str(bpf_object("l4lb_server")), number)
        part.add_vip(VIP, PORT)
        part.attach(socket.if_nametoindex("eth0"))
        return part

    return within(namespace, start)


class Changes(threading.Thread):
    """Replaces the pool at a fixed rate: three or four servers, any weights, rules in turn."""

    def __init__(self, pools: Any) -> None:
        super().__init__(daemon=True)
        self._pools, self._done = pools, threading.Event()
        self.count = 0

    def run(self) -> None:
        rng = np.random.default_rng(1)
        while not self._done.wait(INTERVAL_S):
            pool = [server for server in SERVERS if server != self.count % 5]
            rule = RULES[("lsq", "sed", "wsapp", "random")[self.count % 4]].number
            self._pools.replace(0, rule, pool, list(rng.uniform(0.5, 2, len(pool))))
            self.count += 1

    def finish(self) -> int:
        """Stop; return how many changes there were."""
        self._done.set()
        self.join()
        return self.count


def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    quiet()
    ip("link add br0 type bridge", "link set dev br0 up")
    nodes = {number: join(number, number in SERVERS) for number in (*SERVERS, BALANCER, CLIENT)}
    home = nodes[CLIENT]
    within(home, lambda: run(f"ip neigh add {VIP} lladdr 02:dc:00:00:00:09 dev eth0"))
    by_cookie = request["consistency"] == "cookie"
    for number in SERVERS:
        serve(nodes[number], number)
    parts = [part_at(nodes[number], number) for number in SERVERS] if by_cookie else []
    balancer = require().Balancer(
        *(str(bpf_object("l4lb")), "02:dc:00:00:00:09"),
        **{"consistency": request["consistency"], "flow_entries": 0 if by_cookie else 4096},
    )
    balancer.add_vip(0, VIP, PORT)
    balancer.set_servers(0, {number: f"02:dc:00:00:00:{number:02x}" for number in SERVERS})
    balancer.pools.replace(0, RULES["random"].number, list(SERVERS), [1.0] * len(SERVERS))
    within(nodes[BALANCER], lambda: balancer.attach(socket.if_nametoindex("eth0")))
    changes = Changes(balancer.pools)
    changes.start()
    connections = [client(home, socket.SOCK_STREAM) for _ in range(request["connections"])]
    rounds: list[list[int]] = []
    deadline = time.monotonic() + 30
    while len(rounds) < request["rounds"] or changes.count < CHANGES:
        assert time.monotonic() < deadline, "the pool does not change"
        if len(rounds) < request["rounds"]:
            rounds.append([ask(connection) for connection in connections])
    result = {
        "moved": sum(rounds[0] != later for later in rounds),
        "answered": Counter(answer for answers in rounds for answer in answers),
        "changes": changes.finish(),
        "counters": {name: n for name, n in balancer.counters().items() if n},
        "parts": len(parts),
    }
    json.dump(result, sys.stdout)


main()
