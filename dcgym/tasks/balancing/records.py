"""The record of a finished flow, the same in every backend."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcgym.native.tables import names_of
from dcgym.tasks.balancing.scenario import Scenario

__all__ = [
    "COMPLETED",
    "NOBODY",
    "OUTCOMES",
    "UNDER_WAY",
    "flow_dtype",
    "planned_flows",
    "resource_demands_ns",
]

OUTCOMES = names_of("flow_outcomes")
"""How a flow ended: served; refused by a full backlog; reset because its packets reached another
server (per-connection consistency was violated); lost with a removed server, or because no balancer
or server was left. A summary counts flows under the same names."""

COMPLETED = OUTCOMES.index("completed")

UNDER_WAY = len(OUTCOMES)
"""Outcome of a flow that has not ended: its ``end_ns`` is when it was looked at."""

NOBODY = 65_535
"""Number that stands for no server, or no balancer, in a record."""


def flow_dtype(n_resources: int) -> np.dtype[np.void]:
    """Return the type of the record of a flow.

    Args:
        n_resources: Number of resources that a server of the scenario has.

    Returns:
        A structured type: arrival_ns, served_ns (service began; -1 if never, or not known), end_ns
        (the client had its answer, or its failure), flow (number in order of arrival), demand_ns
        (at speed 1, one for each resource in the order of `ServerPool.resources`), application,
        balancer, server (both `NOBODY` for none), outcome (index in `OUTCOMES`, or `UNDER_WAY`),
        tracked (in the flow table).
    """
    return np.dtype(
        [
            *((name, "<i8") for name in ("arrival_ns", "served_ns", "end_ns")),
            ("demand_ns", "<i8", (n_resources,)),
            ("flow", "<u8"),
            *((name, "<u2") for name in ("application", "balancer", "server")),
            *((name, "u1") for name in ("outcome", "tracked")),
        ]
    )


def planned_flows(scenario: Scenario, planned: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Return records of flows that hold what their plan says, and that nobody has served.

    Args:
        scenario: The pool.
        planned: Flows as of `draw_arrivals`, shape (F,).

    Returns:
        Shape (F,), of `flow_dtype`.
    """
    flows = np.zeros(len(planned), flow_dtype(len(scenario.pool.resources)))
    for name in ("arrival_ns", "flow", "application"):
        flows[name] = planned[name]
    flows["served_ns"], flows["tracked"] = -1, 1
    flows["balancer"] = flows["server"] = NOBODY
    flows["demand_ns"] = resource_demands_ns(scenario, planned)
    return flows


def resource_demands_ns(scenario: Scenario, planned: npt.NDArray[np.void]) -> npt.NDArray[np.int64]:
    """Return what planned flows ask of each resource.

    Args:
        scenario: Its applications say of which resource each stage is.
        planned: Flows as of `draw_arrivals`, shape (F,).

    Returns:
        Shape (F, R), as ``demand_ns`` of a record.
    """
    resources = scenario.pool.resources
    most = max(len(app.stages) for app in scenario.applications)
    uses = np.zeros((len(scenario.applications), most, len(resources)), np.int64)
    for number, app in enumerate(scenario.applications):
        for stage, each in enumerate(app.stages):
            uses[number, stage, resources.index(each.resource)] = 1
    demands_ns = planned["demand_ns"][:, :most]
    found: npt.NDArray[np.int64] = np.einsum("fs,fsr->fr", demands_ns, uses[planned["application"]])
    return found
