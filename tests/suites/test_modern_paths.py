"""The suite of path rules: what it holds, and what is left of it where a backend lacks rules."""

from __future__ import annotations

import pytest

from dcgym.suites.checks import check_suite, fit_suite
from dcgym.suites.modern_paths import (
    CONTROLS,
    FAT_TREE,
    LOADS,
    PATH_POLICIES,
    SLOW_LINKS,
    TRAFFIC,
    modern_paths,
)
from dcgym.tasks.paths.rules import PATH_RULES
from dcgym.topologies import make_topology

pytestmark = pytest.mark.simulation


def test_the_suite_has_every_rule_with_every_congestion_control() -> None:
    suite = modern_paths()
    assert len(suite.cases) == len(CONTROLS) * len(TRAFFIC)
    assert {f"web-search-{load}" for load in LOADS} | {"incast"} <= set(TRAFFIC)
    assert set(PATH_RULES) | {"hula"} <= set(PATH_POLICIES)
    for case in suite.cases:
        assert case.env["marking"] == (case.env["congestion_control"] == "dctcp")
    check_suite(suite)


def test_the_slow_links_are_a_fifth_of_those_to_the_core() -> None:
    topology = make_topology(FAT_TREE)
    core = {node.name for node in topology.switches[-4:]}
    links = {(link.a, link.b) for link in topology.links if {link.a, link.b} & core}
    assert len(links) == 16 and set(SLOW_LINKS) <= links
    assert len({a for a, _ in SLOW_LINKS}) == len({b for _, b in SLOW_LINKS}) == 3


def test_the_emulation_runs_what_its_switches_have() -> None:
    suite = fit_suite(modern_paths().on_backend("emulation"))
    assert set(PATH_POLICIES) - set(suite.policies) == {"plb", "flowbender"}
