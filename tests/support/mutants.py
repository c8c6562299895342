"""Packets for a virtual address with bytes changed, cut off, repeated and added."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from tests.support.l4lb_rig import ACK, FIN, RST, SYN, UDP, Packet, timestamps

HEADER_BYTES, LONGEST = 14, 1514  # of Ethernet


def seeds_of(packet: Packet) -> list[bytes]:
    """Return the frames that mutants are made of; all go where `packet` goes."""
    kinds = [
        *(replace(packet, flags=flags) for flags in (SYN, ACK, ACK | FIN, RST)),
        replace(packet, flags=ACK, tcp_options=timestamps(5, 7), body=b"GET / HTTP/1.1\r\n\r\n"),
        replace(packet, protocol=UDP, body=bytes(40)),
        replace(packet, flags=ACK, options=b"\x94\x04\0\0"),  # router alert, RFC 2113
        replace(packet, fragment=0x2000),
        replace(packet, next_header=1, body=b"\x08\0\xf7\xff" + bytes(32)),
        replace(packet, next_header=4, body=bytes(60)),
    ]
    return [kind.frame() for kind in kinds]


def mutants(packet: Packet, count: int, shortest: int = HEADER_BYTES) -> Iterator[bytes]:
    """Draw mutants; the destination's MAC stays, or few of them would arrive."""
    draws = random.Random(1)
    whole = seeds_of(packet)
    for _ in range(count):
        frame = bytearray(draws.choice(whole))
        for _ in range(draws.randint(0, 4)):
            frame[draws.randrange(HEADER_BYTES - 2, len(frame))] = draws.choice(
                (0, 0xFF, draws.randrange(256))
            )
        kind = draws.randrange(4)
        if kind == 0:
            del frame[draws.randrange(shortest, len(frame) + 1) :]
        elif kind == 1:
            frame += draws.randbytes(draws.randrange(1, LONGEST - len(frame)))
        elif kind == 2:
            start = draws.randrange(HEADER_BYTES, len(frame))
            frame[start:start] = frame[start : start + draws.randrange(1, 40)]
        yield bytes(frame)
