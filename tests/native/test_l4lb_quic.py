"""QUIC's connection IDs: a connection stays on its server when its client's address changes."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator

import pytest

from dcgym.errors import ConfigError
from tests.support.l4lb_rig import HOUR_NS, UDP, VIP4, VIP6, Packet, Rig

pytestmark = pytest.mark.native

ID_BYTES = 10
INITIAL, ZERO_RTT, HANDSHAKE, RETRY = range(4)
VERSION_1, VERSION_2 = 1, 0x6B3343CF
SERVERS = [3, 5, 9]


@pytest.fixture(scope="module", params=["tc", "xdp"])
def loaded(request: pytest.FixtureRequest) -> Iterator[Rig]:
    made = Rig(hook=request.param, consistency="quic", quic_id_bytes=ID_BYTES)
    yield made
    made.close()


@pytest.fixture
def rig(loaded: Rig) -> Rig:
    loaded.begin_anew()
    loaded.pool("round-robin", SERVERS)
    return loaded


def connection_id(server: int, first: int = 0x1F, n: int = ID_BYTES) -> bytes:
    """Return an ID as a server gives it: its number in the second byte."""
    return bytes([first, server]) + bytes(range(n - 2))


def short(server: int, port: int = 40000, first: int = 0x40, **more: object) -> Packet:
    """Return a packet of an established connection to a server."""
    body = bytes([first]) + connection_id(server) + bytes(20)
    return Packet(port=port, protocol=UDP, body=body, **more)  # type: ignore[arg-type]


def long(
    kind: int, identity: bytes, port: int = 40000, version: int = VERSION_1, to: str = VIP4
) -> Packet:
    """Return a packet of a handshake (RFC 9000, section 17.2)."""
    body = struct.pack("!BIB", 0xC0 | kind << 4, version, len(identity)) + identity
    return Packet(port=port, protocol=UDP, body=body + bytes([0]) + bytes(20), to=to)


@pytest.mark.parametrize("to", [VIP4, VIP6])
def test_a_connection_keeps_its_server_whatever_its_address(rig: Rig, to: str) -> None:
    client = long(INITIAL, bytes(range(100, 108)), port=50000, to=to)
    server = rig.send(client)
    assert server == SERVERS[0]
    assert rig.send(long(HANDSHAKE, connection_id(server), port=50000, to=to)) == server
    other = "10.0.0.7" if to == VIP4 else "fd00::7"
    for port, address in itertools.product(range(1000, 1020), ("", other)):
        assert rig.send(short(server, port=port, to=to, client=address)) == server
    assert rig.counted() == {}
    # They opened no flow: only the first packet did.
    assert rig.snapshot()["syns"] == 1


def test_what_the_client_drew_is_not_taken_for_a_servers_word(rig: Rig) -> None:
    drawn = connection_id(9)
    assert rig.send(long(INITIAL, drawn, port=1)) == 3
    assert rig.send(long(ZERO_RTT, drawn, port=1)) == 3
    assert rig.send(long(RETRY, drawn, port=1)) == 3
    # The types of other versions are numbered otherwise.
    assert rig.send(long(HANDSHAKE, drawn, port=1, version=VERSION_2)) == 3
    assert rig.send(long(HANDSHAKE, drawn, port=1)) == 9


@pytest.mark.parametrize(
    "packet",
    [
        pytest.param(long(HANDSHAKE, connection_id(9, n=ID_BYTES - 1)), id="a shorter ID"),
        pytest.param(long(HANDSHAKE, connection_id(9, n=ID_BYTES + 1)), id="a longer ID"),
        pytest.param(long(HANDSHAKE, connection_id(9, first=0x20)), id="another configuration"),
        pytest.param(long(HANDSHAKE, connection_id(200)), id="a number beyond all"),
        pytest.param(
            Packet(
                port=40000, protocol=UDP, body=b"\x40" + connection_id(9, first=0xE0) + bytes(9)
            ),
            id="unroutable",
        ),
        pytest.param(
            Packet(port=40000, protocol=UDP, body=b"\x40" + connection_id(9)[:-1]), id="cut"
        ),
        pytest.param(Packet(port=40000, protocol=UDP), id="empty"),
    ],
)
def test_a_packet_that_names_no_server_follows_the_table(rig: Rig, packet: Packet) -> None:
    first = [rig.send(long(INITIAL, bytes(8), port=port)) for port in (39999, 40000, 40001)]
    assert first == SERVERS
    assert rig.send(packet) == SERVERS[1]
    assert rig.snapshot()["syns"] == 3


def test_ids_outlive_a_lost_table_and_a_changed_pool(rig: Rig) -> None:
    ports = range(2000, 2030)
    placed = {port: rig.send(long(INITIAL, bytes(8), port=port)) for port in ports}
    rig.native.clear()
    rig.pool("round-robin", [7])
    for port, server in placed.items():
        assert rig.send(short(server or 0, port=port)) == server
    assert rig.counted() == {}


def test_a_server_that_is_gone_is_replaced(rig: Rig) -> None:
    rig.native.set_servers(0, {server: f"02:dc:00:00:01:{server:02x}" for server in (3, 5)})
    rig.pool("round-robin", [3, 5])
    assert rig.send(short(9, port=1)) == 3
    assert rig.send(short(9, port=1)) == 3
    assert rig.send(short(5, port=1)) == 5


def test_without_a_table_initials_follow_the_hash() -> None:
    rig = Rig(flow_entries=0, consistency="quic")
    try:
        rig.pool("sed", SERVERS)
        for port in range(20):
            first = rig.send(long(INITIAL, bytes(8), port=port))
            assert rig.send(long(INITIAL, bytes(8), port=port)) == first
        assert rig.send(Packet(port=1, protocol=UDP, body=b"\x40" + connection_id(9, n=20))) == 9
    finally:
        rig.close()


def test_tcp_keeps_to_the_table(rig: Rig) -> None:
    packets = [Packet(port=port) for port in (1, 2, 3)]
    assert [rig.send(packet) for packet in packets] == SERVERS
    rig.native.set_timeouts(HOUR_NS, HOUR_NS, HOUR_NS, HOUR_NS)
    assert [rig.send(packet.then(16)) for packet in packets] == SERVERS


# Less than a number needs, and more than an ID has (RFC 9000, section 17.2).
@pytest.mark.parametrize("n", [1, 21])
def test_impossible_lengths_are_refused(n: int) -> None:
    with pytest.raises(ConfigError, match=r"^quic_id_bytes: value "):
        Rig(consistency="quic", quic_id_bytes=n)
