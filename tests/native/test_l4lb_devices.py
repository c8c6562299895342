"""The balancer's choice of a device: each rule as the twin has it, and connections that stay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare

from dcgym.errors import ConfigError
from dcgym.monitors.balancer.devices import check_device_layout
from dcgym.monitors.balancer.layout import SERVERS
from dcgym.native import bpf_object, require
from dcgym.tasks.accelerators.rules import DEVICE_RULES
from tests.support.device_rig import DeviceRig, device_mac, header_report, status
from tests.support.l4lb_rig import ACK, FIN, OWN_MAC, UDP, Packet
from tests.support.splitmix import mix

pytestmark = [pytest.mark.native, pytest.mark.simulation]
SIGNIFICANCE = 1e-4
CHURN = 40


@pytest.fixture(scope="module")
def loaded() -> Iterator[DeviceRig]:
    made = DeviceRig()
    yield made
    made.close()


@pytest.fixture
def rig(loaded: DeviceRig) -> DeviceRig:
    """One server, 3, with two accelerators; every device takes new connections."""
    loaded.begin_anew()
    loaded.pool("round-robin", [3])
    return loaded


def test_the_view_is_that_of_the_header() -> None:
    compiled = require().device_layout()
    assert check_device_layout(compiled) == []
    moved = {**compiled, "device": (32, compiled["device"][1])}
    assert check_device_layout(moved)[0].startswith("device: (24,")


@pytest.mark.parametrize("rule", list(DEVICE_RULES))
def test_the_balancer_chooses_as_the_twin_does(rig: DeviceRig, rule: str) -> None:
    rng = np.random.default_rng(DEVICE_RULES[rule].number)
    weights, servers = [5.0, 2.0, 1.0], [3] if rule == "device-po2" else [3, 7, 9]
    rig.pool("round-robin", servers)
    rig.set_policy(rule, threshold=60, weights=[weights] * SERVERS)
    known = {}
    for server in servers:
        rows = []
        for device, weight in enumerate(weights):
            load, queue, busy = (int(rng.integers(0, n)) for n in (101, 9, 2))
            rig.tell(header_report(server, device, load=load, queue=queue))
            rig.tell(status(server, device, busy))
            rows.append((True, int(weight), load, queue, bool(busy), 1))
        known[server] = rows
    found = rig.place_new(24 * len(servers))
    ring = require("_simulation").device_ring(weights, 2048)
    for server in servers:
        expected = require("_simulation").choose_devices(
            DEVICE_RULES[rule].number, known[server], ring, 60, 0, 2, mix(rig.seed), 24
        )
        assert [device for at, device in found if at == server] == expected
    assert rig.counted() == {"device_reports": 6 * len(servers)}


def test_both_levels_have_the_shares_that_the_rules_say(rig: DeviceRig) -> None:
    servers, n = [3, 7, 9, 20], 4000
    rig.pool("random", servers)
    rig.set_policy("device-po2")
    for server in servers:
        for device, load in enumerate((10, 20, 30)):
            rig.tell(header_report(server, device, load=load))
    found = np.array(rig.place_new(n))
    assert chisquare([int((found[:, 0] == s).sum()) for s in servers]).pvalue > SIGNIFICANCE
    # Of three pairs of devices the least loaded is in two, the next in one more.
    shares = np.bincount(found[:, 1], minlength=3)
    assert shares[2] == 0
    assert chisquare(shares[:2], n * np.array([2, 1]) / 3).pvalue > SIGNIFICANCE
    assert rig.block.connections()[servers].sum(axis=0)[:3].tolist() == shares.tolist()


def test_rings_give_exact_shares(rig: DeviceRig) -> None:
    rig.set_policy("wrr", weights=[[5.0, 1.0, 1.0]] * 4)
    found = np.bincount([device for _, device in rig.place_new(70)], minlength=3)
    assert found.tolist() == [50, 10, 10]
    # Weights that are not whole share all slots of a ring of 1024.
    rig.set_policy(weights=[[0.5, 0.3, 0.2]] * 4, ring_slots=1024)
    found = np.bincount([device for _, device in rig.place_new(1024, 3000)], minlength=3)
    assert np.abs(found - np.array([512, 307.2, 204.8])).max() < 1


def test_servers_have_rings_of_their_own_weights(rig: DeviceRig) -> None:
    rig.pool("round-robin", [1, 2])
    rig.set_policy("wrr", weights=[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert rig.place_new(4) == [(1, 0), (2, 1), (1, 0), (2, 1)]


def test_servers_of_high_numbers_have_devices_of_their_own(rig: DeviceRig) -> None:
    weights = np.tile([1.0, 0.0, 0.0], (SERVERS, 1))
    weights[67], weights[200], weights[255] = [0, 1, 0], [0, 0, 1], [0, 2, 1]
    rig.set_policy("wrr", weights=weights)
    rig.pool("round-robin", [3, 67, 200, 255])
    placed = rig.place_new(4)
    assert placed == [(3, 0), (67, 1), (200, 2), (255, 1)]
    assert [rig.place(Packet(port=1024 + i, flags=ACK)) for i in range(4)] == placed
    rig.tell(header_report(255, 2, load=80))
    assert rig.heard(255, 2)["load"] == 80 and rig.heard(63, 2)["reports"] == 0
    assert rig.block.connections()[[3, 67, 200, 255]].sum() == rig.block.connections().sum() == 4


def test_an_empty_ring_is_counted_and_the_processors_serve(rig: DeviceRig) -> None:
    rig.set_policy("wrr", weights=[[0.0, 0.0, 0.0]] * SERVERS)
    assert rig.place_new(3) == [(3, 0)] * 3
    assert rig.counted() == {"device_fallbacks": 3}


def test_a_rule_changes_at_run_time_and_of_one_vip_alone() -> None:
    two = DeviceRig(n_vips=2)
    two.native.add_vip(1, "10.0.0.101", 80)
    two.native.set_servers(1, {3: device_mac(3)})
    two.native.set_accelerators(1, 3, {1: device_mac(3, 1)})
    two.native.devices.set_policy(1, members={3: [0, 1]})
    two.native.pools.replace(1, 0, [3], [1.0])
    two.pool("ecmp", [3])
    two.set_policy("device-ecmp")
    other = replace(Packet(to="10.0.0.101"), flags=2)
    assert [two.place(Packet(port=p)) for p in (1, 2, 3)] == [(3, 0), (3, 1), (3, 2)]
    assert [two.place(replace(other, port=p)) for p in (1, 2)] == [(3, 0), (3, 0)]
    two.native.devices.set_policy(1, rule=DEVICE_RULES["device-ecmp"].number)
    two.set_policy("server-only")
    assert [two.place(Packet(port=p)) for p in (4, 5)] == [(3, 0), (3, 0)]
    assert [two.place(replace(other, port=p)) for p in (3, 4)] == [(3, 0), (3, 1)]
    # Its reports are those of its own devices.
    two.tell(header_report(3, 1, load=70, vip=1))
    two.tell(header_report(3, 2, load=70, vip=1))
    assert two.counted() == {"device_reports": 1, "unknown_device": 1}
    assert two.heard(3, 1)["load"] == 0
    two.close()


@pytest.mark.parametrize("protocol", [6, UDP])
def test_connections_keep_their_device_through_every_change(rig: DeviceRig, protocol: int) -> None:
    rng = np.random.default_rng(protocol)
    rig.pool("random", list(range(8)))
    rig.set_policy("device-ecmp")
    flows = [Packet(port=1024 + i, protocol=protocol) for i in range(60)]
    homes = [rig.place(flow) for flow in flows]
    assert {device for home in homes if home for device in [home[1]]} == {0, 1, 2}
    rules = list(DEVICE_RULES)
    for change in range(CHURN):
        weights = rng.integers(0, 7, (SERVERS, 3)).astype(float)
        rig.set_policy(rules[change % len(rules)], weights=weights)
        rig.set_members([[0], [0, 1], [1, 2], [0, 1, 2]][change % 4])
        rig.pool("random", [n for n in range(8) if rng.random() < 0.5] or [0])
        rig.place(Packet(port=5000 + change, protocol=protocol))
        for flow, home in zip(flows, homes, strict=True):
            assert rig.place(flow.then(ACK)) == home
    assert "pcc_violations" not in rig.counted()
    if protocol == 6:
        rig.place(flows[0].then(FIN | ACK))
    assert rig.place(flows[0].then(ACK)) == homes[0]


def test_connections_of_a_device_that_goes_are_counted_as_broken(rig: DeviceRig) -> None:
    rig.set_policy("device-ecmp")
    flows = [Packet(port=p) for p in (1, 2, 3)]
    assert [rig.place(flow) for flow in flows] == [(3, 0), (3, 1), (3, 2)]
    rig.native.set_accelerators(0, 3, {1: device_mac(3, 1)})
    assert [rig.place(flow.then(ACK)) for flow in flows] == [(3, 0), (3, 1), (3, 0)]
    assert rig.counted() == {"missed": 1, "pcc_violations": 1}
    # The rule still names it: what would go there goes to the processors.
    assert rig.place_new(3) == [(3, 0), (3, 1), (3, 0)]
    assert rig.counted()["device_fallbacks"] == 1


def test_a_server_that_goes_takes_its_accelerators_along(rig: DeviceRig) -> None:
    rig.set_policy("device-ecmp")
    assert rig.place_new(2)[1] == (3, 1)
    rig.native.set_servers(0, {7: device_mac(7)})
    assert rig.place(Packet(port=1025).then(ACK)) is None
    rig.tell(header_report(3, 1, load=50))
    assert rig.counted()["unknown_device"] == 1


def test_what_no_table_remembers_goes_to_the_processors() -> None:
    small = DeviceRig(flow_entries=4)
    small.pool("ecmp", [3])
    small.set_policy("device-ecmp")
    # Half-open flows of one bucket of four do not give way.
    found = small.place_new(12)
    assert found[:4] == [(3, 0), (3, 1), (3, 2), (3, 0)]
    assert found[4:] == [(3, 0)] * 8
    assert small.block.connections()[3, :3].tolist() == [2, 1, 1]
    small.close()


def test_a_second_writer_takes_over_what_is_in_force(rig: DeviceRig) -> None:
    rig.set_policy("wrr", threshold=70, max_age_ns=5, weights=[[5.0, 1.0, 0.0]] * SERVERS)
    before = rig.block.policy()
    require().BalancerDevices(rig.native.device_map_fd, 1)
    after = rig.block.policy()
    assert after["sequence"] == before["sequence"] + 1
    for name in ("rule", "threshold", "max_age_ns", "present", "weight", "ring_of"):
        assert np.array_equal(after[name], before[name]), name
    assert after["weight"][0, :3].tolist() == [5, 1, 0] and after["ring_slots"][0] == 6


def test_xdp_and_tunnels_reach_devices_too() -> None:
    ends = {"tunnel_from": ["10.0.0.99"], "delivery": "ipip"}
    rig = DeviceRig(hook="xdp", **ends)
    rig.native.set_servers(0, {3: device_mac(3)}, {3: ["10.0.1.3"]})
    rig.native.set_accelerators(0, 3, {1: device_mac(3, 1)}, {1: ["10.0.2.3"]})
    rig.pool("ecmp", [3])
    rig.set_policy("p4mite")
    rig.tell(status(3, 0, 1))
    verdict, left = rig.native.test_balance(Packet(port=1).frame())
    assert verdict == rig.sent
    assert (left[:6].hex(":"), left[30:34]) == (device_mac(3, 1), bytes([10, 0, 2, 3]))
    rig.close()


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("device", ("set_accelerators", 0, 3, {8: device_mac(3, 1)})),
        ("device", ("set_accelerators", 0, 3, {0: device_mac(3)})),
        ("mac", ("set_accelerators", 0, 3, {1: OWN_MAC})),
        ("addresses", ("set_accelerators", 0, 3, {}, {1: ["10.0.0.1"]})),
    ],
)
def test_bad_devices_are_named(rig: DeviceRig, field: str, arguments: tuple[str, object]) -> None:
    name, *given = arguments
    with pytest.raises(ConfigError, match=f"^{field}: value"):
        getattr(rig.native, name)(*given)


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("rule", {"rule": 9}),
        ("threshold", {"threshold": 0}),
        ("members", {"members": {3: [8]}}),
        ("members", {"members": {3: []}}),
        ("server", {"members": {SERVERS: [0]}}),
        ("weights", {"weights": [[1.0, -1.0]]}),
        ("weights", {"weights": [1.0]}),
        ("devices of weights", {"weights": [[1.0] * 9]}),
        ("ring_slots", {"ring_slots": 4096}),
    ],
)
def test_a_policy_with_one_bad_part_is_refused_whole(
    rig: DeviceRig, field: str, bad: dict[str, object]
) -> None:
    good = {"rule": 2, "threshold": 60, "weights": [[9.0, 1.0]], "members": {3: [0, 1]}}
    before = rig.block.policy()
    with pytest.raises(ConfigError, match=f"^{field}: value"):
        rig.native.devices.set_policy(0, **{**good, **bad})
    assert rig.block.policy() == before
    # Nor is any of it kept for the next change.
    rig.set_policy("wrr")
    after = rig.block.policy()
    for name in ("threshold", "present", "weight"):
        assert np.array_equal(after[name], before[name]), name


def test_rule_and_weights_that_change_together_are_one_policy(rig: DeviceRig) -> None:
    rig.set_policy("wrr", threshold=70, weights=[[1.0, 0.0, 0.0]] * SERVERS)
    before = rig.block.policy()
    rig.set_policy("dynamic-wrr", weights=[[0.0, 1.0, 1.0]] * SERVERS)
    after = rig.block.policy()
    assert after["sequence"] == before["sequence"] + 1
    assert after["rule"] == DEVICE_RULES["dynamic-wrr"].number
    assert after["weight"][3, :3].tolist() == [0, 1, 1]
    # What was not named has stayed.
    assert after["threshold"] == 70 and np.array_equal(after["present"], before["present"])
    # By the old rule or by the old weights the processors would get some.
    assert {device for _, device in rig.place_new(4)} == {1, 2}


def test_devices_need_a_flow_table_and_to_be_asked_for() -> None:
    path = str(bpf_object("l4lb"))
    with pytest.raises(ConfigError, match=r"^consistency: value"):
        require().Balancer(path, OWN_MAC, devices=True, consistency="cookie")
    plain = require().Balancer(path, OWN_MAC)
    for call in (lambda: plain.devices, lambda: plain.set_accelerators(0, 3, {})):
        with pytest.raises(ConfigError, match=r"^devices: value"):
            call()
    plain.close()
