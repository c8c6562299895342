"""Policies by name, and learned ones from their checkpoints."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dcgym.config import check_in, check_keys
from dcgym.errors import ConfigError, suggest
from dcgym.policies.balancing import (
    RULE_POLICIES,
    AwcmpPolicy,
    HlbPolicy,
    RandomWeightsPolicy,
    RulePolicy,
)
from dcgym.policies.base import Policy, task_of
from dcgym.policies.congestion.classic import (
    FairSharePolicy,
    FixedSharePolicy,
    RandomPolicy,
    TransportPolicy,
)
from dcgym.policies.congestion.joint import JointPolicy
from dcgym.policies.paths.policies import (
    EcmpPolicy,
    LeastLoadedPolicy,
    RandomPathsPolicy,
    WcmpPolicy,
)

__all__ = [
    "CHECKPOINT_FILE",
    "FAMILIES",
    "LEARNERS",
    "POLICIES",
    "load_policy",
    "make_policy",
    "policy_names",
]

CHECKPOINT_FILE = "dcgym_policy.json"
LEARNERS = {"ppo": "dcgym.policies.learned.rllib.ppo", "ddpg": "dcgym.policies.learned.sb3.ddpg"}
"""Names that need `train` first, and the module that trains and loads them."""


def _transport(name: str, marking: bool = False) -> Callable[[], Policy]:
    return lambda: TransportPolicy(name, name, marking)


POLICIES: dict[str, Callable[..., Policy]] = {
    "cubic": _transport("cubic"),
    "reno": _transport("reno"),
    "bbr": _transport("bbr"),
    "dctcp": _transport("dctcp", marking=True),
    "new-vegas": _transport("new-vegas"),
    "fixed-share": FixedSharePolicy,
    "fair-share": FairSharePolicy,
    "random": RandomPolicy,
}
"""Policies that limit the sending rates of hosts."""


def _rule(name: str, rule: str) -> Callable[[], Policy]:
    return lambda: RulePolicy(name, rule)


def _hlb(name: str, rule: str = "weighted", is_adaptive: bool = True) -> Callable[..., Policy]:
    return lambda period_s=0.5: HlbPolicy(name, rule, period_s, is_adaptive)


BALANCING_POLICIES: dict[str, Callable[..., Policy]] = {
    **{name: _rule(name, rule) for name, rule in RULE_POLICIES.items()},
    "awcmp": AwcmpPolicy,
    "hlb": _hlb("hlb"),
    "hlb2": _hlb("hlb2", rule="weighted2"),
    "hlb-fix": _hlb("hlb-fix", is_adaptive=False),
    "random": RandomWeightsPolicy,
}

PATH_POLICIES: dict[str, Callable[..., Policy]] = {
    "ecmp": EcmpPolicy,
    "wcmp": WcmpPolicy,
    "least-loaded": LeastLoadedPolicy,
    "random": RandomPathsPolicy,
}
"""Policies that weigh equal-cost paths."""


def _joint(rates: str, paths: str) -> Callable[..., Policy]:
    def make(seed: int = 0) -> Policy:
        parts = (
            make_policy(rates, family="congestion", seed=seed),
            make_policy(paths, family="paths", seed=seed),
        )
        return JointPolicy(f"{rates}+{paths}", *parts)

    return make


FAMILIES: Mapping[str, Mapping[str, Callable[..., Policy]]] = {
    "congestion": POLICIES,
    "paths": PATH_POLICIES,
    "joint": {
        f"{rates}+{paths}": _joint(rates, paths) for rates in POLICIES for paths in PATH_POLICIES
    },
    "balancing": BALANCING_POLICIES,
}
"""Policies by the family of environments that they act in (`policy_family` of the environment)."""


def policy_names(family: str | None = None) -> list[str]:
    """Return the names of a family, or of all, those of the learners included."""
    if family is None:
        return list(dict.fromkeys(name for known in FAMILIES for name in policy_names(known)))
    return [*FAMILIES[check_in("family", family, FAMILIES)], *LEARNERS]


def make_policy(
    name: str, env: Any = None, *, family: str | None = None, seed: int = 0, **params: Any
) -> Policy:
    """Make a policy.

    Args:
        name: A name of one of the `FAMILIES`.
        env: The environment to act in, if it exists already; otherwise call `bind` later.
        family: The family that the name belongs to; None for the environment's, or, without an
            environment, for the first one that knows the name.
        seed: Seed of policies that draw.
        **params: Parameters of the policy, such as `share` of fixed-share.

    Raises:
        ConfigError: Unknown name or parameter, or a learned policy without its checkpoint.
    """
    if name in LEARNERS:
        raise ConfigError("policy", name, "a classic policy; load a trained one with load_policy")
    maker = _find(name, getattr(task_of(env), "policy_family", family))
    allowed = inspect.signature(maker).parameters
    check_keys(params, [key for key in allowed if key != "seed"], f"policy {name}")
    if "seed" in allowed:
        params["seed"] = seed
    policy = maker(**params)
    return policy.bind(env) if env is not None else policy


def _find(name: str, family: str | None) -> Callable[..., Policy]:
    families = list(FAMILIES) if family is None else [check_in("family", family, FAMILIES)]
    for known in families:
        if name in FAMILIES[known]:
            return FAMILIES[known][name]
    known_names = policy_names(family)
    raise ConfigError("policy", name, known_names, suggest(name, known_names))


def load_policy(path: str | Path, env: Any = None) -> Policy:
    """Load a learned policy from the checkpoint folder that its `train` returned."""
    note = Path(path) / CHECKPOINT_FILE
    try:
        name = json.loads(note.read_text(encoding="utf-8"))["name"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError("checkpoint", str(path), f"a folder with {CHECKPOINT_FILE}") from error
    check_in("checkpoint", name, LEARNERS)
    import importlib

    policy: Policy = importlib.import_module(LEARNERS[name]).load(path)
    return policy.bind(env) if env is not None else policy
