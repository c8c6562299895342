"""A toy network of its own: senders at their limits, shared evenly over links without queues.

It exists to show that the contract of backends is enough: a hundred lines, and every environment on
networks runs in every form. It knows no packets, no congestion control and no queue.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Capabilities
from dcgym.backends.records import Fidelity, Record
from dcgym.backends.registry import NETWORKS, NetworkMaker, Options
from dcgym.monitors import HOST_STATE, PORT_STATE, Snapshot
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.topologies import Topology, next_hop_groups
from dcgym.traffic.generators.view import RECORD_DTYPE

PACKET_BYTES = 1500


class ToyNetwork:
    """Every sender sends at its limit; each link passes what fits, the same share of each flow."""

    name = "toy"
    capabilities = Capabilities(copies=1000)
    congestion_control: Mapping[str, str] = {}

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._links_bps = np.array([port.rate_bps for port in topology.switch_ports], float)
        self._hosts_bps = np.array([port.rate_bps for port in topology.host_ports], float)
        self._groups = [group for group in next_hop_groups(topology) if group.has_choice]
        self._columns = {(p.node, p.number): i for i, p in enumerate(topology.switch_ports)}
        self._now_ns = 0

    def start(self) -> None:
        """Have nothing to build."""

    def close(self) -> None:
        """Have nothing to end."""

    def reset(self, episode: NetworkEpisode) -> None:
        self._flows = episode.plan.flows
        self._begun_ns = self._now_ns
        self._ports = np.zeros(len(self._links_bps), PORT_STATE)
        self._hosts = np.zeros(len(self._hosts_bps), HOST_STATE)
        self._limits_bps = self._hosts_bps
        self.apply_weights(np.ones(sum(len(group.ports) for group in self._groups)))

    def apply_rates(self, rates_bps: npt.NDArray[np.uint64]) -> int:
        self._limits_bps = rates_bps.astype(float)
        return self._now_ns

    def apply_weights(self, weights: npt.NDArray[np.float64]) -> int:
        ends = np.cumsum([len(group.ports) for group in self._groups])
        self._shares: dict[tuple[str, str], npt.NDArray[np.float64]] = {}
        for group, own in zip(self._groups, np.split(weights, ends[:-1])[: len(ends)], strict=True):
            share = own / own.sum() if own.sum() else np.full(len(own), 1 / len(own))
            self._shares.update({(group.switch, host): share for host in group.hosts})
        self._paths = np.array([self._path(flow.src, flow.dst) for flow in self._flows])
        return self._now_ns

    def advance(self, until_ns: int) -> int:
        seconds = max(until_ns - self._now_ns, 0) / 1e9
        self._now_ns = max(until_ns, self._now_ns)
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
        return 0

    def now_ns(self) -> int:
        return self._now_ns

    def snapshot(self) -> Snapshot:
        return Snapshot(self._now_ns, 2, self._ports.copy(), self._hosts.copy())

    def finished(self) -> bool:
        return bool(self._ended().all())

    def stop_traffic(self) -> None:
        self._flows = ()
        self._paths = np.zeros((0, len(self._links_bps)))

    def flow_records(self) -> npt.NDArray[np.void]:
        return np.empty(0, RECORD_DTYPE)

    def application_records(self) -> list[Record]:
        return []

    def process_records(self) -> list[Record]:
        return []

    def event_records(self) -> list[Record]:
        return []

    def fidelity(self) -> Fidelity:
        return Fidelity("ok")

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

    def make(topology: Topology, options: Options) -> ToyNetwork:
        return ToyNetwork(topology)

    if ToyNetwork.name not in NETWORKS:
        NETWORKS.add("toy", NetworkMaker("toy", ToyNetwork.capabilities, frozenset(), make))
