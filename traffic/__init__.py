"""Traffic: seeded plans of flows, and the generator that carries them out."""

if __name__ != "dcgym.traffic":
    raise ImportError("import this package as dcgym.traffic")

from dcgym.traffic.plans.plan import Flow, Plan
from dcgym.traffic.registry import FAMILIES, PLANS, make_plan

__all__ = ["FAMILIES", "PLANS", "Flow", "Plan", "make_plan"]
