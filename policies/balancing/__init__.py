"""Policies that choose servers: a rule for every flow, and slow loops that set its weights."""

from dcgym.policies.balancing.awcmp import AwcmpPolicy
from dcgym.policies.balancing.base import POLLING_POLICIES
from dcgym.policies.balancing.hlb import HlbPolicy
from dcgym.policies.balancing.knapsack import KnapsackPolicy
from dcgym.policies.balancing.rules import RandomWeightsPolicy, RulePolicy
from dcgym.policies.balancing.utilisation import UtilisationPolicy

__all__ = [
    "POLLING_POLICIES",
    "AwcmpPolicy",
    "HlbPolicy",
    "KnapsackPolicy",
    "RandomWeightsPolicy",
    "RulePolicy",
    "UtilisationPolicy",
]
