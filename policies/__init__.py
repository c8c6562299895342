"""Policies: classic ones by name, learned ones from a checkpoint, one interface."""

if __name__ != "dcgym.policies":
    raise ImportError(f"import dcgym.policies, not {__name__}")

from dcgym.policies.base import Policy, env_overrides
from dcgym.policies.registry import (
    FAMILIES,
    LEARNERS,
    POLICIES,
    load_policy,
    make_policy,
    policy_names,
)

__all__ = [
    "FAMILIES",
    "LEARNERS",
    "POLICIES",
    "Policy",
    "env_overrides",
    "load_policy",
    "make_policy",
    "policy_names",
]
