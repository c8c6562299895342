"""Single networks as one batch: every copy has its own deadline, and its state at that time."""

from __future__ import annotations

import numpy as np
import pytest

from dcgym.backends.ensemble import NetworkEnsemble
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.testing import FakeBackend, check_networks
from dcgym.topologies import make_topology
from dcgym.traffic import make_plan

MS = 1_000_000


@pytest.fixture
def pair() -> NetworkEnsemble:
    topology = make_topology("dumbbell")
    ensemble = NetworkEnsemble([FakeBackend(topology), FakeBackend(topology)])
    ensemble.start()
    plan = make_plan("pairs-udp", topology)
    ensemble.reset([NetworkEpisode(plan), NetworkEpisode(plan)])
    return ensemble


def test_it_keeps_the_contract_of_batches() -> None:
    check_networks(
        lambda topology, n_envs: NetworkEnsemble([FakeBackend(topology) for _ in range(n_envs)])
    )


def test_each_copy_ends_at_its_own_deadline(pair: NetworkEnsemble) -> None:
    begun_ns = pair.now_ns()
    overruns_ns = pair.advance(begun_ns + np.array([50, 20]) * MS)
    assert overruns_ns.tolist() == [0, 0]
    assert [pair.snapshot(env).time_ns for env in range(2)] == [
        begun_ns[0] + 50 * MS,
        begun_ns[1] + 20 * MS,
    ]


def test_the_state_at_the_deadline_is_given_once(pair: NetworkEnsemble) -> None:
    begun_ns = int(pair.now_ns()[0])
    pair.advance(pair.now_ns() + 50 * MS)
    for network in pair.networks:
        # The other copies' intervals, as a copy in real time sees them pass.
        network.pause(0.010)
    assert pair.snapshot(0).time_ns == begun_ns + 50 * MS
    assert pair.snapshot(0).time_ns == begun_ns + 60 * MS


def test_an_action_makes_the_state_at_the_deadline_old(pair: NetworkEnsemble) -> None:
    begun_ns = int(pair.now_ns()[0])
    pair.advance(pair.now_ns() + 50 * MS)
    for network in pair.networks:
        network.pause(0.010)
    rates_bps = np.full((2, len(pair.topology.hosts)), 5_000_000, np.uint64)
    assert pair.apply_rates(rates_bps).tolist() == [begun_ns + 60 * MS] * 2
    assert pair.snapshot(1).time_ns == begun_ns + 60 * MS


def test_a_copy_without_an_episode_stays_as_it_is(pair: NetworkEnsemble) -> None:
    pair.advance(pair.now_ns() + 50 * MS)
    loaded = pair.snapshot(1).ports["tx_bytes"].sum()
    plan = make_plan("pairs-udp", pair.topology)
    pair.reset([NetworkEpisode(plan), None])
    assert pair.snapshot(0).ports["tx_bytes"].sum() == 0
    assert pair.snapshot(1).ports["tx_bytes"].sum() == loaded > 0
