"""The suites `p4mite`, `p4hauler` and `p4wise`: servers with accelerators, in the twin.

Each repeats experiments of Tajbakhsh's thesis (2023) with capacities that it measured. It shows
most results as curves without numbers: what a suite expects are the orders and the turning points
that its text states. Where the twin's answer differs, the guide says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dcgym.suites.accelerator_shapes import (
    p4hauler_published,
    p4hauler_shapes,
    p4mite_shapes,
    p4wise_published,
    p4wise_shapes,
)
from dcgym.suites.suite import SUITES, Case, Suite
from dcgym.tasks.accelerators.presets import APPLICATIONS

__all__ = [
    "GFLOPS",
    "KNN_PER_S",
    "MICRO_RATES",
    "THRESHOLDS_MS",
    "p4hauler",
    "p4mite",
    "p4wise",
]

ENV_ID = "dcgym/AcceleratorBalancing-v0"
SEEDS = 5
# Runs of 30 s, as published, and what comes before them.
EPISODE_S, WARM_UP_S = 40.0, 10.0
# Twenty of them in one: near the host's capacity a single one says little.
MICRO_S = WARM_UP_S + 20 * 30.0

MICRO_RATES = (20.0, 40.0, 45.0)
"""Requests a second of figure 4.3a, of 2 GFLOP each."""
GFLOPS = (2.0, 4.0, 8.0, 15.0, 18.0)
"""Work of a request in figure 4.3b, at 5 a second."""
THRESHOLDS_MS = (300, 1000, 2000)
LOADS = (0.3, 0.6, 0.9)
"""Load over the maximum of host and NIC in figure 4.4."""

HAULED = {
    # Low, at the knee of the host alone, beyond it; requests a second (figure 5.7).
    "vgg16": (30.0, 55.0, 68.0),
    "knn": (8.0, 16.0, 20.0),
    "anomaly-detection": (500.0, 1050.0, 1250.0),
    "text-retrieval": (30.0, 55.0, 68.0),
}
BATCHES = {
    # Requests a second and requests of a batch: low, near the host's rate, beyond it (figures 5.8
    # and 5.9).
    "vgg16": ((30.0, 1000), (60.0, 1000), (65.0, 1000), (70.0, 400), (70.0, 1000)),
    "knn": ((8.0, 250), (16.0, 250), (18.0, 250), (20.0, 100), (20.0, 250)),
}
BATCH_S = 80.0
REPORT_RATES = (1.0, 5.0, 20.0, 100.0, 200.0)
KNN_PER_S = 18.2
"""Requests a second that the processors of one server serve."""
SCALES = (64, 128, 256)
# Requests a second of a server: below the knee of the processors, at 98 % of them, beyond. The
# source simulates servers of 16 a second, and shows tails at 1000 a second of 64 servers.
SCALE_RATES = (10.0, 16.0, 17.8, 20.0, 26.0)
# Published are 100 a second of each device. They take most of the time, and weights use none.
WISE_AGENTS = {"rate_per_s": 20}
TURN_RATES = (0.4, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9)
"""Load of the processors around the published turn at 0.6."""
WISE_POLICIES = ("server-only", "wrr", "prt", "threshold", "oracle", "random")
ALPHAS = (0.3, 0.5)
"""Learning rates of figure 6.3."""
# While a table learns the load changes each so many actions, and weights stay as they are.
LEARNING_STEPS, STEPS_OF_A_RATE, STEP_S = 400, 8, 4.0
LEARNING_SERVERS, LEARNING_LOADS = 64, (0.3, 0.95)
# Its multiples spread over the range of loads as evenly as can be, in no order.
GOLDEN = 0.618034


def _case(
    name: str,
    scenario: Mapping[str, object],
    rate: float,
    policies: Sequence[str] | None = None,
    params: Mapping[str, Mapping[str, object]] | None = None,
    episode_s: float = EPISODE_S,
    **arguments: object,
) -> Case:
    env = {
        "env": ENV_ID,
        "scenario": dict(scenario),
        "rate": rate,
        "interval": "5s",
        "settle": "0s",
        "reward": "p99",
        **arguments,
    }
    only = None if policies is None else tuple(policies)
    return Case(env, name, params=params or {}, episode_s=episode_s, policies=only)


# Long because three experiments have cases of their own.
def p4mite() -> Suite:
    """Return E1 to E3: P4Mite's thresholds, and its gain over the host alone."""
    cases = [
        _case(
            f"micro-{rate:g}-{limit}",
            {"preset": "p4mite-micro", "gflop": 2.0},
            rate,
            ("p4mite",),
            {"p4mite": {"threshold": f"{limit}ms"}},
            MICRO_S,
        )
        for rate in MICRO_RATES
        for limit in THRESHOLDS_MS
    ]
    cases += [
        _case(
            f"size-{gflop:g}-{limit}",
            {"preset": "p4mite-micro", "gflop": gflop},
            5.0,
            ("p4mite", "server-only") if limit == THRESHOLDS_MS[0] else ("p4mite",),
            {"p4mite": {"threshold": f"{limit}ms"}},
            MICRO_S,
        )
        for gflop in GFLOPS
        for limit in THRESHOLDS_MS
    ]
    for name in ("dns", "vgg16", "knn"):
        measured = APPLICATIONS[name]
        most = measured.max_per_s or measured.host_per_s
        cases += [
            _case(
                f"{name}-{load:g}",
                {"preset": "accelerator-pool", "application": name},
                load * most,
                params={"p4mite": {"threshold": measured.threshold}},
            )
            for load in LOADS
        ]
    return Suite(
        name="p4mite",
        description="P4Mite: one server with a SmartNIC, busy bits against fixed shares.",
        cases=tuple(cases),
        policies=("server-only", "device-ecmp", "wrr", "p4mite"),
        seeds=SEEDS,
        episode_s=EPISODE_S,
        warmup_s=WARM_UP_S,
        jobs=0,
        shapes=p4mite_shapes(),
    )


