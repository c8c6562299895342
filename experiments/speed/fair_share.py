"""How much of its max-min fair share traffic reaches on the paths that its flows really took."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.max_min import MaxMin, Segments
from dcgym.testing import OneNetwork
from dcgym.traffic import Plan

__all__ = ["measure_fair_share"]

FloatArray = npt.NDArray[np.float64]
# Of the bytes that a host receives from a source: what a port carries of them if it is on the path.
# Acknowledgements of the source for what it receives itself are a few per cent.
ON_PATH = 0.5


def measure_fair_share(
    network: OneNetwork, plan: Plan, warmup_s: float, seconds: float
) -> dict[str, Any]:
    """Run a plan and compare what its flows reach with their max-min fair rates.

    Hashes collide, so that the fair rates of a plan are those of the paths that the flows took, and
    these are seen: the fabric counts the bytes of each source host at each switch port.

    Args:
        network: A network that counts the flow matrix.
        plan: Endless flows, at most one from each host.
        warmup_s: Time for slow start to end.
        seconds: Time to measure.

    Returns:
        ``reached_bps`` and ``fair_bps`` by flow, in bits on the wire, and ``hops``, the number of
        switch ports on each path.

    Raises:
        ConfigError: A host is the source of two flows.
    """
    sources = [flow.src for flow in plan.flows]
    if len(set(sources)) < len(sources):
        raise ConfigError("plan", plan.name, "at most one flow from each host, to tell its path")
    network.reset(NetworkEpisode(plan))
    _run_for(network, warmup_s)
    rates_bps = _rates_bps(network, seconds)
    topology = network.topology
    last_hop = {port.peer: index for index, port in enumerate(topology.switch_ports)}
    columns = [topology.node(source).index for source in sources]
    reached_bps = np.array(
        [
            rates_bps[last_hop[flow.dst], column]
            for flow, column in zip(plan.flows, columns, strict=True)
        ]
    )
    is_on_path = (rates_bps[:, columns] > ON_PATH * reached_bps).T
    capacities_bps = np.array([port.rate_bps for port in topology.switch_ports], np.float64)
    return {
        "reached_bps": reached_bps,
        "fair_bps": _fair_bps(is_on_path, capacities_bps),
        "hops": is_on_path.sum(axis=1),
    }


def _fair_bps(is_on_path: npt.NDArray[np.bool_], capacities_bps: FloatArray) -> FloatArray:
    flows, ports = np.nonzero(is_on_path)
    rows = np.arange(len(is_on_path))
    max_min = MaxMin(rows[:, None], Segments(flows, ports, np.ones(flows.size)), capacities_bps)
    return max_min.rates(np.ones_like(rows))


def _run_for(network: OneNetwork, seconds: float) -> None:
    network.advance(network.now_ns() + int(seconds * 1e9))


def _rates_bps(network: OneNetwork, seconds: float) -> FloatArray:
    """Return bits a second of each source host (columns) at each switch port (rows)."""
    first = network.snapshot()
    _run_for(network, seconds)
    last = network.snapshot()
    if first.flow_matrix is None or last.flow_matrix is None:
        raise ConfigError("flow_matrix", False, "True, to see the paths of the flows")
    sent = last.flow_matrix - first.flow_matrix
    return np.asarray(sent * 8e9 / (last.time_ns - first.time_ns), np.float64)
