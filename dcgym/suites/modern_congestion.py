"""The suite `modern-congestion`: congestion controls and path rules on a fat-tree of 16 hosts.

Traffic is web search at three loads, bursts of incast, bulk flows whose hashes collide, and web
search with slower core links: the asymmetry that tells rules which know of congestion from those
which do not (LetFlow, NSDI 2017).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from dcgym.backends.registry import NETWORKS
from dcgym.suites.modern_congestion_shapes import modern_congestion_shapes
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

MARKED, HASHING = "dctcp", "ecmp"
"""The control that switches mark for, and the path policy that does not look at queues."""

RATE_MBIT, SLOW_RATE_MBIT = 100, 20
FAT_TREE: Mapping[str, object] = {
    "name": "fat-tree",
    "k": 4,
    "rate": f"{RATE_MBIT}Mbit",
    "queue": "400KB",
}
# Two cores forward some 500 Mbit/s over four switches in time: of 18 runs with links of 100 Mbit/s
# the fidelity of 13 was invalid. Web search keeps few links busy. Bulk fills all, where packets are
# spread; bursts of small flows open and close connections besides.
REAL_TIME_SHARE, REAL_TIME_FULL_SHARE = 0.2, 0.1
# Three of 16 links between aggregation and core, 19 %, as Hermes' evaluation degrades 20 %.
SLOW_LINKS = (("s9", "s17"), ("s12", "s19"), ("s13", "s18"))
INCAST, BULK, ASYMMETRIC = "incast", "stride-8", "asymmetric-0.5"
TRAFFIC = (*(f"web-search-{load}" for load in LOADS), INCAST, BULK, ASYMMETRIC)
"""Kinds of traffic."""


def _arguments(traffic: str, share: float) -> dict[str, object]:
    """Return arguments of the environment for a kind of traffic.

    Args:
        traffic: Its name.
        share: Rates of all links, over those of `FAT_TREE`.
    """
    topology = {**FAT_TREE, "rate": f"{RATE_MBIT * share:g}Mbit"}
    if traffic == INCAST:
        return {"topology": topology, "traffic": "incast-bursts-0.3"}
    if traffic != ASYMMETRIC:
        return {"topology": topology, "traffic": traffic}
    slow = {"at": "0s", "action": "rate", "rate": f"{SLOW_RATE_MBIT * share:g}Mbit"}
    events = [{**slow, "link": list(link)} for link in SLOW_LINKS]
    return {"topology": topology, "traffic": "web-search-0.5", "events": events}


def _real_time_share(traffic: str) -> float:
    return REAL_TIME_FULL_SHARE if traffic in (INCAST, BULK) else REAL_TIME_SHARE


def modern_congestion(backend: str = "simulation", episode_s: float = 12.0) -> Suite:
    """Return the suite, without learners.

    A backend in real time runs alone, with a fifth of the rates (incast and bulk: a tenth), and a
    part of it: each congestion control with ECMP, and each path rule with DCTCP.

    Args:
        backend: Name of a backend of networks.
        episode_s: Seconds of one run, the first two of which are left out.

    Raises:
        ConfigError: A value is not allowed.
    """
    is_real_time = NETWORKS.find(backend).capabilities.real_time
    base = {"env": "PathBalancing-v2", "backend": backend}
    cases = tuple(
        Case(
            {
                **base,
                **_arguments(traffic, _real_time_share(traffic) if is_real_time else 1.0),
                "congestion_control": control,
                "marking": control == MARKED,
            },
            f"{control}-{traffic}",
            policies=(HASHING,) if is_real_time and control != MARKED else None,
        )
        for control, traffic in product(CONTROLS, TRAFFIC)
    )
    return Suite(
        name="modern-congestion",
        description="Congestion controls and path rules on a fat-tree: web search, incast, bulk.",
        cases=cases,
        policies=PATH_POLICIES,
        episode_s=episode_s,
        shapes=modern_congestion_shapes([f"web-search-{load}" for load in LOADS], ASYMMETRIC),
        jobs=1 if is_real_time else 2,
        is_alone=is_real_time,
        maker=modern_congestion,
    )


_SUITE = modern_congestion()
SUITES.add(_SUITE.name, _SUITE, _SUITE.description)
