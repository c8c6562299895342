"""Single networks, stepped together as one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Capabilities, Mask, Network
from dcgym.backends.records import Fidelity, Record
from dcgym.monitors import Snapshot, Snapshots, StateWords
from dcgym.tasks.flows.commands import FlowCommands, FlowControls
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.topologies import Topology

__all__ = ["NetworkEnsemble"]

FloatArray = npt.NDArray[np.float64]
TimeArray = npt.NDArray[np.int64]


class NetworkEnsemble:
    """A `NetworkBatch` of single networks, which share nothing but the caller's thread.

    Networks in real time all run while one of them is waited for: their intervals end at their own
    deadlines, in the order of these.

    Args:
        networks: One or more networks over the same topology.
    """

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = tuple(networks)
        self._capabilities = replace(self._networks[0].capabilities, compiled_runs=False)
        # State of each copy at its own deadline, until somebody asks for it.
        self._ended: list[Snapshot | None] = [None] * len(self._networks)
        topology = self._networks[0].topology
        self._layout = StateWords(len(topology.switch_ports), len(topology.hosts))

    @property
    def networks(self) -> tuple[Network, ...]:
        """The single networks."""
        return self._networks

    @property
    def name(self) -> str:
        """Name of the networks' backend."""
        return self._networks[0].name

    @property
    def capabilities(self) -> Capabilities:
        """Those of a single network, which native code cannot run with others."""
        return self._capabilities

    @property
    def topology(self) -> Topology:
        """The network, the same in every copy."""
        return self._networks[0].topology

    @property
    def n_envs(self) -> int:
        """Number of copies."""
        return len(self._networks)

    def congestion_control(self, env: int) -> Mapping[str, str]:
        """Return the implementation of each algorithm that a copy's hosts run."""
        return self._networks[env].congestion_control

    def start(self) -> None:
        """Build all copies."""
        for network in self._networks:
            network.start()

    def reset(self, episodes: Sequence[NetworkEpisode | None]) -> None:
        """Begin an episode in each copy that has one here."""
        for env, episode in enumerate(episodes):
            if episode is not None:
                self._ended[env] = None
                self._networks[env].reset(episode)

    def apply_rates(self, rates_bps: npt.NDArray[np.uint64]) -> TimeArray:
        """Limit the hosts of every copy, shape (E, H)."""
        self._forget_ends()
        return self._of_each(lambda env, network: network.apply_rates(rates_bps[env]))

    def apply_weights(self, weights: FloatArray) -> TimeArray:
        """Weigh the paths of every copy, shape (E, W)."""
        self._forget_ends()
        return self._of_each(lambda env, network: network.apply_weights(weights[env]))

    def flow_states(self, count: int) -> npt.NDArray[np.void]:
        """Return the first flows of each copy's plan, (E, F) of `AGENT_FLOW`."""
        found = [cast(FlowControls, network).flow_states(count) for network in self._networks]
        return np.concatenate(found)

    def command_flows(self, commands: FlowCommands, lease_ns: int) -> TimeArray:
        """Give commands to the flows of every copy; returns when they could be read, (E,)."""
        self._forget_ends()
        pairs = enumerate(self._networks)
        return np.concatenate(
            [
                cast(FlowControls, network).command_flows(commands.of(env), lease_ns)
                for env, network in pairs
            ]
        )

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Run each copy until its time, (E,)."""
        if len(self._networks) == 1:
            return np.array([self._networks[0].advance(int(until_ns[0]))])
        overruns_ns = np.zeros(self.n_envs, np.int64)
        for env in np.argsort(until_ns, kind="stable"):
            overruns_ns[env] = self._networks[env].advance(int(until_ns[env]))
            # The copies after it must not lengthen its interval.
            self._ended[env] = self._networks[env].snapshot()
        return overruns_ns

    def now_ns(self) -> TimeArray:
        """Return the time of each copy, (E,)."""
        return self._of_each(lambda _, network: network.now_ns())

    def snapshots(self, mask: Mask | None = None) -> Snapshots:
        """Return the states of some copies, as `snapshot` does.

        Args:
            mask: Which, (E,); None for all.
        """
        envs = range(self.n_envs)
        chosen = [mask is None or bool(mask[env]) for env in envs]
        return Snapshots.of(
            self._layout, [self.snapshot(env) if chosen[env] else None for env in envs]
        )

    def snapshot(self, env: int) -> Snapshot:
        """Return a copy's state at the end of its `advance`, once, and then the present one."""
        ended, self._ended[env] = self._ended[env], None
        return self._networks[env].snapshot() if ended is None else ended

    def finished(self) -> Mask:
        """Tell in which copies every flow of the plan has ended, (E,)."""
        return np.array([network.finished() for network in self._networks], np.bool_)

    def stop_traffic(self, env: int) -> None:
        """Cut every flow of a copy that still runs."""
        self._networks[env].stop_traffic()

    def flow_records(self, env: int) -> npt.NDArray[Any]:
        """Return the flows of a copy that ended since its reset."""
        return self._networks[env].flow_records()

    def application_records(self, env: int) -> list[Record]:
        """Return what became of each application of a copy's plan."""
        return self._networks[env].application_records()

    def process_records(self, env: int) -> list[Record]:
        """Return the external processes that send the flows of a copy's plan."""
        return self._networks[env].process_records()

    def event_records(self, env: int) -> list[Record]:
        """Return the events that have taken effect in a copy since its reset."""
        return self._networks[env].event_records()

    def fidelity(self, env: int) -> Fidelity:
        """Say how far the episode of a copy can be believed."""
        return self._networks[env].fidelity()

    def close(self) -> None:
        """End all copies; a second call does nothing."""
        for network in self._networks:
            network.close()

    def _forget_ends(self) -> None:
        """Forget the states at the last deadlines: an action makes them old."""
        self._ended = [None] * self.n_envs

    def _of_each(self, call: Callable[[int, Network], int]) -> TimeArray:
        return np.array([call(env, network) for env, network in enumerate(self._networks)])
