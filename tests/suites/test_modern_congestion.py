"""The suite of path rules: what it holds, and what is left of it where a backend lacks rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dcgym.suites import checks
from dcgym.suites.checks import capabilities_of, check_suite, fit_suite
from dcgym.suites.modern_congestion import (
    CONTROLS,
    FAT_TREE,
    PATH_POLICIES,
    SLOW_LINKS,
    TRAFFIC,
    modern_congestion,
)
from dcgym.suites.shapes import check_shapes
from dcgym.tasks.network.path_rules import PATH_RULES
from dcgym.topologies import make_topology
from tests.support.packets import FRAME, MSS, SECOND, START_NS, begin

pytestmark = pytest.mark.simulation


def test_the_suite_has_every_rule_with_every_congestion_control() -> None:
    suite = modern_congestion()
    names = {f"{control}-{traffic}" for control in CONTROLS for traffic in TRAFFIC}
    assert {case.name for case in suite.cases} == names
    assert set(PATH_RULES) | {"hula"} <= set(PATH_POLICIES)
    for case in suite.cases:
        assert case.env["marking"] == (case.env["congestion_control"] == "dctcp")
    # Each traffic with one control, and each control with one traffic.
    some = (*suite.cases[: len(TRAFFIC)], *suite.cases[len(TRAFFIC) :: len(TRAFFIC)])
    check_suite(replace(suite, cases=some, shapes=()))
    check_shapes(suite.shapes, [case.name for case in suite.cases], suite.policies)


def test_real_tcp_runs_a_part_alone() -> None:
    suite = modern_congestion("emulation")
    met = {(case.name, rule) for case in suite.cases for rule in PATH_POLICIES if case.meets(rule)}
    alone = {(f"{control}-{traffic}", "ecmp") for control in CONTROLS for traffic in TRAFFIC}
    ruled = {(f"dctcp-{traffic}", rule) for rule in PATH_POLICIES for traffic in TRAFFIC}
    assert met == alone | ruled
    assert suite.is_alone and suite.jobs == 1
    # No shape compares runs that there are not.
    terms = [term for shape in suite.shapes for check in shape.checks for term in check.terms]
    assert {(term.case, term.policy) for term in terms} <= met


def test_the_slow_links_are_a_fifth_of_those_to_the_core() -> None:
    topology = make_topology(FAT_TREE)
    core = {node.name for node in topology.switches[-4:]}
    links = {(link.a, link.b) for link in topology.links if {link.a, link.b} & core}
    assert len(links) == 16 and set(SLOW_LINKS) <= links
    assert len({a for a, _ in SLOW_LINKS}) == len({b for _, b in SLOW_LINKS}) == 3


def goodput_bps(path_rule: str) -> float:
    """Return what bulk flows between the pods get in the second second, with DCTCP."""
    table = 0 if path_rule == "drill" else 1000
    twin = begin(FAT_TREE, "stride-8", "dctcp", path_rule=path_rule, flow_table=table)
    twin.advance(START_NS + SECOND)
    before = twin.snapshot().hosts["rx_bytes"].sum()
    twin.advance(START_NS + 2 * SECOND)
    return float(twin.snapshot().hosts["rx_bytes"].sum() - before) * 8


def test_drill_fills_a_fat_tree_where_hashes_collide() -> None:
    """16 flows over links of 100 Mbit/s, 95.6 of payload: none is at another's cost."""
    most = 16 * 100e6 * MSS / FRAME
    assert goodput_bps("drill") > 0.97 * most
    # Two flows and more of the 16 share a link: by the hash's draw it is little over half.
    assert goodput_bps("ecmp") < 0.65 * most


def test_a_suite_leaves_out_what_its_backend_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = modern_congestion().on_backend("emulation")
    assert set(PATH_POLICIES) <= set(fit_suite(suite).policies)
    can = replace(capabilities_of(suite.cases[0].env), path_rules=("ecmp", "letflow"))
    monkeypatch.setattr(checks, "capabilities_of", lambda _: can)
    left_out = set(PATH_POLICIES) - set(fit_suite(suite).policies)
    assert left_out == {"spray", "drill", "plb", "flowbender"}
