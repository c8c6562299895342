"""A digest of what one build of the packet twin computes; tests/native/levels.sh compares some."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from itertools import cycle

import numpy as np

from dcgym.backends.simulation.packets import PacketTwin
from dcgym.tasks.network.controls import CONGESTION_CONTROLS
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.events import make_events
from dcgym.testing import OneNetwork
from dcgym.topologies import make_topology
from dcgym.traffic import make_plan

SECOND = 10**9
ROWS = [
    {"at": "50ms", "link": ["s1", "s5"], "action": "loss", "probability": 0.01},
    {"at": "100ms", "link": ["s2", "s6"], "action": "down"},
    {"at": "200ms", "link": ["s2", "s6"], "action": "up"},
]


def load(path: str) -> None:
    """Take a build from elsewhere for the installed one."""
    spec = importlib.util.spec_from_file_location("dcgym.native._packets", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules["dcgym.native._packets"] = module


def digest() -> str:
    """Run all transports, with UDP beside them, losses, failures, rates and weights."""
    found = hashlib.sha256()
    topology = make_topology({"name": "leaf-spine", "leaves": 4, "spines": 2, "rate": "100Mbit"})
    names = [host.name for host in topology.hosts]
    for seed, traffic in enumerate(("web-search-0.5", "pairs-udp")):
        controls = dict(zip(names, cycle(CONGESTION_CONTROLS), strict=False))
        twin = OneNetwork(PacketTwin(topology))
        plan = make_plan(traffic, topology, seed)
        twin.reset(NetworkEpisode(plan, seed, controls, True, make_events(ROWS, topology)))
        for step in range(1, 21):
            twin.apply(rates_bps=np.full(len(names), (100 - step) * 1_000_000, np.uint64))
            twin.advance(step * SECOND // 40)
            state = twin.snapshot()
            found.update(state.ports.tobytes() + state.hosts.tobytes())
        found.update(twin.flow_records().tobytes())
        assert twin.network(0).packet_hops() > 10_000
    return found.hexdigest()[:16]


if __name__ == "__main__":
    load(sys.argv[1])
    print(digest())
