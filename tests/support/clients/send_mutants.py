"""usage: send_mutants.py ADDRESS PORT COUNT: send broken packets to a virtual address."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.support.l4lb_rig import Packet
from tests.support.mutants import mutants

ETH_P_ALL = 3  # linux/if_ether.h


def way_to(address: str, port: int) -> tuple[str, str, str]:
    """Return interface, next MAC and own address on the way, as seen on a connection's packets."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as seen:
        seen.settimeout(10)
        with socket.create_connection((address, port), timeout=10) as connection:
            own = connection.getsockname()[0]
            while True:
                frame, (interface, *_) = seen.recvfrom(2048)
                if frame[30:34] == socket.inet_aton(address):
                    return interface, frame[:6].hex(":"), own


def main(address: str, port: int, count: int) -> None:
    """Print how many frames were sent."""
    interface, mac, own = way_to(address, port)
    packet = Packet(to=address, to_port=port, client=own, mac=mac)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind((interface, 0))
        sent = sum(sender.send(frame) > 0 for frame in mutants(packet, count))
    print(f"{sent} frames sent")


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
