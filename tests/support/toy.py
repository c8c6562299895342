"""A toy network of its own: senders at their limits, shared evenly over links without queues.

It exists to show that the contract of backends is enough: a hundred lines, and every environment on
networks runs in every form. It knows no packets, no congestion control and no queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Capabilities, Mask, Network, TimeArray
from dcgym.backends.commands import refuse_flow_commands
from dcgym.backends.ensemble import networks
from dcgym.backends.needs import NetworkNeeds
from dcgym.backends.options import BackendOptions
from dcgym.backends.records import CONGESTION_CONTROL, ENDED_FLOWS, FIDELITY, Fidelity, RecordKind
from dcgym.backends.registry import NETWORKS, Maker
from dcgym.monitors import HOST_STATE, PORT_STATE, Snapshot, StateWords
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.protocol import NetworkCommands, NetworkState
from dcgym.topologies import Topology, next_hop_groups
from dcgym.traffic.generators.view import RECORD_DTYPE

PACKET_BYTES = 1500


class ToyNetwork:
    """Every sender sends at its limit; each link passes what fits, the same share of each flow."""

    name = "toy"
    capabilities = Capabilities(copies=1000)

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._links_bps = np.array([port.rate_bps for port in topology.switch_ports], float)
        self._hosts_bps = np.array([port.rate_bps for port in topology.host_ports], float)
        self._groups = [group for group in next_hop_groups(topology) if group.has_choice]
        self._columns = {(p.node, p.number): i for i, p in enumerate(topology.switch_ports)}
        self._layout = StateWords(len(self._links_bps), len(self._hosts_bps))
        self._now_ns = 0

    def close(self) -> None:
        """Have nothing to end."""

    def reset(self, episodes: Sequence[NetworkEpisode | None]) -> None:
        [episode] = episodes
        if episode is not None:
            self._flows = episode.plan.flows
            self._begun_ns = self._now_ns
            self._ports = np.zeros(len(self._links_bps), PORT_STATE)
            self._hosts = np.zeros(len(self._hosts_bps), HOST_STATE)
            self._limits_bps = self._hosts_bps
            self._weigh(np.ones(sum(len(group.ports) for group in self._groups)))

    def apply(self, commands: NetworkCommands, mask: Mask | None = None) -> TimeArray:
        refuse_flow_commands(commands)
        if mask is None or mask[0]:
            if commands.rates_bps is not None:
                self._limits_bps = commands.rates_bps[0].astype(float)
            if commands.path_weights is not None:
                self._weigh(commands.path_weights[0])
            if commands.cuts_flows:
                self._flows, self._paths = (), np.zeros((0, len(self._links_bps)))
        return np.array([self._now_ns])

    def _weigh(self, weights: npt.NDArray[np.float64]) -> None:
        ends = np.cumsum([len(group.ports) for group in self._groups])
        self._shares: dict[tuple[str, str], npt.NDArray[np.float64]] = {}
        for group, own in zip(self._groups, np.split(weights, ends[:-1])[: len(ends)], strict=True):
            share = own / own.sum() if own.sum() else np.full(len(own), 1 / len(own))
            self._shares.update({(group.switch, host): share for host in group.hosts})
        self._paths = np.array([self._path(flow.src, flow.dst) for flow in self._flows])

    def advance(self, until_ns: TimeArray) -> TimeArray:
        seconds = max(int(until_ns[0]) - self._now_ns, 0) / 1e9
        self._now_ns = max(int(until_ns[0]), self._now_ns)
        index = {host.name: host.index for host in self.topology.hosts}
        sources = np.array([index[flow.src] for flow in self._flows])
        sinks = np.array([index[flow.dst] for flow in self._flows])
        offered_bps = (
            self._limits_bps / np.maximum(np.bincount(sources, minlength=len(index)), 1)
        )[sources] * ~self._ended()
        load_bps = offered_bps @ self._paths
        fits = np.minimum(1.0, self._links_bps / np.maximum(load_bps, 1.0))
        passed = np.where(self._paths > 0, fits, 1.0).min(axis=1)
        received = (offered_bps * passed * seconds / 8).astype(np.uint64)
        sent = (np.minimum(load_bps, self._links_bps) * seconds / 8).astype(np.uint64)
        self._ports["tx_bytes"] += sent
        self._ports["tx_packets"] += sent // PACKET_BYTES
        np.add.at(self._hosts["tx_bytes"], sources, received)
        np.add.at(self._hosts["rx_bytes"], sinks, received)
        return np.zeros(1, np.int64)

    def read(self, mask: Mask | None = None) -> NetworkState:
        snapshot = Snapshot(self._now_ns, self._ports.copy(), self._hosts.copy())
        return NetworkState.of(self._layout, snapshot, bool(self._ended().all()))

    def records(self, kind: RecordKind[Any], env: int) -> Any:
        none = {ENDED_FLOWS: np.empty(0, RECORD_DTYPE), FIDELITY: Fidelity()}
        return {**none, CONGESTION_CONTROL: {}}.get(kind, [])

    def _ended(self) -> npt.NDArray[np.bool_]:
        elapsed_ns = self._now_ns - self._begun_ns
        ends_ns = [np.inf if f.duration_ns is None else f.duration_ns for f in self._flows]
        return np.array(ends_ns) <= elapsed_ns

    def _path(self, source: str, sink: str) -> npt.NDArray[np.float64]:
        """Return the fraction of a flow that each switch port carries."""
        fractions = np.zeros(len(self._columns))
        ahead = {self.topology.ports(source)[0].peer: 1.0}
        while ahead:
            node, amount = ahead.popitem()
            hops = self.topology.next_hops(node, sink)
            peers = {port.number: port.peer for port in self.topology.ports(node)}
            even = np.full(len(hops), 1 / len(hops))
            for number, part in zip(hops, self._shares.get((node, sink), even), strict=True):
                fractions[self._columns[node, number]] += part * amount
                if peers[number] != sink:
                    ahead[peers[number]] = ahead.get(peers[number], 0.0) + part * amount
        return fractions


def register() -> None:
    """Make the backend available by its name; a second call does nothing."""

    def make(needs: NetworkNeeds, n_envs: int, options: BackendOptions) -> Network:
        return networks(n_envs, lambda: ToyNetwork(needs.topology))

    if ToyNetwork.name not in NETWORKS:
        NETWORKS.add("toy", Maker("toy", ToyNetwork.capabilities, BackendOptions, make))
