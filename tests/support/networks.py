"""Emulated networks in tests: begin an episode, let it run, look."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.monitors import Snapshot
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.events import Event
from dcgym.traffic import Plan

__all__ = ["begin", "run_for", "sleep_for"]


def begin(
    network: EmulationNetwork,
    plan: Plan,
    congestion_control: str | Mapping[str, str] = "cubic",
    marking: bool = False,
    events: Sequence[Event] = (),
) -> Snapshot:
    """Reset to a plan, and return the state before its first packet.

    Args:
        network: The network.
        plan: The traffic.
        congestion_control: Algorithm of all hosts, or of each by name.
        marking: Whether ports with a threshold mark.
        events: What happens to the network.
    """
    if isinstance(congestion_control, str):
        hosts = network.topology.hosts
        congestion_control = {host.name: congestion_control for host in hosts}
    network.reset(
        NetworkEpisode(
            plan, congestion_control=congestion_control, marking=marking, events=tuple(events)
        )
    )
    return network.snapshot()


def sleep_for(network: EmulationNetwork, seconds: float) -> None:
    """Let a network run for a while."""
    network.advance(time.monotonic_ns() + int(seconds * 1e9))


def run_for(network: EmulationNetwork, seconds: float) -> Snapshot:
    """Let a network run for a while, and return its state then."""
    sleep_for(network, seconds)
    return network.snapshot()
