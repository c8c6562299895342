"""Completion times on one bottleneck beside those of exact processor sharing."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from dcgym.errors import BackendError
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.testing import OneNetwork
from dcgym.traffic.analysis.ideal import ideal_completion_ns, wire_bytes
from dcgym.traffic.analysis.processor_sharing import sharing_times
from dcgym.traffic.generators.view import FINISHED

__all__ = ["measure_sharing"]

FloatArray = npt.NDArray[np.float64]

POLL_NS = 20_000_000


def measure_sharing(
    network: OneNetwork, episode: NetworkEpisode, link: str, deadline_s: float
) -> dict[str, float]:
    """Run an episode and compare its completion times with those of a processor-sharing link.

    The model has the planned arrivals and, as work, the time that each flow's packets with their
    headers take on the link: what differs is the transport, not the sample. What a flow takes
    besides, alone on an empty network (handshake, other links, propagation), is added to the model.

    Args:
        network: A network that counts in real time.
        episode: TCP flows with sizes, all over the link.
        link: The one bottleneck, as switch ports are named, such as ``s1-s2``.
        deadline_s: Longest time to wait for the end of the plan.

    Returns:
        ``load`` (of the link until the last arrival, headers included), ``flows``, ``fct_ms``,
        ``model_fct_ms``, ``slowdown`` and ``model_slowdown`` (completion time over work): means.

    Raises:
        BackendError: The plan did not end in time, or a flow failed.
    """
    topology, plan = network.topology, episode.plan
    records = plan.to_records([host.name for host in topology.hosts])
    rates_bps = {f"{port.node}-{port.peer}": port.rate_bps for port in topology.switch_ports}
    work_ns = wire_bytes(records, topology) * 8e9 / rates_bps[link]
    arrivals_ns = records["start_ns"].astype(np.float64)
    overhead_ns = np.maximum(ideal_completion_ns(records, topology) - work_ns, 0)
    model_ns = sharing_times(arrivals_ns, work_ns) + overhead_ns
    network.reset(episode)
    measured_ns = _completion_ns(network, len(plan), deadline_s)
    return {
        "load": float(work_ns.sum() / arrivals_ns.max()),
        "flows": len(plan),
        "fct_ms": float(measured_ns.mean()) / 1e6,
        "model_fct_ms": float(model_ns.mean()) / 1e6,
        "slowdown": float((measured_ns / work_ns).mean()),
        "model_slowdown": float((model_ns / work_ns).mean()),
    }


def _completion_ns(network: OneNetwork, flows: int, deadline_s: float) -> FloatArray:
    """Wait for the end of the plan, and return the completion times in the plan's order."""
    deadline = time.monotonic() + deadline_s
    while not network.finished():
        if time.monotonic() > deadline:
            raise BackendError(f"the plan did not end within {deadline_s} s")
        network.advance(network.now_ns() + POLL_NS)
    done = np.sort(network.flow_records(), order="id")
    if len(done) != flows or (done["outcome"] != FINISHED).any():
        raise BackendError(f"of {flows} flows {int((done['outcome'] == FINISHED).sum())} finished")
    times_ns: FloatArray = (done["end_ns"] - done["planned_start_ns"]).astype(np.float64)
    return times_ns
