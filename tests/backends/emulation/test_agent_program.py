"""The agents' packets byte by byte, and which packets of a host they take for requests."""

from __future__ import annotations

import json
import mmap
import os
import struct
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from dcgym.backends.emulation.devices.agent_costs import AgentCosts
from dcgym.backends.emulation.emulator import agent_program as agent
from dcgym.backends.emulation.wire.device_messages import AGENT_DTYPE
from dcgym.traffic.http.servers import SERVER_DTYPE
from tests.support.device_rig import header_report, status
from tests.support.l4lb_rig import ACK, SYN, TCP, UDP, Packet

# The agent has only the standard library: what it repeats is compared here.
STATUS_AT = 14 + 20 + 8


def test_reports_are_those_of_the_headers() -> None:
    fields = (agent.REPORT_VERSION, 0, 3, 1, 71, 12, 9, 5)
    frame = header_report(3, 1, load=71, memory=12, queue=9, sequence=5)
    assert frame[12:] == struct.pack("!H", agent.REPORT_TYPE) + agent.HEADER.pack(*fields)
    kind = (agent.MESSAGE_MAGIC, agent.MESSAGE_VERSION, agent.STATUS)
    assert status(3, 1, 1, sequence=5)[STATUS_AT:] == agent.MESSAGE.pack(
        *kind, 3, 0, 5, 0, 0, 1, True, 0
    )


def test_rows_are_those_of_servers_and_of_the_environment() -> None:
    names = list(SERVER_DTYPE.names or ())
    assert agent.ROW.size == SERVER_DTYPE.itemsize
    for name, position in (
        ("busy", 0),
        ("workers_busy", 3),
        ("workers", 4),
        ("sequence", 5),
        ("heartbeat_ns", 9),
        ("busy_ns", 11),
    ):
        assert names[position] == name
    assert AGENT_DTYPE.itemsize == 8 * agent.SHOWN_WORDS


SENDER = """
import json, sys
from dcgym.backends.emulation.emulator.agent_program import Agent

class Sender(Agent):
    def put(self, report):
        pass
    def run(self):
        while True:
            self.send(b"")

Sender(json.loads(sys.argv[1])).run()
"""


def test_counts_never_fall_before_the_eyes_of_a_reader() -> None:
    shown_fd, enough = os.memfd_create("dcgym-agents"), 100_000
    os.ftruncate(shown_fd, 2 * AGENT_DTYPE.itemsize)
    told = {"server": 0, "device": 1, "number": 1, "seed": 1, "loss": 0.5, "delay_ns": 0}
    command = [sys.executable, "-c", SENDER, json.dumps({**told, "shown_fd": shown_fd})]
    costs = AgentCosts(mmap.mmap(shown_fd, 0, prot=mmap.PROT_READ), [])
    before, deadline_s = (0, 0), time.monotonic() + 60
    with subprocess.Popen(command, pass_fds=(shown_fd,)) as process:
        try:
            while min(before) < enough and time.monotonic() < deadline_s:
                now = costs.counts()
                assert now[0] >= before[0] and now[1] >= before[1]
                before = now
        finally:
            process.kill()
    os.close(shown_fd)
    assert min(before) >= enough


REQUEST = Packet(port=40000, to_port=80, protocol=UDP, body=b"GET / HTTP/1.1\r\n\r\n")


@pytest.mark.parametrize(
    ("packet", "found"),
    [
        (REQUEST, (40000, 80)),
        (replace(REQUEST, options=bytes(8)), (40000, 80)),
        (replace(REQUEST, protocol=TCP, flags=ACK), (40000, 80)),
        (replace(REQUEST, protocol=TCP, flags=ACK, tcp_options=bytes(12)), (40000, 80)),
        # No data: handshakes and acknowledgements are no requests.
        (replace(REQUEST, protocol=TCP, flags=SYN, body=b""), None),
        (replace(REQUEST, protocol=TCP, flags=ACK, body=b"", tcp_options=bytes(12)), None),
        (replace(REQUEST, next_header=1), None),
        (replace(REQUEST, to="fd00::100"), None),
    ],
)
def test_requests_are_packets_with_data(packet: Packet, found: tuple[int, int] | None) -> None:
    ports = agent.payload_ports(packet.frame())
    assert (None if ports is None else ports[:2]) == found
    for size in range(len(packet.frame())):
        # However little of a packet is there, nothing is read beyond it.
        agent.payload_ports(packet.frame()[:size])
