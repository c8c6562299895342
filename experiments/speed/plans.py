"""How long a large plan takes to draw, and to hand over to another process."""

from __future__ import annotations

import time
from typing import Any

from dcgym.topologies import Topology
from dcgym.traffic import Plan, make_plan

__all__ = ["measure_plan"]


def measure_plan(topology: Topology) -> dict[str, Any]:
    """Time a plan of 120,000 flows: drawing it, and handing it to another process."""
    spec = {"name": "poisson", "sizes": "web-search", "scale": 1e-3, "flows_per_s": 2000}
    hosts = [host.name for host in topology.hosts]
    make_plan({**spec, "duration": "1s"}, topology)  # routes are worked out once a topology
    started = time.perf_counter()
    plan = make_plan(spec, topology, 1)
    drawn = time.perf_counter()
    records = plan.to_records(hosts)
    handed_over = time.perf_counter()
    Plan.from_bytes(plan.to_bytes())
    crossed = time.perf_counter()
    return {
        "flows": len(plan),
        "draw": (drawn - started) * 1e3,
        "as records": (handed_over - drawn) * 1e3,
        "to another process": (crossed - handed_over) * 1e3,
        "MB": records.nbytes / 1e6,
    }
