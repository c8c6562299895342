"""Policies by name, in the family of the tasks that they act in."""

from __future__ import annotations

from dcgym.config import check_int
from dcgym.errors import ConfigError, suggest
from dcgym.policies.accelerators import (
    BestWeightsPolicy,
    DeviceRulePolicy,
    P4WisePolicy,
    RandomLevelPolicy,
    ThresholdPolicy,
)
from dcgym.policies.assignment import JobRulePolicy, LeastPolicy, RandomJobPolicy
from dcgym.policies.balancing import (
    AwcmpPolicy,
    HlbPolicy,
    KnapsackPolicy,
    RandomWeightsPolicy,
    RulePolicy,
    UtilisationPolicy,
)
from dcgym.policies.base import Overrides, Policy, task_of
from dcgym.policies.congestion.classic import (
    FairSharePolicy,
    FixedSharePolicy,
    RandomPolicy,
    TransportPolicy,
)
from dcgym.policies.families import PairFamily, PolicyFamily, PolicyMaker, build_policy
from dcgym.policies.flows.policies import RandomFlowPolicy, UnassistedPolicy
from dcgym.policies.learners import LEARNERS
from dcgym.policies.paths.hula import HulaPolicy
from dcgym.policies.paths.policies import (
    EcmpPolicy,
    LeastLoadedPolicy,
    RandomPathsPolicy,
    WcmpPolicy,
)
from dcgym.policies.paths.rules import PathRulePolicy
from dcgym.policies.placement import (
    FewestHopsPolicy,
    FirstFeasiblePolicy,
    GreedyLocalPolicy,
    LeastMruPolicy,
    MuxesPolicy,
    NoLocalPolicy,
    NonStickyPolicy,
    OneTimePolicy,
    RandomFeasiblePolicy,
    RandomMarginPolicy,
    RubikPolicy,
    StickyPolicy,
)
from dcgym.registry import Registry
from dcgym.tasks.accelerators.rules import DEVICE_RULES
from dcgym.tasks.balancing.rules import RULES
from dcgym.tasks.network.controls import AGENT_CONTROL, CONGESTION_CONTROLS, CongestionControl
from dcgym.tasks.network.path_rules import PATH_RULES
from dcgym.units import parse_duration

__all__ = ["POLICIES", "env_overrides", "make_policy", "policy_names"]

POLICIES: Registry[PolicyFamily] = Registry("policy-families", "family")
"""Policies by the family of their tasks. A package with tasks of a family of its own adds one:
``POLICIES.add("mine", PolicyFamily("mine")).add("simple", SimplePolicy)``."""


def policy_names(family: str | None = None) -> list[str]:
    """Return the names of policies, those of the learners included.

    Args:
        family: Name of a family; None for all of them.

    Raises:
        ConfigError: There is no such family.
    """
    if family is None:
        return list(dict.fromkeys(name for one in POLICIES.names() for name in policy_names(one)))
    return [*POLICIES.find(family).names(), *LEARNERS.names()]


def make_policy(
    name: str, env: object = None, *, family: str | None = None, seed: int = 0, **params: object
) -> Policy:
    """Make a policy.

    Args:
        name: A name of one of the families.
        env: The environment or task to act in, if it exists already; otherwise call `bind` later.
        family: The family that the name belongs to; None for the environment's, or, without an
            environment, for the first one that knows the name.
        seed: Seed of policies that draw.
        **params: Parameters of the policy, such as `share` of fixed-share.

    Raises:
        ConfigError: Unknown name or parameter, or a learned policy without its checkpoint.
    """
    if not isinstance(name, str):
        raise ConfigError("policy", name, "a name")
    if name in LEARNERS.names():
        learner = LEARNERS[name]
        allowed = (
            "a classic policy here; a trained one needs its folder (--checkpoint, in Python "
            f"load_policy), which 'dcgym train --algo {learner.algorithm} "
            f"--library {learner.library}' makes"
        )
        raise ConfigError("policy", name, allowed)
    if env is not None:
        family = getattr(task_of(env), "family", None)
    seed = check_int("seed", seed, 0)
    policy = build_policy(name, _find(name, family), seed, params)
    return policy if env is None else policy.bind(env)


