"""Suites of Yao's studies in the twin, with the published numbers and what they should show.

Z. Yao, "Autonomous Service Management in the Cloud", 2023 (the thesis), and the multi-agent
paper (its tables 14 to 16). Numbers of real testbeds stand beside ours and are not expected to be
equal: the shapes are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from dcgym.suites.balancing import ENV_ID, TWIN, make_pool
from dcgym.suites.shapes import Check, Shape, Term, all_below
from dcgym.suites.suite import SUITES, Case, Published, Suite

__all__ = [
    "capacity_step",
    "charon",
    "distr_lb_simulation",
    "distr_lb_small",
    "hlb",
    "rate_sweep",
]

US_PER_S = 1e6
THESIS, PAPER = "Yao 2023", "Yao et al., multi-agent paper"
# Requests a second that the testbeds' processors can serve: what testbed_7 and testbed_20 are at a
# load of 1.
SMALL_CAPACITY_PER_S, LARGE_CAPACITY_PER_S = 888.9, 2424.2


def _case(name: str, scenario: Mapping[str, object], interval: str = "500ms") -> Case:
    # The runs have a warm-up of their own.
    env = {"env": ENV_ID, "backend": TWIN, "interval": interval, "lead_in": 0}
    return Case({**env, "scenario": scenario}, name)


def _pool(preset: str, **params: object) -> dict[str, object]:
    return {"preset": preset, **params}


def _published(
    source: str, metric: str, seconds: Mapping[str, Sequence[float]], cases: Sequence[str]
) -> tuple[Published, ...]:
    """Return published times by policy and case, in microseconds."""
    return tuple(
        Published(source, metric, policy, value_s * US_PER_S, case)
        for policy, values in seconds.items()
        for case, value_s in zip(cases, values, strict=True)
    )


def _below(metric: str, order: Sequence[str], cases: Sequence[str]) -> tuple[Check, ...]:
    """Return the checks that each policy has less of a metric than the next one."""
    return tuple(
        check
        for first, second in pairwise(order)
        for check in all_below(metric, first, second, cases)
    )


CHARON_LOADS = (0.645, 0.765, 0.845, 0.925, 1.0)
CHARON_JAIN: Mapping[str, Sequence[float]] = {
    "gsq": (0.59, 0.64, 0.68, 0.69, 0.75),
    "gsq2": (0.54, 0.59, 0.63, 0.67, 0.74),
    "charon": (0.52, 0.56, 0.61, 0.66, 0.76),
    "sapp": (0.51, 0.57, 0.60, 0.66, 0.74),
    "wcmp": (0.43, 0.47, 0.49, 0.54, 0.63),
    "ecmp": (0.34, 0.47, 0.49, 0.51, 0.52),
}
"""Jain's index of the servers' remaining work at `CHARON_LOADS`, table 4.1 of the thesis."""


def charon() -> Suite:
    """Return Charon's study of fairness: 2 balancers, 64 servers, five loads."""
    names = [f"load-{load:g}" for load in CHARON_LOADS]
    source = f"{THESIS}, table 4.1"
    # At a load of 1 the first four are together, and the order of the last two is a matter of runs.
    order = _below("jain", ("gsq2", "gsq"), names[:4]) + _below("jain", ("wcmp", "sapp"), names)
    order += _below("jain", ("wcmp", "charon"), names)
    rises = tuple(
        Check(Term("jain", policy, names[0]), "<", Term("jain", policy, names[3]))
        for policy in ("gsq", "gsq2", "charon", "sapp", "wcmp")
    )
    return Suite(
        name="charon",
        description="Charon's fairness: Jain's index of the remaining work at five loads.",
        cases=tuple(
            _case(name, _pool("charon-64", load=load))
            for name, load in zip(names, CHARON_LOADS, strict=True)
        ),
        policies=tuple(CHARON_JAIN),
        seeds=5,
        episode_s=300.0,
        warmup_s=60.0,
        published=tuple(
            Published(source, "jain", policy, value, name)
            for policy, values in CHARON_JAIN.items()
            for name, value in zip(names, values, strict=True)
        ),
        shapes=(
            Shape("charon-order", "GSQ is fairer than GSQ2, and SAPP than WCMP", source, order),
            Shape("charon-rises", "Fairness rises with the load", source, rises),
        ),
    )


