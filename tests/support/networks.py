"""Emulated networks in tests: begin an episode, let it run, look."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.emulation.options import NetworkOptions
from dcgym.backends.needs import NetworkNeeds
from dcgym.backends.records import FIDELITY
from dcgym.errors import BackendError
from dcgym.monitors import Snapshot
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.events import Event
from dcgym.testing import OneNetwork
from dcgym.topologies import Topology, make_topology
from dcgym.traffic import Plan
from tests.support.machine import MACHINE
from tests.support.paths import with_path_choice

__all__ = ["Lender", "begin", "run_for", "sleep_for", "started"]


def started(topology: Topology | str | dict[str, Any], **options: Any) -> OneNetwork:
    """Return a started network; timing tests need the verdict of its own fidelity, too.

    Args:
        topology: Its topology.
        **options: Of `NetworkOptions` and `NetworkNeeds`, and those of a path rule. The preflight,
            a second each, is off unless it is asked for.
    """
    asked = with_path_choice(options)
    needs = {name: asked.pop(name) for name in [*asked] if name not in NetworkOptions.names()}
    made = OneNetwork(
        EmulationNetwork(
            NetworkNeeds(topology=make_topology(topology), **needs),
            NetworkOptions(**{"preflight": False, **asked}),
        )
    )
    MACHINE.verdicts.append(partial(made.records, FIDELITY))
    try:
        made.start()
    except BaseException:
        made.close()
        raise
    return made


class Lender:
    """Started networks of a file's tests; each is lent to one test at a time.

    To start one takes more than twice the processor time of a reset.
    """

    def __init__(self) -> None:
        self._free: dict[str, list[OneNetwork]] = {}
        self._lent: list[tuple[str, EmulationNetwork]] = []

    def lend(self, topology: Topology | str | dict[str, Any], **options: Any) -> OneNetwork:
        """Return a network that no test has now, as its last one left it.

        Args:
            topology: Its topology.
            **options: As `started` takes them.
        """
        key = repr((make_topology(topology), sorted(options.items())))
        free = self._free.setdefault(key, [])
        if free:
            network = free.pop()
            MACHINE.verdicts.append(partial(network.records, FIDELITY))
        else:
            network = started(topology, **options)
        self._lent.append((key, network))
        return network

    def take_back(self) -> None:
        """End what a test has borrowed, so that its traffic takes no time from the next."""
        for key, network in self._lent:
            # One that a test killed is built anew by the next reset.
            with contextlib.suppress(BackendError):
                network.apply(cuts_flows=True)
            self._free[key].append(network)
        self._lent.clear()

    def close(self) -> None:
        """Close all of them."""
        self.take_back()
        for network in itertools.chain(*self._free.values()):
            network.close()


def begin(
    network: OneNetwork,
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


def sleep_for(network: OneNetwork, seconds: float) -> None:
    """Let a network run for a while."""
    network.advance(time.monotonic_ns() + int(seconds * 1e9))


def run_for(network: OneNetwork, seconds: float) -> Snapshot:
    """Let a network run for a while, and return its state then."""
    sleep_for(network, seconds)
    return network.snapshot()