def env_overrides(name: str, family: str | None = None) -> Overrides:
    """Return the arguments of the environment that the named policy asks for.

    Args:
        name: Name of a classic policy.
        family: Its family; None for the first one that knows the name.

    Raises:
        ConfigError: Unknown name.
    """
    return make_policy(name, family=family).env_overrides()


def _find(name: str, family: str | None) -> PolicyMaker:
    for known in POLICIES.names() if family is None else [family]:
        makers = POLICIES.find(known)
        if name in makers:
            return makers[name]
    known_names = policy_names(family)
    others = [one for one in POLICIES.names() if one != family and name in POLICIES.find(one)]
    if others:
        allowed = (
            f"{', '.join(known_names)} here; {name} is for {' and '.join(others)} environments"
        )
        raise ConfigError("policy", name, allowed)
    raise ConfigError("policy", name, known_names, suggest(name, known_names))


def _add_transport(name: str, control: CongestionControl) -> None:
    # Nobody steers the flows of that one here.
    if name == AGENT_CONTROL:
        return
    marking = control.needs_marks
    description = f"Leave it to the hosts' {name}{', with marking switches' if marking else ''}."
    _CONGESTION.add(name, lambda: TransportPolicy(name, name, marking), description)


def _add_rule(name: str, rule: str) -> None:
    _BALANCING.add(
        name, lambda: RulePolicy(name, rule), f"The rule {rule} with configured weights."
    )


def _add_path_rule(name: str) -> None:
    _PATHS.add(
        name, lambda: PathRulePolicy(name), f"Equal weights, and {PATH_RULES.describe(name)}."
    )


def _add_hlb(name: str, description: str, rule: str = "weighted", is_adaptive: bool = True) -> None:
    def make(period_s: float = 0.5) -> Policy:
        return HlbPolicy(name, rule, period_s, is_adaptive)

    _BALANCING.add(name, make, description)


_CONGESTION = POLICIES.add("congestion", PolicyFamily("congestion"), "Sending rates of hosts.")
CONGESTION_CONTROLS.follow(_add_transport, _CONGESTION.remove)
_CONGESTION.add("fixed-share", FixedSharePolicy)
_CONGESTION.add("fair-share", FairSharePolicy)
_CONGESTION.add("random", RandomPolicy)

_PATHS = POLICIES.add("paths", PolicyFamily("paths"), "Weights of equal-cost paths.")
_PATHS.add("ecmp", EcmpPolicy)
_PATHS.add("wcmp", WcmpPolicy)
_PATHS.add("least-loaded", LeastLoadedPolicy)
_PATHS.add("random", RandomPathsPolicy)
for _name in PATH_RULES:
    if _name != "ecmp":
        _add_path_rule(_name)
_PATHS.add("hula", HulaPolicy)

_FLOWS = POLICIES.add("flows", PolicyFamily("flows"), "Windows and rates of single flows.")
_FLOWS.add("unassisted", UnassistedPolicy)
_FLOWS.add("random", RandomFlowPolicy)

POLICIES.add("joint", PairFamily("joint", _CONGESTION, _PATHS), "Rates and paths together.")

_BALANCING = POLICIES.add("balancing", PolicyFamily("balancing"), "Servers of new flows.")
# A policy called "random" draws weights, and the source of wsapp has a name for it.
_RULE_POLICIES = {"random": "random-server", "wsapp": "charon"}
for _name, _rule in RULES.items():
    # What looks at learned weights needs somebody who sets them.
    if not _rule.uses_learned:
        _add_rule(_RULE_POLICIES.get(_name, _name), _name)
_BALANCING.add("awcmp", AwcmpPolicy)
_add_hlb("hlb", "Counts weighed by slowness, estimated from flow durations.")
_add_hlb("hlb2", "hlb with two candidates a flow.", rule="weighted2")
_add_hlb("hlb-fix", "hlb with fixed measurement noise.", is_adaptive=False)
_BALANCING.add("wrr-utilisation", UtilisationPolicy)
_BALANCING.add("knapsack", KnapsackPolicy)
_BALANCING.add("random", RandomWeightsPolicy)

_ASSIGNMENT = POLICIES.add("assignment", PolicyFamily("assignment"), "Servers of single jobs.")


