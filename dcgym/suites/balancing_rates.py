"""The suite `rate-sweep-balancing`: classic, modern and learned balancers from 0.3 to 1.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dcgym.backends.registry import POOLS
from dcgym.config import check_seconds
from dcgym.defaults import DefaultNumber
from dcgym.suites.balancing import TWIN, pool_env
from dcgym.suites.scores import Scoring
from dcgym.suites.shapes import Check, Claim, Shape, Term, all_below, shapes_among
from dcgym.suites.suite import SUITES, Case, Suite, Training

__all__ = ["CLASSIC", "LEARNED", "LOADS", "MODERN", "rate_sweep_balancing"]

LOADS = (0.3, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1)
"""Utilisation of the servers' processors; what arrives above 1 is refused in part."""

CLASSIC = ("oracle", "sed", "sed2", "lsq", "lsq2", "wcmp", "ecmp", "random")
MODERN = (
    *("hlb", "prequal", "peak-ewma", "jiq", "c3-rank", "least-request", "wrr-utilisation"),
    *("knapsack", "awcmp"),
)
LEARNED = ("cma-es", "ppo", "ddpg", "sac", "mappo")

SED, WCMP = "sed", "wcmp"
MEAN, TAIL = "fct_us_mean", "fct_us_p99"
TABLE_14 = "Yao et al., multi-agent paper, table 14"


@dataclass(frozen=True)
class _Budget:
    """How much of the suite a backend runs.

    Attributes:
        preset: The pool.
        loads: Loads.
        policies: Names of the policies.
        episode_s: Length of a run.
        warmup_s: What the metrics leave out of it.
    """

    preset: str
    loads: tuple[float, ...]
    policies: tuple[str, ...]
    episode_s: float
    warmup_s: float


TWIN_BUDGET = _Budget("testbed-20", LOADS, (*CLASSIC, *MODERN, *LEARNED), 30.0, 6.0)
# The small testbed of the same study: two cores serve its requests in time.
REAL_TIME_BUDGET = _Budget("testbed-7", (0.3, 0.7, 0.95), ("sed", "prequal", "wcmp"), 20.0, 4.0)


def rate_sweep_balancing(backend: str = TWIN, episode_s: float | None = None) -> Suite:
    """Return the suite; one training serves all loads: it draws them, in the twin.

    A backend in real time runs alone, and a part of it: three loads of a smaller pool, and three
    rules.

    Args:
        backend: Name of a backend of pools.
        episode_s: Seconds of one run; 30, 6 of which are left out, and in real time 20 and 4, if
            None.

    Raises:
        ConfigError: A value is not allowed.
    """
    is_real_time = POOLS.find(backend).capabilities.real_time
    budget = REAL_TIME_BUDGET if is_real_time else TWIN_BUDGET
    episode_s = budget.episode_s if episode_s is None else check_seconds("episode_s", episode_s)
    trained = {
        **_env(budget.preset, max(LOADS), TWIN),
        "randomise": {"scenario.load": {"uniform": [min(LOADS), max(LOADS)]}},
    }
    return Suite(
        name="rate-sweep-balancing",
        description="Classic, modern and learned balancers at loads from 0.3 to 1.1.",
        cases=tuple(
            Case(
                _env(budget.preset, load, backend),
                _name(load),
                {"load": load},
                train_env=trained,
                train_name=budget.preset,
            )
            for load in budget.loads
        ),
        policies=budget.policies,
        seeds=3 if is_real_time else 5,
        episode_s=episode_s,
        warmup_s=DefaultNumber(budget.warmup_s),
        jobs=1 if is_real_time else 2,
        is_alone=is_real_time,
        training=Training(seconds=60.0, envs=8, trainings=3),
        shapes=_shapes(budget.loads, budget.policies),
        scoring=Scoring((MEAN, TAIL), "random", "oracle"),
        maker=rate_sweep_balancing,
    )


def _name(load: float) -> str:
    return f"load-{load:g}"


def _env(preset: str, load: float, backend: str) -> Mapping[str, object]:
    pool = {"preset": preset, "load": load, "allow_overload": True}
    return pool_env(pool, backend)


def _shapes(loads: Sequence[float], policies: Sequence[str]) -> tuple[Shape, ...]:
    claims = (*_classic_shapes(loads), *_modern_shapes(loads), *_overload_shapes(loads))
    return shapes_among(claims, [*map(_name, loads)], policies)


def _classic_shapes(loads: Sequence[float]) -> tuple[Claim, ...]:
    served = [load for load in loads if load < 1]
    return (
        (
            "sed-mean",
            "Below a load of 1 SED's mean is below WCMP's",
            "Yao 2023, table 7.4",
            _below(MEAN, SED, WCMP, served),
        ),
        (
            "sed-tail",
            "Below a load of 1 SED's 99th percentile is below WCMP's",
            "Yao 2023, table 7.4",
            _below(TAIL, SED, WCMP, served),
        ),
        (
            "lsq-calm",
            "Up to a load of 0.7 LSQ's mean is below SED's",
            TABLE_14,
            _below(MEAN, "lsq", SED, [load for load in loads if load <= 0.7]),
        ),
        (
            "sed-busy",
            "At a load of 0.9 SED's mean is below LSQ's",
            TABLE_14,
            _below(MEAN, SED, "lsq", [0.9]),
        ),
        (
            "two-choices",
            "The shorter of two queues has a lower 99th percentile than a random server",
            "Mitzenmacher 2001",
            _below(TAIL, "lsq2", "ecmp", served),
        ),
    )


def _modern_shapes(loads: Sequence[float]) -> tuple[Claim, ...]:
    heavy = [load for load in loads if 0.9 <= load < 1]
    return (
        (
            "jiq-heavy",
            "From 0.9 on join-idle-queue's 99th percentile is above LSQ's",
            "arXiv 1710.04357: not optimal in heavy traffic",
            _below(TAIL, "lsq", "jiq", heavy),
        ),
        (
            "prequal-wrr",
            "From 0.9 on Prequal's 99th percentile is below that of round robin by utilisation",
            "Wydrowski and others, NSDI 2024",
            _below(TAIL, "prequal", "wrr-utilisation", heavy),
        ),
        (
            "prequal-errors",
            "Below a load of 1 Prequal loses no request",
            "Wydrowski and others, NSDI 2024",
            tuple(
                Check(Term("rejected", "prequal", _name(load)), "<=", 0.0)
                for load in loads
                if load < 1
            ),
        ),
        (
            "learned-sed",
            "From 0.7 to 0.95 the policy that CMA-ES trained has a lower mean than SED",
            "our expectation",
            _below(MEAN, "cma-es", SED, [load for load in loads if 0.7 <= load < 1]),
        ),
    )


def _overload_shapes(loads: Sequence[float]) -> tuple[Claim, ...]:
    beyond = [load for load in loads if load > 1]
    return (
        (
            "overload-alike",
            "Beyond a load of 1 the means of SED and LSQ are within 12 % of each other",
            TABLE_14,
            (*_below(MEAN, SED, "lsq", beyond, 1.12), *_below(MEAN, "lsq", SED, beyond, 1.12)),
        ),
    )


def _below(
    metric: str, policy: str, other: str, loads: Sequence[float], factor: float = 1.0
) -> tuple[Check, ...]:
    return all_below(metric, policy, other, [*map(_name, loads)], factor)


_SUITE = rate_sweep_balancing()
SUITES.add(_SUITE.name, _SUITE, _SUITE.description)