def hlb() -> Suite:
    """Return HLB's study of a large pool: 4 balancers, 128 servers, 88.5 % load."""
    source = f"{THESIS}, section 6.5.2"
    metric, case = "fct_us_p90", "hlb-128"
    gains = tuple(
        check
        for other in ("lsq", "sed")
        for check in (
            Check(Term(metric, "hlb", case), "<", Term(metric, other, case, 0.9)),
            Check(Term(metric, "hlb", case), ">", Term(metric, other, case, 0.6)),
        )
    )
    return Suite(
        name="hlb",
        description="HLB against LSQ and SED: 4 balancers, 128 servers, 88.5 % load.",
        cases=(_case(case, _pool("hlb-128")),),
        policies=("oracle", "gsq", "hlb", "hlb-fix", "lsq", "sed", "awcmp", "wcmp", "random"),
        seeds=5,
        episode_s=300.0,
        warmup_s=60.0,
        shapes=(
            Shape(
                "hlb-gain",
                "HLB's 90th percentile is a quarter below those of LSQ and SED (-24.64 and "
                "-25.59 % published; 10 to 40 % hold)",
                source,
                gains,
            ),
        ),
    )


def capacity_step(episode_s: float = 1200.0) -> Suite:
    """Return the step of capacity: half-way the strong servers slow down to half their speed.

    Args:
        episode_s: Length of a run; the metrics are those after the step.
    """
    case = "capacity-step"
    return Suite(
        name=case,
        description="Strong servers slow down to half: rules after the step, 60 to 90 % load.",
        cases=(_case(case, make_pool(case, 0.85, episode_s).to_dict()),),
        policies=("oracle", "hlb", "lsq", "sed", "wcmp", "random"),
        seeds=5,
        episode_s=episode_s,
        warmup_s=episode_s / 2,
        shapes=(
            Shape(
                "step-hlb",
                "After the step HLB's flows finish sooner than those of SED, which trusts weights "
                "that have become wrong",
                f"{THESIS}, section 6.5.10",
                _below("fct_us_mean", ("hlb", "sed"), (case,)),
            ),
        ),
    )


RATES_PER_S = (
    731.534,
    1097.3,
    1463.067,
    1828.834,
    2194.601,
    2377.484,
    2560.368,
    2743.251,
    2926.135,
)
PAGE_S: Mapping[str, Sequence[float]] = {
    "lsq": (0.048, 0.055, 0.059, 0.069, 0.131, 0.643, 1.910, 2.873, 3.545),
    "sed": (0.054, 0.061, 0.068, 0.080, 0.117, 0.660, 1.718, 2.767, 3.482),
}
"""Mean completion time of the larger pages at `RATES_PER_S`, table 14 of the multi-agent paper."""
STATIC_S: Mapping[str, Sequence[float]] = {
    "lsq": (0.004, 0.004, 0.003, 0.004, 0.018, 0.252, 1.455, 2.426, 3.080),
    "sed": (0.003, 0.004, 0.004, 0.004, 0.006, 0.284, 1.283, 2.322, 3.041),
}
"""The same of static pages, table 15."""


def rate_sweep() -> Suite:
    """Return the sweep of rates on the large testbed: 6 balancers, 20 servers, 731 to 2926 /s."""
    names = [f"{rate:.0f}-per-s" for rate in RATES_PER_S]
    cases = tuple(
        _case(
            name,
            _pool("testbed-20", load=rate / LARGE_CAPACITY_PER_S, allow_overload=True),
            "250ms",
        )
        for name, rate in zip(names, RATES_PER_S, strict=True)
    )
    metric = "fct_us_mean_page"
    first, calm, last = names[0], names[3], names[-1]
    checks = {
        "calm": [Check(Term(metric, p, calm), "<", Term(metric, p, first, 2.0)) for p in PAGE_S],
        "busy": [Check(Term(metric, p, first, 5.0), "<", Term(metric, p, last)) for p in PAGE_S],
    }
    return Suite(
        name="rate-sweep",
        description="Wiki pages on the large testbed's sizes, 731 to 2926 requests a second.",
        cases=cases,
        policies=("oracle", *PAGE_S, "wcmp", "random"),
        seeds=5,
        episode_s=60.0,
        warmup_s=10.0,
        published=(
            *_published(f"{PAPER}, table 14", metric, PAGE_S, names),
            *_published(f"{PAPER}, table 15", "fct_us_mean_static", STATIC_S, names),
        ),
        shapes=(
            Shape(
                "sweep-calm",
                "Up to 1829 /s pages take less than twice as long as at 732 /s",
                PAPER,
                tuple(checks["calm"]),
            ),
            Shape(
                "sweep-saturated",
                "At 2926 /s they take more than five times as long",
                PAPER,
                tuple(checks["busy"]),
            ),
        ),
    )