def _add_job_rule(name: str, rule: str) -> None:
    _ASSIGNMENT.add(name, lambda: JobRulePolicy(name, rule), f"The rule {rule}, job by job.")


def _add_least(name: str, description: str) -> None:
    _ASSIGNMENT.add(name, lambda: LeastPolicy(name), description)


_add_least("least-work", "Least load as Park observes it: its greedy rule.")
_add_least("least-time", "Least time until the server is done with all it has.")
_add_least("shortest-processing-time", "Least waiting work over speed, jobs in service left out.")
_ASSIGNMENT.add("random", RandomJobPolicy)
# The one dispatcher has placed every job: gsq is lsq to it, and ecmp is random. Charon is of flows.
_NOT_FOR_JOBS = ("ecmp", "gsq", "gsq2", "sapp", "wsapp")
for _name, _rule in RULES.items():
    if not _rule.uses_learned and _name not in _NOT_FOR_JOBS:
        _add_job_rule(_RULE_POLICIES.get(_name, _name), _name)

_ACCELERATORS = POLICIES.add(
    "accelerators", PolicyFamily("accelerators"), "Weights of devices in servers."
)


def _add_device_rule(name: str) -> None:
    _ACCELERATORS.add(name, lambda: DeviceRulePolicy(name), f"The device rule {name}.")


def _add_ring(name: str) -> None:
    def make(processors: float = 5.0, accelerators: float = 1.0) -> Policy:
        return DeviceRulePolicy(name, (processors, accelerators))

    _ACCELERATORS.add(name, make, f"The device rule {name} with fixed weights, 5:1.")


def _make_p4mite(threshold: str | float = "300ms") -> Policy:
    agents = {"kind": "event", "threshold_ns": parse_duration(threshold, "threshold")}
    return DeviceRulePolicy("p4mite", agents=agents)


for _name, _device_rule in DEVICE_RULES.items():
    if _device_rule.uses_weights:
        _add_ring(_name)
    elif _device_rule.needs != "busy":
        _add_device_rule(_name)
_ACCELERATORS.add("p4mite", _make_p4mite, "The device rule p4mite, with event-driven agents.")
_ACCELERATORS.add("threshold", ThresholdPolicy)
_ACCELERATORS.add("p4wise", P4WisePolicy)
_ACCELERATORS.add("oracle", BestWeightsPolicy)
_ACCELERATORS.add("random", RandomLevelPolicy)

_PLACEMENT = POLICIES.add("placement", PolicyFamily("placement"), "Switches of VIPs.")
_PLACEMENT.add("duet", lambda: LeastMruPolicy(), "Duet's greedy assignment, with its stop rule.")
_PLACEMENT.add(
    "duet-skip",
    lambda: LeastMruPolicy("duet-skip", stops=False),
    "Duet's greedy assignment; VIPs that fit nowhere are left out.",
)
for _placing in (FirstFeasiblePolicy, FewestHopsPolicy, MuxesPolicy, RandomFeasiblePolicy):
    _PLACEMENT.add(_placing.name, _placing)

_DIPS = POLICIES.add("dips", PolicyFamily("dips"), "Local mappings and DIPs of VIPs.")


def _make_rubik(gap: float = 0.01, time_limit_s: float = 60.0) -> Policy:
    return RubikPolicy("rubik", True, gap, time_limit_s)


def _make_rubik_lo(gap: float = 0.01, time_limit_s: float = 60.0) -> Policy:
    return RubikPolicy("rubik-lo", False, gap, time_limit_s)


_DIPS.add("rubik", _make_rubik, "Rubik's program: local mappings, and DIPs that move.")
_DIPS.add("rubik-lo", _make_rubik_lo, "Rubik's program while DIPs stay.")
for _mapping in (NoLocalPolicy, GreedyLocalPolicy, RandomFeasiblePolicy):
    _DIPS.add(_mapping.name, _mapping)

_MIGRATION = POLICIES.add("migration", PolicyFamily("migration"), "Moves of VIPs, by epoch.")
for _moving in (StickyPolicy, NonStickyPolicy, OneTimePolicy, RandomMarginPolicy):
    _MIGRATION.add(_moving.name, _moving)
