"""The suite `modern-congestion`: congestion controls and path rules on a fat-tree of 16 hosts.

Traffic is web search at three loads, bursts of incast, bulk flows whose hashes collide, and web
search with slower core links: the asymmetry that tells rules which know of congestion from those
which do not (LetFlow, NSDI 2017).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from dcgym.suites.suite import SUITES, Case, Suite

__all__ = ["CONTROLS", "LOADS", "PATH_POLICIES", "TRAFFIC", "modern_congestion"]

LOADS = (0.3, 0.5, 0.8)
"""Offered load of web search, over the links of the hosts."""

CONTROLS = (
    *("cubic", "reno", "dctcp", "new-vegas", "bbr"),
    *("swift", "timely", "theta-powertcp", "copa"),
)
"""Congestion controls; switches mark for DCTCP alone."""

PATH_POLICIES = (
    *("ecmp", "wcmp", "least-loaded", "hula"),
    *("letflow", "spray", "drill", "plb", "flowbender"),
)

FAT_TREE: Mapping[str, object] = {"name": "fat-tree", "k": 4, "rate": "100Mbit", "queue": "400KB"}
# Three of 16 links between aggregation and core, 19 %, as Hermes' evaluation degrades 20 %.
SLOW_LINKS = (("s9", "s17"), ("s12", "s19"), ("s13", "s18"))
SLOW_RATE = "20Mbit"
ASYMMETRIC = "asymmetric-0.5"

TRAFFIC: Mapping[str, Mapping[str, object]] = {
    **{f"web-search-{load}": {"traffic": f"web-search-{load}"} for load in LOADS},
    "incast": {"traffic": "incast-bursts-0.3"},
    "stride-8": {"traffic": "stride-8"},
    ASYMMETRIC: {
        "traffic": "web-search-0.5",
        "events": [
            {"at": "0s", "link": list(link), "action": "rate", "rate": SLOW_RATE}
            for link in SLOW_LINKS
        ],
    },
}
"""Arguments of the environment for each kind of traffic."""


def modern_congestion() -> Suite:
    """Return the suite in the packet twin, without learners."""
    base = {"env": "PathBalancing-v1", "backend": "simulation", "topology": FAT_TREE}
    cases = tuple(
        Case(
            {**base, **own, "congestion_control": control, "marking": control == "dctcp"},
            f"{control}-{traffic}",
        )
        for control, (traffic, own) in product(CONTROLS, TRAFFIC.items())
    )
    return Suite(
        name="modern-congestion",
        description="Congestion controls and path rules on a fat-tree: web search, incast, bulk.",
        cases=cases,
        policies=PATH_POLICIES,
    )


_SUITE = modern_congestion()
SUITES.add(_SUITE.name, _SUITE, _SUITE.description)
