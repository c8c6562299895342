"""Packets of agents at the balancer: what is believed, what is dropped, and what grows old."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from dcgym.monitors.balancer.layout import SERVERS
from tests.support.device_rig import (
    MESSAGE_PORT,
    OWN,
    REPORT_TYPE,
    DeviceRig,
    device_mac,
    header_report,
    status,
)
from tests.support.l4lb_rig import OK, UDP, Packet, Rigs

pytestmark = pytest.mark.native
SECOND_NS = 10**9


@pytest.fixture(scope="module")
def loaded() -> Iterator[DeviceRig]:
    made = DeviceRig()
    yield made
    made.close()


@pytest.fixture
def rig(loaded: DeviceRig) -> DeviceRig:
    """One server, 3, with two accelerators; every device takes new connections."""
    loaded.begin_anew()
    loaded.pool("ecmp", [3])
    return loaded


def test_the_header_is_of_26_bytes_as_documented() -> None:
    frame = header_report(3, 1, load=57, memory=80, queue=300, sequence=7)
    body = "01 00 03 01 39 50 01 2c 00 00 00 07"
    assert frame[12:14].hex() == f"{REPORT_TYPE:x}" and frame[14:].hex(" ") == body


def test_a_header_is_stored(rig: DeviceRig) -> None:
    began_ns = time.monotonic_ns()
    rig.tell(header_report(3, 1, load=57, memory=80, queue=300, sequence=7))
    expected = {"load": 57, "memory": 80, "queue": 300, "is_busy": 0, "reports": 1}
    assert rig.heard(3, 1) == expected
    assert rig.heard(3, 0)["reports"] == rig.heard(4, 1)["reports"] == 0
    now_ns = time.monotonic_ns()
    age_ns = rig.block.report_age_ns(now_ns)
    assert 0 <= age_ns[3, 1] <= now_ns - began_ns and age_ns[3, 0] == -1
    assert rig.counted() == {"device_reports": 1}


def test_a_status_is_stored_beside_what_the_header_said(rig: DeviceRig) -> None:
    rig.tell(header_report(3, 0, load=57, queue=3))
    rig.tell(status(3, 0, 1))
    expected = {"load": 57, "memory": 0, "queue": 3, "is_busy": 1, "reports": 2}
    assert rig.heard(3, 0) == expected
    rig.tell(status(3, 0, 0))
    assert rig.heard(3, 0)["is_busy"] == 0


def test_each_kind_of_report_changes_the_next_choice(rig: DeviceRig) -> None:
    rig.set_policy("lur")
    rig.tell(header_report(3, 0, load=50))
    rig.tell(header_report(3, 1, load=49))
    rig.tell(header_report(3, 2, load=80))
    assert rig.place_new(2) == [(3, 1)] * 2
    rig.tell(header_report(3, 1, load=51, queue=9))
    assert rig.place_new(2, 2000) == [(3, 0)] * 2
    rig.set_policy("device-jsq")
    rig.tell(header_report(3, 0, load=50, queue=2))
    rig.tell(header_report(3, 2, load=80, queue=1))
    assert rig.place_new(1, 3000) == [(3, 2)]
    rig.set_policy("p4mite")
    assert rig.place_new(1, 4000) == [(3, 0)]
    rig.tell(status(3, 0, 1))
    # P4Mite's "10": the processors are busy, the first accelerator is free.
    assert rig.place_new(1, 4001) == [(3, 1)]


BAD = {
    "version": ("malformed", header_report(3, 1, version=2)),
    "over 100 per cent": ("malformed", header_report(3, 1, load=101)),
    "memory over 100 per cent": ("malformed", header_report(3, 1, memory=101)),
    "VIP": ("malformed", header_report(3, 1, vip=1)),
    "no such device": ("unknown_device", header_report(3, 3)),
    "over the limit": ("unknown_device", header_report(3, 8)),
    "of another device": ("strange", header_report(3, 1, from_mac=device_mac(3, 2))),
    "of a client": ("strange", header_report(3, 1, from_mac="02:dc:00:00:00:01")),
    "cut": ("truncated", header_report(3, 1)[:-1]),
    "empty": ("truncated", header_report(3, 1)[:14]),
    "status: magic": ("malformed", status(3, 1, 1, magic=1)),
    "status: version": ("malformed", status(3, 1, 1, version=9)),
    "status: VIP": ("malformed", status(3, 1, 1, vip=1)),
    "status: neither 0 nor 1": ("malformed", status(3, 1, 2)),
    "status: no such server": ("unknown_device", status(SERVERS, 1, 1, from_mac=device_mac(0, 1))),
    "status: no such device": ("unknown_device", status(3, 3, 1)),
    "status: of another device": ("strange", status(3, 1, 1, from_mac=device_mac(3))),
    "status: cut": ("truncated", status(3, 1, 1)[:-1]),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_counted_and_dropped(rig: DeviceRig, case: str) -> None:
    counter, frame = BAD[case]
    if case == "status: cut":
        # Its IP header says more bytes than there are; its address is no VIP's.
        assert rig.native.test_balance(frame) == (OK, frame)
        assert rig.counted() == {}
    else:
        rig.tell(frame)
        assert rig.counted() == {counter: 1}
    assert all(rig.heard(3, device)["reports"] == 0 for device in range(3))


def test_a_short_status_in_a_whole_datagram_is_truncated(rig: DeviceRig) -> None:
    packet = Packet(port=MESSAGE_PORT, protocol=UDP, to=OWN, to_port=MESSAGE_PORT, body=bytes(31))
    rig.tell(replace(packet, from_mac=device_mac(3, 1)).frame())
    assert rig.counted() == {"truncated": 1}


def test_older_reports_are_dropped_and_agents_may_begin_anew(rig: DeviceRig) -> None:
    for sequence, load in ((10, 30), (9, 99), (10, 98), (11, 40)):
        rig.tell(header_report(3, 1, load=load, sequence=sequence))
    assert rig.heard(3, 1)["load"] == 40
    assert rig.counted() == {"device_reports": 2, "stale": 2}
    # Numbers are compared modulo 2^32 (RFC 1982).
    rig.tell(header_report(3, 2, load=1, sequence=2**32 - 1))
    rig.tell(header_report(3, 2, load=2, sequence=1))
    assert rig.heard(3, 2)["load"] == 2
    # After a second without a report any number will do; without numbers each counts.
    rig.age(3, 1, 2 * SECOND_NS)
    rig.tell(header_report(3, 1, load=5, sequence=1))
    assert rig.heard(3, 1)["load"] == 5
    rig.tell(header_report(3, 1, load=6))
    rig.tell(header_report(3, 1, load=7))
    assert rig.heard(3, 1)["load"] == 7
    # Both kinds share the numbers.
    rig.tell(status(3, 0, 1, sequence=5))
    rig.tell(header_report(3, 0, load=9, sequence=5))
    assert (rig.heard(3, 0)["load"], rig.counted()["stale"]) == (0, 3)


def test_reports_age_out_and_the_first_device_serves(rig: DeviceRig) -> None:
    rig.set_policy("lur", max_age_ns=60 * SECOND_NS)
    # Without any report there is nothing to go by.
    assert rig.place_new(1) == [(3, 0)]
    assert rig.counted() == {"device_fallbacks": 1}
    rig.tell(header_report(3, 1, load=90))
    assert rig.place_new(1, 2000) == [(3, 1)]
    rig.tell(header_report(3, 2, load=10))
    assert rig.place_new(1, 3000) == [(3, 2)]
    # Not before the machine began: times count from there.
    rig.age(3, 2, 61 * SECOND_NS)
    assert rig.place_new(1, 4000) == [(3, 1)]
    rig.age(3, 1, 61 * SECOND_NS)
    assert rig.place_new(1, 5000) == [(3, 0)]
    assert rig.counted() == {"device_fallbacks": 2, "device_reports": 2}
    # The first is the first that takes new connections.
    rig.set_members((1, 2))
    assert rig.place_new(1, 6000) == [(3, 1)]
    assert rig.counted()["device_fallbacks"] == 3


def test_another_agent_may_be_named(rig: DeviceRig) -> None:
    host = device_mac(3)
    rig.native.set_agents(0, 3, {2: host})
    rig.tell(header_report(3, 2, load=33, from_mac=host))
    rig.tell(header_report(3, 2, load=44))
    assert rig.heard(3, 2)["load"] == 33
    assert rig.counted() == {"device_reports": 1, "strange": 1}


def test_a_report_to_another_mac_and_one_without_devices_are_the_stacks(
    rig: DeviceRig, rigs: Rigs
) -> None:
    frame = header_report(3, 1, load=10, to_mac="02:dc:00:00:00:77")
    assert rig.native.test_balance(frame) == (OK, frame)
    assert rig.counted() == {}
    plain = rigs()
    frame = header_report(3, 1, load=10)
    assert plain.native.test_balance(frame) == (OK, frame)
    plain.native.set_messages(OWN)
    verdict, _ = plain.native.test_balance(status(3, 0, 1))
    assert verdict == plain.dropped and plain.counted() == {"malformed": 1}


def test_reports_are_forgotten_with_the_episode(rig: DeviceRig) -> None:
    rig.tell(header_report(3, 1, load=70, sequence=5))
    rig.native.clear()
    assert rig.heard(3, 1) == dict.fromkeys(("load", "memory", "queue", "is_busy", "reports"), 0)
    rig.tell(header_report(3, 1, load=20, sequence=1))
    assert rig.heard(3, 1)["load"] == 20
