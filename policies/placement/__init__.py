"""Policies that place virtual addresses on switches, and their DIPs in racks."""

from dcgym.policies.placement.dips import (
    GreedyLocalPolicy,
    NoLocalPolicy,
    RubikPolicy,
)
from dcgym.policies.placement.feasible import RandomFeasiblePolicy
from dcgym.policies.placement.migration import (
    NonStickyPolicy,
    OneTimePolicy,
    RandomMarginPolicy,
    StickyPolicy,
)
from dcgym.policies.placement.vips import (
    FewestHopsPolicy,
    FirstFeasiblePolicy,
    LeastMruPolicy,
    MuxesPolicy,
)

__all__ = [
    "FewestHopsPolicy",
    "FirstFeasiblePolicy",
    "GreedyLocalPolicy",
    "LeastMruPolicy",
    "MuxesPolicy",
    "NoLocalPolicy",
    "NonStickyPolicy",
    "OneTimePolicy",
    "RandomFeasiblePolicy",
    "RandomMarginPolicy",
    "RubikPolicy",
    "StickyPolicy",
]
