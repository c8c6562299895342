"""HULA by a slow loop: new flowlets take the path whose busiest link is the least busy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from dcgym.config import check_range
from dcgym.errors import ConfigError
from dcgym.policies.base import Action, FloatArray, Info, Observation, Overrides
from dcgym.policies.paths.policies import PathPolicy
from dcgym.topologies import Port, Topology

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["HulaPolicy", "path_utilisation"]

FEATURE = "tx_rate"
# Of equal utilisations, as sums of floats have them.
TIE = 1e-9


class HulaPolicy(PathPolicy):
    """New flowlets go to the best next hop towards each leaf, by the utilisation of whole paths.

    After Katta et al., "HULA: Scalable Load Balancing Using Programmable Data Planes", SOSR 2016.
    There probes tell every switch the utilisation of the busiest link to each leaf, once a round
    trip; here this controller reads the ports once a control interval. A link's utilisation is
    HULA's estimate `U = bytes + U * (1 - dt / tau)` with tau of two intervals, which is
    `U += (measured - U) / 2`. The link to the host itself is on every path and is left out.

    A switch of HULA has a best next hop for each leaf. An action has one weight a port for all
    hosts that are reached by the same ports: it is the number of hosts whose best next hop the
    port is, and ports that are equally good share a host.
    """

    name = "hula"

    def __init__(self, smoothing: float = 0.5) -> None:
        """Choose the parameter.

        Args:
            smoothing: Weight of the last interval in a link's utilisation, 0 to 1.
        """
        super().__init__()
        self._smoothing = check_range("smoothing", smoothing, 0.0, 1.0)
        self._positions: list[int] = []
        self._names: list[str] = []
        self._loads = np.empty(0)

    def env_overrides(self) -> Overrides:
        """Ask for flowlets, and for the utilisation of every port."""
        return {"path_rule": "letflow", "observe": "all"}

    def bind(self, env: object) -> Self:
        """Find the ports' utilisations in the observation; returns the policy.

        Args:
            env: The environment, under whatever wrappers, or its task.

        Raises:
            ConfigError: They are not observed.
        """
        super().bind(env)
        labels = {name: place for place, name in enumerate(self.task.observation_labels)}
        self._names = [port.name for port in self.task.topology.switch_ports]
        wanted = [f"port{row}.{FEATURE}" for row in range(len(self._names))]
        if not labels.keys() >= set(wanted):
            allowed = f'"all", and {FEATURE} among the features: hula looks at every port'
            raise ConfigError("observe", "what it is", allowed)
        self._positions = [labels[name] for name in wanted]
        self._loads = np.zeros(len(wanted))
        return self

    def act(self, observation: Observation, info: Info) -> Action:
        """Return the action that asks for the weights.

        Args:
            observation: What `reset` or `step` returned last.
            info: What came with it.
        """
        measured = np.asarray(observation, np.float64)[self._positions]
        self._loads += self._smoothing * (measured - self._loads)
        return super().act(observation, info)

    def weights(self, info: Info) -> FloatArray:
        """Return for how many hosts each port is the best next hop.

        Args:
            info: Not looked at.
        """
        topology = self.task.topology
        loads = dict(zip(self._names, self._loads.tolist(), strict=True))
        known: dict[tuple[str, str], float] = {}
        weights: list[float] = []
        for group in self.task.uplinks.groups:
            votes = np.zeros(len(group.ports))
            for host in group.hosts:
                paths = [
                    path_utilisation(topology, port, host, loads, known) for port in group.ports
                ]
                is_best = np.asarray(paths) <= min(paths) + TIE
                votes += is_best / is_best.sum()
            weights += votes.tolist()
        return np.array(weights)


def path_utilisation(
    topology: Topology,
    port: Port,
    host: str,
    loads: Mapping[str, float],
    known: dict[tuple[str, str], float],
) -> float:
    """Return the utilisation of the busiest link on the best path through a port.

    Args:
        topology: The network.
        port: The first port of the path.
        host: Where it leads; its own link is left out.
        loads: Utilisation of each switch port by its name.
        known: What was found before for these loads, by switch and leaf; is filled.
    """
    if port.peer == host:
        return 0.0
    leaf = topology.ports(host)[0].peer
    if port.peer == leaf:
        return loads[port.name]
    key = port.peer, leaf
    if key not in known:
        by_number = {one.number: one for one in topology.ports(port.peer)}
        known[key] = min(
            path_utilisation(topology, by_number[number], host, loads, known)
            for number in topology.next_hops(port.peer, host)
        )
    return max(loads[port.name], known[key])
