"""Traffic patterns on the k=4 fat-tree against what arithmetic says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.traffic import Flow, Plan, make_plan
from experiments.speed.fair_share import measure_fair_share
from tests.support.networks import begin, run_for, sleep_for
from tests.support.windows import best_of

pytestmark = pytest.mark.emulation

# Slow enough for any machine; `make benchmarks` has the figures of 100 Mbit/s.
RATE_MBPS = 10
FAT_TREE = {"name": "fat-tree", "k": 4, "rate": f"{RATE_MBPS}Mbit", "queue": "200KB"}
PAYLOAD_BYTES, FRAME_BYTES = 1472, 1514


def test_paths_between_pods_have_five_switches(make: Any) -> None:
    backend = make(FAT_TREE, flow_matrix=True)
    measured = measure_fair_share(backend, make_plan("stride-8", backend.topology, 0), 1.0, 1.0)
    # Edge, aggregation, core, aggregation, edge.
    assert measured["hops"].tolist() == [5] * 16
    assert measured["fair_bps"].max() <= RATE_MBPS * 1e6


@pytest.mark.timing
def test_stride_reaches_the_max_min_fair_share_of_the_paths_it_took(make: Any) -> None:
    backend = make(FAT_TREE, flow_matrix=True)
    plan = make_plan("stride-8", backend.topology, 0)

    def share(found: dict[str, Any]) -> float:
        return float(found["reached_bps"].sum() / found["fair_bps"].sum())

    measured = best_of(
        lambda: measure_fair_share(backend, plan, 3.0, 4.0), lambda found: -share(found), -0.95
    )
    assert share(measured) >= 0.95


def test_paths_of_two_flows_from_one_host_cannot_be_told_apart(make: Any) -> None:
    backend = make({"name": "single-switch", "hosts": 3}, flow_matrix=True)
    plan = Plan("two", 0, (Flow("h1", "h2"), Flow("h1", "h3")))
    with pytest.raises(ConfigError, match=r"^plan: value 'two'"):
        measure_fair_share(backend, plan, 0.0, 0.1)


# Towards one host 120 % and more of what its link carries. The neighbour at its own edge switch
# sends so much of it that no other port is overloaded, whichever paths the hashes choose.
OVERLOADS = {
    "incast": ("h16", {f"h{n}": 0.065 for n in range(1, 15)} | {"h15": 0.3}),
    "hotspot": ("h1", {"h2": 0.6, "h5": 0.2, "h9": 0.2, "h13": 0.2}),
}


@pytest.mark.timing
@pytest.mark.parametrize("pattern", OVERLOADS)
def test_queues_stand_at_the_overloaded_port_only(make: Any, pattern: str) -> None:
    target, loads = OVERLOADS[pattern]
    backend = make(FAT_TREE)
    payload_bps = RATE_MBPS * 1e6 * PAYLOAD_BYTES / FRAME_BYTES
    flows = tuple(
        Flow(source, target, "udp", rate_bps=int(load * payload_bps))
        for source, load in loads.items()
    )
    begin(backend, Plan(pattern, 0, flows))
    # 200 KB fill in 0.8 s at 2 Mbit/s too many.
    sleep_for(backend, 1.5)
    ports = backend.topology.switch_ports
    overloaded = next(i for i, port in enumerate(ports) if port.peer == target)

    def mean_fill() -> np.ndarray:
        seen = [run_for(backend, 0.02).ports["backlog_bytes"].astype(float) for _ in range(50)]
        return np.asarray(np.mean(seen, axis=0) / [port.queue_bytes for port in ports])

    fill = best_of(
        mean_fill, lambda seen: max(1 - seen[overloaded], *np.delete(seen, overloaded)), 0.049
    )
    assert fill[overloaded] > 0.95
    # At most 91 % loaded, any other queue holds 5 packets in the mean (M/D/1), 4 % of its limit.
    assert np.delete(fill, overloaded).max() < 0.05
    drops = backend.snapshot().ports["drops"]
    assert drops[overloaded] > 0 and not np.delete(drops, overloaded).any()
