"""Policies: classic ones by name, learned ones from a checkpoint, one interface."""

if __name__ != "dcgym.policies":
    raise ImportError(f"import dcgym.policies, not {__name__}")

from dcgym.policies.base import Policy
from dcgym.policies.checkpoint import CHECKPOINT_FILE
from dcgym.policies.families import PolicyFamily
from dcgym.policies.learned import catalogue as _catalogue  # noqa: F401  adds the learners
from dcgym.policies.learners import (
    LEARNERS,
    Learner,
    TrainingOptions,
    find_learner,
    load_policy,
)
from dcgym.policies.recipes import RECIPES, Recipe
from dcgym.policies.registry import POLICIES, env_overrides, make_policy, policy_names
from dcgym.policies.trained import TRAINED

__all__ = [
    "CHECKPOINT_FILE",
    "LEARNERS",
    "POLICIES",
    "RECIPES",
    "TRAINED",
    "Learner",
    "Policy",
    "PolicyFamily",
    "Recipe",
    "TrainingOptions",
    "env_overrides",
    "find_learner",
    "load_policy",
    "make_policy",
    "policy_names",
]
