"""The balancing suites: pools with a difficulty each, rules and learners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dcgym.backends.registry import POOLS
from dcgym.config import check_in, check_range, check_seconds
from dcgym.defaults import DefaultNumber
from dcgym.suites.checks import fit_policies
from dcgym.suites.spec import Arguments
from dcgym.suites.suite import SUITES, Case, Suite, Training
from dcgym.tasks.balancing import Event, Scenario, make_scenario

__all__ = [
    "CLASSIC_POLICIES",
    "DIFFICULTIES",
    "ENV_ID",
    "INTERVAL_S",
    "QUICK_POLICIES",
    "TWIN",
    "balancing_classic",
    "balancing_quick",
    "make_pool",
    "pool_env",
]

ENV_ID = "dcgym/LoadBalancing-v1"
TWIN = "simulation"
INTERVAL_S = 0.25
LOAD = 0.85
# Learners act in episodes of a minute, as in the multi-agent studies.
TRAINING_EPISODE_S = 60.0
# The strong group falls to half of its speed, which makes the groups equal.
CAPACITY_STEP = 0.5
LOAD_AFTER_STEP = 0.9

CLASSIC_POLICIES = (
    *("earliest-finish", "oracle", "gsq", "sed-half", "sed", "sed2", "hlb"),
    *("lsq", "lsq2", "wcmp", "awcmp", "ecmp", "random"),
)
QUICK_POLICIES = (*CLASSIC_POLICIES, "ppo", "ddpg")
DIFFICULTIES = ("right-weights", "wrong-weights", "capacity-step")


@dataclass(frozen=True)
class _Scale:
    """How large and how long the quick suite is on a backend."""

    preset: str
    episode_s: float
    warmup_s: float


TWIN_SCALE = _Scale("yao-sim-8", 1000.0, 100.0)
REAL_TIME_SCALE = _Scale("testbed-7", 60.0, 5.0)


def make_pool(name: str, load: float, episode_s: float, preset: str = "yao-sim-8") -> Scenario:
    """Return the pool of a case: a preset, as it is or with a difficulty.

    Args:
        name: "right-weights"; "wrong-weights": the configured weights of the two groups are
            swapped; "capacity-step": half-way through the strong servers slow down to half, which
            makes the groups equal, at a load of 90 % afterwards.
        load: Utilisation of the first two.
        episode_s: Length of an episode.
        preset: A scenario with two groups, weak and strong.

    Raises:
        ConfigError: Unknown name, or a load that is not allowed.
    """
    check_in("scenario", name, DIFFICULTIES)
    pool = make_scenario(preset, load=load)
    weak, strong = pool.pool.groups
    if name == "capacity-step":
        step = Event(round(episode_s / 2 * 1e9), "capacity", strong.name, CAPACITY_STEP)
        before, lost = (g.count * g.workers for g in (weak, strong))
        share = (before + lost * CAPACITY_STEP) / (before + lost)
        return make_scenario(preset, load=LOAD_AFTER_STEP * share).changed(events=(step,))
    if name == "right-weights":
        return pool
    weights = strong.configured_weight, weak.configured_weight
    return pool.changed(
        groups=(replace(weak, weight=weights[0]), replace(strong, weight=weights[1]))
    )


def pool_env(scenario: Mapping[str, object], backend: str | None = None) -> Arguments:
    """Return the arguments of an environment with one agent a balancer.

    Args:
        scenario: The pool, as plain data.
        backend: Name of the backend; the environment's own if None.
    """
    # Suites have a warm-up of their own, under the policy that is measured.
    env = {"env": ENV_ID, "scenario": scenario, "interval": f"{INTERVAL_S}s", "lead_in": 0}
    return env if backend is None else {**env, "backend": backend}


def balancing_classic(load: float = LOAD, episode_s: float = 2000.0) -> Suite:
    """Return the suite of rules: one pool in the twin, no learners.

    Args:
        load: Utilisation of the servers.
        episode_s: Simulated seconds of one run.

    Raises:
        ConfigError: A value is not allowed.
    """
    return Suite(
        name="balancing-classic",
        description="Balancing rules on 2 balancers and 4 + 4 servers, in the twin.",
        cases=_cases(DIFFICULTIES[:1], load, episode_s, "yao-sim-8", TWIN),
        policies=CLASSIC_POLICIES,
        episode_s=episode_s,
        warmup_s=DefaultNumber(100.0),
        maker=balancing_classic,
    )


def balancing_quick(
    load: float = LOAD, episode_s: float | None = None, backend: str = TWIN
) -> Suite:
    """Return the suite of rules and learners: right weights, wrong weights, a capacity step.

    Learners train in the twin, wherever they are scored. A backend in real time gets a pool and a
    length that it can bear, runs alone, and is asked only for the rules that it has.

    Args:
        load: Utilisation of the servers without a step.
        episode_s: Seconds of one run; 1000, and 60 in real time, if None.
        backend: Name of a backend of pools.

    Raises:
        ConfigError: A value is not allowed.
    """
    can = POOLS.find(backend).capabilities
    is_real_time = can.real_time
    scale = REAL_TIME_SCALE if is_real_time else TWIN_SCALE
    episode_s = scale.episode_s if episode_s is None else episode_s
    cases = _cases(DIFFICULTIES, load, episode_s, scale.preset, backend)
    return Suite(
        name="balancing-quick",
        description="Rules and learners: right weights, wrong weights, a capacity step.",
        cases=cases,
        # A pool that tells the truth has every rule; the others are asked.
        policies=QUICK_POLICIES if can.oracles else fit_policies(QUICK_POLICIES, cases[0].env),
        episode_s=episode_s,
        warmup_s=DefaultNumber(scale.warmup_s),
        jobs=1 if is_real_time else 2,
        is_alone=is_real_time,
        training=Training(seconds=80.0, envs=32),
        maker=balancing_quick,
    )


def _cases(
    names: tuple[str, ...], load: float, episode_s: float, preset: str, backend: str
) -> tuple[Case, ...]:
    load = check_range("load", load, 0.01, 0.99)
    episode_s = check_seconds("episode_s", episode_s)
    return tuple(_case(name, load, episode_s, preset, backend) for name in names)


def _case(name: str, load: float, episode_s: float, preset: str, backend: str) -> Case:
    """Return a case and what its learners train in.

    What a learner sees does not depend on the configured weights: one training serves both cases
    without a step. The one with the step has a step in each training episode.
    """
    base = "capacity-step" if name == "capacity-step" else "right-weights"
    scenario, trained = (
        make_pool(one, load, length_s, preset).to_dict()
        for one, length_s in ((name, episode_s), (base, TRAINING_EPISODE_S))
    )
    return Case(pool_env(scenario, backend), name, train_env=pool_env(trained), train_name=base)


for _suite in (balancing_classic(), balancing_quick()):
    SUITES.add(_suite.name, _suite, _suite.description)
