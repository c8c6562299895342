"""Traffic: seeded plans of flows, and the generator that carries them out."""

if __name__ != "dcgym.traffic":
    raise ImportError("import this package as dcgym.traffic")

from dcgym.traffic.plans.library import FAMILIES, KINDS, PATTERNS, PLANS, Family, TrafficKind
from dcgym.traffic.plans.plan import Flow, Plan
from dcgym.traffic.registry import make_plan

__all__ = [
    "FAMILIES",
    "KINDS",
    "PATTERNS",
    "PLANS",
    "Family",
    "Flow",
    "Plan",
    "TrafficKind",
    "make_plan",
]