PERIODS: Mapping[str, float] = {"I": 796.315, "II": 687.447, "III": 784.522}
"""Requests a second of the periods of tables 7.4 and 7.5; the fourth has the third's rate."""
SMALL_S: Mapping[str, Mapping[str, Sequence[float]]] = {
    "fct_us_mean_page": {
        "wcmp": (0.435, 0.254, 0.412),
        "lsq": (0.141, 0.143, 0.620),
        "sed": (0.137, 0.131, 0.215),
    },
    "fct_us_mean_static": {
        "wcmp": (0.171, 0.073, 0.134),
        "lsq": (0.023, 0.023, 0.339),
        "sed": (0.020, 0.027, 0.051),
    },
    "fct_us_p99_page": {
        "wcmp": (5.801, 4.019, 3.239),
        "lsq": (0.722, 0.814, 1.846),
        "sed": (0.706, 0.697, 0.726),
    },
    "fct_us_p99_static": {
        "wcmp": (4.462, 3.192, 2.305),
        "lsq": (0.195, 0.288, 1.168),
        "sed": (0.208, 0.217, 0.203),
    },
}
"""Means and 99th percentiles of the rules in `PERIODS`, in seconds."""


def distr_lb_small() -> Suite:
    """Return the small testbed of the multi-agent study: 2 balancers, 7 servers, three periods."""
    names = list(PERIODS)
    source = f"{THESIS}, tables 7.4 and 7.5"
    ahead = _below("fct_us_mean_page", ("sed", "wcmp"), names)
    ahead += _below("fct_us_p99_page", ("sed", "wcmp"), names)
    return Suite(
        name="distr-lb-small",
        description="Wiki pages on the small testbed's sizes: rules (and learners) in 3 periods.",
        cases=tuple(
            _case(
                name,
                _pool("testbed-7", application="wiki", load=rate / SMALL_CAPACITY_PER_S),
                "250ms",
            )
            for name, rate in PERIODS.items()
        ),
        policies=("oracle", "sed", "lsq", "hlb", "wcmp", "random"),
        seeds=10,
        episode_s=60.0,
        warmup_s=10.0,
        published=tuple(
            one
            for metric, seconds in SMALL_S.items()
            for one in _published(source, metric, seconds, names)
        ),
        shapes=(
            Shape("small-sed", "SED's mean and tail are below WCMP's", source, ahead),
            Shape(
                "small-lsq",
                "SED's mean is below LSQ's, which takes all servers for alike",
                source,
                _below("fct_us_mean_page", ("sed", "lsq"), names),
            ),
        ),
    )


# Of the application with as much I/O as CPU time the published rate overloads the I/O devices
# (20.28 /s of 0.5 s each on 8 of them); ours is normalised to the busier resource.
APPLICATIONS = {"cpu": 1.291, "cpu-intensive": 1.469}
"""The Oracle's mean completion time in seconds, table 7.6 of the thesis, by application."""


def distr_lb_simulation() -> Suite:
    """Return the simulator's study of the multi-agent paper: ratios to the Oracle."""
    source = f"{THESIS}, table 7.6"
    names = list(APPLICATIONS)
    return Suite(
        name="distr-lb-simulation",
        description="The simulated pool of 8 servers at 84.5 % load: rules against the Oracle.",
        cases=tuple(_case(name, _pool("yao-sim-8", application=name)) for name in names),
        policies=("oracle", "sed", "lsq", "hlb", "wcmp", "random"),
        seeds=10,
        episode_s=1000.0,
        warmup_s=100.0,
        published=tuple(
            Published(source, "fct_us_mean", "oracle", value_s * US_PER_S, name)
            for name, value_s in APPLICATIONS.items()
        ),
        shapes=(
            Shape(
                "oracle-bounds",
                "No rule that sees a part of the flows is as fast as the Oracle",
                source,
                tuple(
                    check
                    for other in ("lsq", "hlb", "wcmp")
                    for check in _below("fct_us_mean", ("oracle", other), names)
                ),
            ),
        ),
    )


for _suite in (
    charon(),
    hlb(),
    capacity_step(),
    rate_sweep(),
    distr_lb_small(),
    distr_lb_simulation(),
):
    SUITES.add(_suite.name, _suite, _suite.description)
