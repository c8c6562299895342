"""What follows from the MTU of a link: its queue, and the times of an empty network."""

from __future__ import annotations

import pytest

from dcgym.defaults import Default
from dcgym.errors import ConfigError
from dcgym.topologies import Link, base_rtt_ns, dumbbell, leaf_spine, slowest_frame_ns
from dcgym.topologies.links import LinkShape
from dcgym.topologies.round_trips import frame_bytes


def test_a_default_queue_holds_a_frame_of_its_link() -> None:
    own = {"rate": "1Gbit", "queue": Default("5KB"), "mark": Default("1KB"), "delay": 0}
    assert LinkShape.parse({**own, "mtu": 1500}).queue_bytes == 5000
    assert LinkShape.parse({**own, "mtu": 9000}).queue_bytes == 9014
    # A mark that was asked for is held too.
    assert LinkShape.parse({**own, "mtu": 9000, "mark": "8KB"}).queue_bytes == 9014
    assert LinkShape.parse({**own, "mtu": 9000, "mark": "30KB"}).queue_bytes == 60_000
    with pytest.raises(ConfigError, match=r"^queue: value 5000 .*a frame of MTU 9000"):
        LinkShape.parse({**own, "mtu": 9000, "queue": "5KB"})
    assert {link.queue_bytes for link in leaf_spine(mtu=9000).links} == {400_000}


def test_a_refused_queue_says_what_a_frame_is() -> None:
    with pytest.raises(ConfigError, match=r"^queue: value 9013 .*9014, a frame of MTU 9000"):
        dumbbell(queue=9013, mtu=9000)
    with pytest.raises(ConfigError, match=r"^queue_bytes of link h1-s1: value 1514"):
        Link("h1", "s1", 10**7, 1514, None, mtu_bytes=1501)
    assert frame_bytes(Link("h1", "s1", 10**7, 9014, None, mtu_bytes=9000)) == 9014


@pytest.mark.parametrize(("core_mtu", "full_bytes"), [(9000, 9014), (1500, 1514)])
def test_a_full_frame_is_what_every_link_carries(core_mtu: int, full_bytes: int) -> None:
    topology = dumbbell(4, rate="10Mbit", mtu=9000, tiers={"core": {"mtu": core_mtu}})
    assert slowest_frame_ns(topology) == full_bytes * 8 * 100
    assert base_rtt_ns(topology) == 3 * (full_bytes * 8 * 100 + 10_000)
