"""dcgym_agent in the kernel: what a flow shows, what it does of commands, and what of nonsense."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from os import getpid
from typing import Any

import pytest

from dcgym.errors import BackendError
from dcgym.monitors.network.agent_flows import AGENT_FLOW
from dcgym.native import bpf_object, require

pytestmark = pytest.mark.native

Scenario = Callable[[str, dict[str, Any]], dict[str, Any]]
Rows = dict[str, dict[str, int]]
LEAST_CWND, MOST_CWND = 2, 65_535
MOST_RATE = 125_000_000_000


def test_the_view_has_the_fields_of_the_header() -> None:
    fields = AGENT_FLOW.fields
    assert fields is not None
    view = [(name, fields[name][1], fields[name][0].itemsize) for name in AGENT_FLOW.names or ()]
    assert view == require().agent_flow_layout()
    assert AGENT_FLOW.itemsize == sum(size for _, _, size in view)


@pytest.fixture(scope="module")
def steered(run_scenario: Scenario) -> dict[str, Any]:
    """A flow on a link of 50 Mbit/s, given one command after the other."""
    request = {"rate": "50mbit", "queue_bytes": 100_000, "marking": {}, "receiver_ecn": 0}
    return run_scenario("agent", request)


@pytest.fixture(scope="module")
def rows(steered: dict[str, Any]) -> Rows:
    found: Rows = steered["rows"]
    return found


def test_a_flow_without_an_agent_is_reno_and_shows_itself(
    steered: dict[str, Any], rows: Rows
) -> None:
    flow = rows["reno"]
    assert (flow["flags"], flow["taken"], flow["clamped"], flow["fallbacks"]) == (0, 0, 0, 0)
    assert (flow["src_port"], flow["dst_port"]) == (steered["port"], 5000)
    # 10.0.0.1 and 10.0.0.2 in network order.
    assert flow["src_address"].to_bytes(4, "little") == bytes([10, 0, 0, 1])
    assert flow["dst_address"].to_bytes(4, "little") == bytes([10, 0, 0, 2])
    assert flow["cwnd_packets"] > 10
    assert flow["mss_bytes"] == 1448
    assert 0 < flow["min_rtt_us"] <= flow["rtt_sum_us"] / flow["rtts"]
    assert flow["sent_packets"] + 1 >= flow["delivered_packets"]


def most_of_reno(cwnd: int, rows: Rows, name: str) -> int:
    """Return the window that Reno may have by a row, with that of packets at the row before it.

    It adds one for each window that is delivered, whose count may go on from what was before.
    """
    before = rows[f"before {name}"]["delivered_packets"]
    return cwnd + 1 + (rows[name]["delivered_packets"] - before) // cwnd


def test_commands_are_in_force_with_the_ack_that_takes_them(rows: Rows) -> None:
    assert (rows["window"]["flags"], rows["window"]["cwnd_packets"]) == (2, 20)
    # Half of it; Reno may have added packets before the row was read.
    assert 10 <= rows["multiplier"]["cwnd_packets"] <= most_of_reno(10, rows, "multiplier")
    assert (rows["rate"]["flags"], rows["rate"]["pacing_bytes_per_s"]) == (4, 2_000_000)
    assert rows["rate"]["clamped"] == 0


def test_nonsense_is_brought_into_range_and_counted(rows: Rows) -> None:
    assert (rows["no window"]["cwnd_packets"], rows["no window"]["clamped"]) == (LEAST_CWND, 1)
    assert rows["large rate"]["pacing_bytes_per_s"] == MOST_RATE
    assert rows["large rate"]["clamped"] == 2
    assert rows["large factor"]["clamped"] == 3
    assert rows["large factor"]["cwnd_packets"] <= MOST_CWND
    assert (rows["unknown flags"]["flags"], rows["unknown flags"]["clamped"]) == (0, 4)


def test_a_command_for_another_flow_is_not_taken(rows: Rows) -> None:
    assert rows["another flow"]["taken"] == rows["unknown flags"]["taken"]


def test_a_flow_goes_on_as_reno_when_the_lease_ends(steered: dict[str, Any], rows: Rows) -> None:
    assert rows["before lease ended"]["cwnd_packets"] == 12
    ended = rows["lease ended"]
    assert (ended["flags"], ended["fallbacks"]) == (0, 1)
    # From the window that it has, and none of slow start, which adds one for each packet.
    assert 12 <= ended["cwnd_packets"] <= most_of_reno(12, rows, "lease ended")
    assert not rows["taken without a lease"]
    assert rows["no lease"]["flags"] == 0


def test_counters_are_those_of_the_socket(rows: Rows) -> None:
    assert [rows["idle"]["delivered_packets"], rows["idle"]["marked_packets"]] == rows["tcp_info"]


def test_a_slot_that_is_free_again_has_another_generation(
    steered: dict[str, Any], rows: Rows
) -> None:
    assert rows["closed"]["generation"] == rows["reno"]["generation"]
    assert rows["next"]["generation"] == rows["reno"]["generation"] + 1
    assert rows["next"]["flags"] == 0
    assert steered["counters"]["n_flows"] == 2
    assert steered["counters"]["n_without"] == 0


def test_a_row_that_stays_half_written_is_an_error_and_no_torn_read() -> None:
    control = require().load_congestion_control(str(bpf_object("dcgym_agent")), f"torn_{getpid()}")
    maps = {name: control.map_fd(name) for name in ("flows", "commands", "controls", "free_slots")}
    agent = require().FlowAgent(**maps)
    with mmap.mmap(maps["flows"], mmap.PAGESIZE) as memory:
        # A writer that died after its first word: the sequence number is odd.
        memory[0:8] = (7).to_bytes(8, "little")
        with pytest.raises(BackendError, match="half written"):
            agent.read()
        memory[0:8] = (8).to_bytes(8, "little")
        assert agent.read() == b""
    control.close()
