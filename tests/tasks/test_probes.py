"""The round-trip feature: what it is compared with, where it stands, and what is refused."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import dcgym
from dcgym.errors import ConfigError
from dcgym.tasks.network.features import FeatureSet
from dcgym.tasks.network.probes import longest_queueing_ns
from dcgym.testing import FakeBackend, check_contract
from dcgym.topologies import make_topology

PAIRS = [("h1", "h3"), ("h3", "h1"), ("h1", "h2")]
FEATURES = ("backlog", "probe_rtt")


def make(probes: Any = PAIRS, features: Any = FEATURES, **options: Any) -> Any:
    backend = partial(FakeBackend, probes=PAIRS)
    return dcgym.make_env({"backend": backend, "probes": probes, "features": features, **options})


def test_the_longest_wait_is_that_of_all_switch_queues_there_and_back() -> None:
    topology = make_topology(
        {"name": "dumbbell", "rate": "20Mbit", "core_rate": "10Mbit", "queue": "100KB"}
    )
    # Core 80 ms and the last link 40 ms, each way; without the core 40 ms each way.
    assert longest_queueing_ns(topology, "h1", "h3") == pytest.approx(240e6)
    assert longest_queueing_ns(topology, "h1", "h2") == pytest.approx(80e6)


def test_round_trips_come_after_the_ports_and_follow_the_queue() -> None:
    env = make(traffic={"name": "pairs", "transport": "udp"}).unwrapped
    assert env.observation_space.shape == (6 + 3 + 4,)
    assert env.observation_labels[6:9] == ["probe0.rtt", "probe1.rtt", "probe2.rtt"]
    first, _ = env.reset(seed=0)
    for _ in range(40):
        last, *_ = env.step(np.ones(4, np.float32))
    # Two hosts at line rate fill the queue between the switches, 400 KB at 10 Mbit/s; full queues
    # there and back are four of them, of which one is full, and the fluid's base of 1 ms.
    assert first[6] < 0.05
    assert last[6] == pytest.approx((320 + 1) / (4 * 320), rel=0.02)
    assert last[7] == pytest.approx(last[6])
    assert last[8] == pytest.approx(1 / (2 * 320), rel=0.02)


def test_contract() -> None:
    check_contract(make)


def test_the_matrix_and_the_round_trips_have_their_own_places() -> None:
    features = FeatureSet(("probe_rtt", "flow_matrix"), 1, 2, n_probes=2)
    assert features.labels == [
        *("port0.host0", "port0.host1", "probe0.rtt", "probe1.rtt", "host0.rate", "host1.rate")
    ]
    assert features.space.shape == (6,)


@pytest.mark.parametrize(
    ("probes", "features", "field"),
    [
        ([], FEATURES, "probes"),
        (PAIRS, ("backlog",), "probes"),
        ("h1", FEATURES, "probes"),
        (["h1"], FEATURES, r"probes\[0\]"),
        ([("h1", "h2"), ("h1", "h9")], FEATURES, r"probes\[1\]"),
        ([("h1", "h1")], FEATURES, r"probes\[0\]"),
        ([("h1", "h2"), ("h1", "h2")], FEATURES, r"probes\[1\]"),
    ],
)
def test_wrong_pairs_are_refused(probes: Any, features: Any, field: str) -> None:
    with pytest.raises(ConfigError, match=f"^{field}: value"):
        make(probes, features)


def test_a_backend_that_probes_nothing_is_named() -> None:
    env = make(backend=FakeBackend)
    with pytest.raises(ConfigError, match=r"^probes: value"):
        env.reset(seed=0)


def test_only_the_native_generator_probes() -> None:
    with pytest.raises(ConfigError, match=r"^probes: value"):
        make(backend="emulation", generator="iperf3")