# Long because four experiments have cases of their own.
def p4hauler() -> Suite:
    """Return E5 to E7 and E10: policies by rate, batches, reports by rate, and large pools."""
    cases = [
        _case(f"{name}-{rate:g}", {"preset": "accelerator-pool", "application": name}, rate)
        for name, rates in HAULED.items()
        for rate in rates
    ]
    cases += [
        _case(
            f"reports-{rate:g}",
            {"preset": "accelerator-pool", "application": "vgg16"},
            50.0,
            ("lur",),
            agents={"kind": "periodic", "rate_per_s": rate},
        )
        for rate in REPORT_RATES
    ]
    cases += [
        _case(
            f"{servers}-{rate:g}",
            {"preset": "accelerator-pool", "servers": servers, "accelerators": 2},
            rate * servers,
        )
        for servers in SCALES
        for rate in SCALE_RATES
    ]
    cases += [
        _case(
            f"{name}-batch-{rate:g}-{size}",
            {"preset": "accelerator-pool", "application": name, "requests": size},
            rate,
            episode_s=BATCH_S,
        )
        for name, batches in BATCHES.items()
        for rate, size in batches
    ]
    return Suite(
        name="p4hauler",
        description="P4Hauler: server-only, LUR, PRT and WRR on 1 to 256 servers with SmartNICs.",
        cases=tuple(cases),
        policies=("server-only", "lur", "prt", "wrr"),
        seeds=SEEDS,
        episode_s=EPISODE_S,
        warmup_s=WARM_UP_S,
        jobs=0,
        shapes=p4hauler_shapes(),
        published=p4hauler_published(),
    )


def _learning(alpha: float) -> Case:
    """Return E12 of one learning rate: a table learns while loads come and go."""
    low, high = LEARNING_LOADS
    rates = [
        (low + (high - low) * (number * GOLDEN % 1)) * KNN_PER_S * LEARNING_SERVERS
        for number in range(1, LEARNING_STEPS // STEPS_OF_A_RATE + 1)
    ]
    events = [
        {"at": STEP_S * number * STEPS_OF_A_RATE, "kind": "rate", "value": rate}
        for number, rate in enumerate(rates)
    ]
    return _case(
        f"learning-{alpha:g}",
        {
            "preset": f"p4wise-{LEARNING_SERVERS}",
            "agents": {"kind": "none"},
            "events": events[1:],
        },
        rates[0],
        ("p4wise",),
        {"p4wise": {"alpha": alpha}},
        LEARNING_STEPS * STEP_S,
        interval=f"{STEP_S:g}s",
        settle="1s",
        reward="p4wise",
    )


def p4wise() -> Suite:
    """Return E11, E12 and the frame of E13: where weights should turn, and who follows."""
    cases = []
    for servers in SCALES:
        scenario = {"preset": f"p4wise-{servers}", "agents": WISE_AGENTS}
        for load in TURN_RATES:
            rate = load * KNN_PER_S * servers
            cases.append(_case(f"{servers}-{load:g}", scenario, rate, WISE_POLICIES, oracle=True))
    for threshold in (0.5, 0.7):
        cases += [
            _case(
                f"128-{load:g}-at-{threshold:g}",
                {"preset": "p4wise-128", "agents": WISE_AGENTS},
                load * KNN_PER_S * 128,
                ("threshold",),
                {"threshold": {"utilisation": threshold}},
                oracle=True,
            )
            for load in TURN_RATES
        ]
    cases += [_learning(alpha) for alpha in ALPHAS]
    return Suite(
        name="p4wise",
        description="P4Wise: weights of 6:0 and 6:1 by rate at three scales, with regret.",
        cases=tuple(cases),
        policies=(*WISE_POLICIES, "p4wise"),
        seeds=SEEDS,
        episode_s=EPISODE_S,
        warmup_s=WARM_UP_S,
        jobs=0,
        shapes=p4wise_shapes(),
        published=p4wise_published(),
    )


for _suite in (p4mite(), p4hauler(), p4wise()):
    SUITES.add(_suite.name, _suite, _suite.description)
