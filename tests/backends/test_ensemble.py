"""Single networks as one: every copy has its own deadline, and its state at that time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dcgym.backends.ensemble import NetworkEnsemble, networks
from dcgym.monitors import StateWords
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.protocol import NOTHING, NetworkCommands
from dcgym.testing import FakeBackend, check_networks
from dcgym.topologies import make_topology
from dcgym.traffic import make_plan

MS = 1_000_000


TOPOLOGY = make_topology("dumbbell")
PLAN = make_plan("pairs-udp", TOPOLOGY)


@pytest.fixture
def pair() -> NetworkEnsemble:
    ensemble = NetworkEnsemble([FakeBackend(TOPOLOGY), FakeBackend(TOPOLOGY)])
    ensemble.reset([NetworkEpisode(PLAN), NetworkEpisode(PLAN)])
    return ensemble


def sent_bytes(networks: NetworkEnsemble) -> list[int]:
    ports = StateWords(len(TOPOLOGY.switch_ports), len(TOPOLOGY.hosts)).ports
    return networks.read().words[:, ports["tx_bytes"]].sum(axis=1).tolist()


def test_it_keeps_the_contract_of_several_copies() -> None:
    check_networks(lambda topology, n_envs: networks(n_envs, lambda: FakeBackend(topology)))


def test_all_are_built_before_the_first_begins() -> None:
    calls: list[str] = []

    class Slow(FakeBackend):
        def start(self) -> None:
            calls.append("start")
            super().start()

        def reset(self, episodes: Sequence[NetworkEpisode | None]) -> None:
            calls.append("reset")
            super().reset(episodes)

    made = networks(2, lambda: Slow(TOPOLOGY))
    made.reset([NetworkEpisode(PLAN)] * 2)
    assert calls[:3] == ["start", "start", "reset"]


def test_each_copy_ends_at_its_own_deadline(pair: NetworkEnsemble) -> None:
    until_ns = pair.apply(NOTHING) + np.array([50, 20]) * MS
    assert pair.advance(until_ns).tolist() == [0, 0]
    assert pair.read().time_ns.tolist() == until_ns.tolist()


def test_the_state_at_the_deadline_is_given_once(pair: NetworkEnsemble) -> None:
    begun_ns = pair.apply(NOTHING)
    pair.advance(begun_ns + 50 * MS)
    for network in pair.networks:
        # The other copies' intervals, as a copy in real time sees them pass.
        network.pause(0.010)
    assert pair.apply(NOTHING).tolist() == (begun_ns + 60 * MS).tolist()
    assert pair.read(np.array([True, False])).time_ns[0] == begun_ns[0] + 50 * MS
    assert pair.read().time_ns.tolist() == (begun_ns + np.array([60, 50]) * MS).tolist()


def test_an_action_makes_the_state_at_the_deadline_old(pair: NetworkEnsemble) -> None:
    begun_ns = pair.apply(NOTHING)
    pair.advance(begun_ns + 50 * MS)
    for network in pair.networks:
        network.pause(0.010)
    limits = NetworkCommands(np.full((2, len(TOPOLOGY.hosts)), 5_000_000, np.uint64))
    in_force_ns = pair.apply(limits, np.array([False, True]))
    assert in_force_ns.tolist() == (begun_ns + 60 * MS).tolist()
    assert pair.read().time_ns.tolist() == (begun_ns + np.array([50, 60]) * MS).tolist()


def test_a_copy_without_an_episode_stays_as_it_is(pair: NetworkEnsemble) -> None:
    pair.advance(pair.apply(NOTHING) + 50 * MS)
    loaded = sent_bytes(pair)
    pair.reset([NetworkEpisode(PLAN), None])
    assert sent_bytes(pair) == [0, loaded[1]] and loaded[1] > 0
