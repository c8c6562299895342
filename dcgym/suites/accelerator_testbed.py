"""The suite `p4hauler-testbed`: one and two servers with a SmartNIC each, on real packets.

The testbed of Tajbakhsh's thesis (2023) had one server, and two where it was compared with other
balancers. Each case runs in the emulation, where agents and stations are real, and in the twin on
the same requests; `dcgym twin-error accelerators` shows how far both are apart.
"""

from __future__ import annotations

from dcgym.defaults import DefaultNumber
from dcgym.suites.accelerators import ENV_ID, WARM_UP_S
from dcgym.suites.shapes import Check, Shape, Term
from dcgym.suites.suite import SUITES, Case, Suite

__all__ = ["p4hauler_testbed"]

TWIN, REAL = "simulation", "emulation"
EPISODE_S = 40.0
SEEDS = 5
ALL = ("server-only", "lur", "prt", "wrr")
BLIND = ("server-only", "wrr")
# Requests a second: low, near the processors' rate, beyond it (figures 5.7 and 5.11).
RATES = {1: (8.0, 16.0, 20.0), 2: (20.0, 30.0, 40.0)}
THESIS = "Tajbakhsh 2023"
P99 = "latency_ms_p99"
# A tie or a slight loss.
TIE = 1.5
PUBLISHED_GAIN = 2.5


def p4hauler_testbed(episode_s: float = EPISODE_S) -> Suite:
    """Return E5 for KNN and E9: policies by rate, and a balancer that knows no accelerators.

    Args:
        episode_s: Length of a run, in real time in the emulation.

    Raises:
        ConfigError: The length is not allowed.
    """
    cases = [
        _case(servers, rate, backend)
        for servers, rates in RATES.items()
        for rate in rates
        for backend in (TWIN, REAL)
    ]
    return Suite(
        name="p4hauler-testbed",
        description="P4Hauler on real packets: one and two servers with a SmartNIC each, KNN.",
        cases=tuple(cases),
        policies=ALL,
        seeds=SEEDS,
        episode_s=episode_s,
        warmup_s=DefaultNumber(WARM_UP_S),
        # Service is timed: it costs nothing, and several pods share the machine.
        jobs=3,
        shapes=_shapes(),
    )


def _case(servers: int, rate: float, backend: str) -> Case:
    env = {
        "env": ENV_ID,
        "backend": backend,
        "scenario": {"preset": f"p4hauler-{servers}"},
        "rate": rate,
        "interval": "5s",
        "settle": "0s",
        "reward": "p99",
    }
    return Case(env, f"{servers}-{rate:g}-{backend}", policies=ALL if servers == 1 else BLIND)


def _less(case: str, left: str, right: str, factor: float = 1.0) -> Check:
    real = f"{case}-{REAL}"
    return Check(Term(P99, left, real), "<", Term(P99, right, real, factor))


def _shapes() -> tuple[Shape, ...]:
    return (
        Shape(
            "e5-prt-low",
            "At 8 a second prioritisation is as the host alone",
            f"{THESIS}, figure 5.7, on real packets",
            (_less("1-8", "prt", "server-only", 1.1),),
        ),
        Shape(
            "e5-lur-worst",
            "At 8 a second the least utilised device has the longest tail",
            f"{THESIS}, figure 5.7, on real packets",
            tuple(_less("1-8", policy, "lur") for policy in ("server-only", "prt", "wrr")),
        ),
        Shape(
            "e5-wrr-high",
            "Beyond the host's rate fixed shares have the shortest tail",
            f"{THESIS}, figure 5.7, on real packets",
            tuple(_less("1-20", "wrr", policy) for policy in ("server-only", "prt", "lur")),
        ),
        Shape(
            "e9-low",
            "At 20 a second of two servers a balancer that knows no accelerators is about as good",
            f"{THESIS}, figure 5.11",
            (_less("2-20", "server-only", "wrr", TIE),),
        ),
        Shape(
            "e9-high",
            "At 40 a second its p99 is 2.5 times as long",
            f"{THESIS}, figure 5.11: 2.5",
            (_less("2-40", "wrr", "server-only", 1 / PUBLISHED_GAIN),),
        ),
    )


SUITES.add("p4hauler-testbed", p4hauler_testbed(), p4hauler_testbed().description)
