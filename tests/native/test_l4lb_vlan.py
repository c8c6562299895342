"""Tagged frames to a balancer: left to the stack and counted, at every hook."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.l4lb_rig import OK, OWN_MAC, VIP4, VIP6, XDP_PASS, Packet, Rig, mac, mac_bytes

pytestmark = pytest.mark.native

Scenario = Callable[[str, dict[str, Any]], dict[str, Any]]
TAGS = (0x8100, 0x88A8)


def tagged(packet: Packet, kind: int, vlan: int = 7) -> bytes:
    """Return a packet's frame with a tag."""
    frame = packet.frame()
    return frame[:12] + struct.pack("!HH", kind, vlan) + frame[12:]


@pytest.mark.parametrize("hook", ["tc", "xdp"])
def test_tagged_frames_are_left_to_the_stack_and_counted(hook: str) -> None:
    rig = Rig(hook=hook)
    try:
        rig.pool("ecmp", [1])
        for kind in TAGS:
            for to in (VIP4, VIP6):
                frame = tagged(Packet(to=to), kind)
                left = {"tc": OK, "xdp": XDP_PASS}[hook]
                assert rig.native.test_balance(frame) == (left, frame)
        assert rig.counted() == {"vlan": 4}
        assert rig.snapshot()["syns"] == 0
        # What is for others is not looked at.
        frame = tagged(Packet(mac="02:dc:00:00:00:64"), TAGS[0])
        assert rig.native.test_balance(frame)[1] == frame
        assert rig.counted() == {"vlan": 4}
    finally:
        rig.close()


@pytest.mark.parametrize("hook", ["tc", "xdp"])
def test_it_is_the_same_where_the_kernel_keeps_the_tag_beside_the_frame(
    run_scenario: Scenario, hook: str
) -> None:
    plain = Packet(port=50000)
    balanced = mac_bytes(mac(1)) + mac_bytes(OWN_MAC) + plain.frame()[12:]
    frames = [tagged(Packet(port=port), kind) for port, kind in enumerate(TAGS * 3, 40000)]
    spec = {"hook": hook, "frames": [f.hex() for f in [*frames, plain.frame()]]}
    result = run_scenario("tagged", spec | {"last": balanced.hex()})
    assert result == {"back": [balanced.hex()], "counters": {"vlan": len(frames)}}
