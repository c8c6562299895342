"""What a run's record says about its flows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.traffic.slowdown import find_origin_ns, flow_metrics, gather_runs, size_table
from dcgym.units import NS_PER_S

__all__ = ["describe_flows"]


def describe_flows(
    env: Any, flow_records: npt.NDArray[Any], began_ns: int, ended_ns: int, warmup_s: float
) -> dict[str, Any]:
    """Return the parts of a record that tell of the plan and its flows.

    Args:
        env: The environment, after the episode.
        flow_records: Records of the flows that ended.
        began_ns: Time of the first snapshot; used where no flow tells when the plan began.
        ended_ns: Time of the last snapshot.
        warmup_s: Flows planned to start earlier than this are left out.

    Returns:
        ``metrics`` (see `dcgym.traffic.slowdown.flow_metrics`; empty for a plan without sizes),
        ``flow_sizes`` (the same by size class) and ``plan`` (name, seed, flows, digest).
    """
    plan, topology = env.unwrapped.plan, env.unwrapped.topology
    origin_ns = find_origin_ns(plan, flow_records, began_ns)
    warmup_ns = int(np.rint(warmup_s * NS_PER_S))
    runs = gather_runs(plan, flow_records, topology, ended_ns, origin_ns, warmup_ns)
    facts = {"name": plan.name, "seed": plan.seed, "flows": len(plan), "digest": plan.digest()}
    return {"metrics": flow_metrics(runs), "flow_sizes": size_table(runs), "plan": facts}
