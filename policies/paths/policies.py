"""Policies that weigh equal-cost paths; they need no training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dcgym.config import check_range
from dcgym.policies.base import Action, BoundPolicy, Drawing, FloatArray, Info, Observation
from dcgym.policies.paths.downstream import downstream_capacities
from dcgym.tasks.network.decision import DecisionMap
from dcgym.tasks.network.uplinks import Uplinks
from dcgym.topologies import Topology

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "EcmpPolicy",
    "LeastLoadedPolicy",
    "PathPolicy",
    "PathsTask",
    "RandomPathsPolicy",
    "WcmpPolicy",
]


class PathsTask(Protocol):
    """What these policies know of their task."""

    @property
    def topology(self) -> Topology:
        """The network."""
        ...

    @property
    def uplinks(self) -> Uplinks:
        """The ports that are weighed."""
        ...

    @property
    def weight_map(self) -> DecisionMap:
        """What weights of an action mean."""
        ...

    @property
    def observation_labels(self) -> Sequence[str]:
        """Name of each position of an observation."""
        ...


class PathPolicy(BoundPolicy[PathsTask]):
    """Weighs the ports of every group; the subclass says how."""

    def weights(self, info: Info) -> FloatArray:
        """Return one weight a port and group, 0 or more, in the order of the action.

        Args:
            info: What `reset` or `step` returned last.
        """
        raise NotImplementedError

    def act(self, observation: Observation, info: Info) -> Action:
        """Return the action that asks for the weights.

        Args:
            observation: Not looked at.
            info: What `reset` or `step` returned last.
        """
        return self.task.weight_map.from_shares(self.weights(info))


class EcmpPolicy(PathPolicy):
    """Equal-cost multi-path: every shortest path gets as many flows (RFC 2992)."""

    name = "ecmp"

    def weights(self, info: Info) -> FloatArray:
        """Return the same for all."""
        return np.ones(len(self.task.uplinks.members))


class WcmpPolicy(PathPolicy):
    """Weighted-cost multi-path: flows in proportion to the capacity behind each port.

    After Zhou et al., "WCMP: Weighted Cost Multipathing for Improved Fairness in Data Centers",
    EuroSys 2014. Capacity is that of the configured links, towards the switches of the group's
    hosts, averaged over those hosts.
    """

    name = "wcmp"

    def __init__(self) -> None:
        """Wait for an environment."""
        super().__init__()
        self._known: tuple[Topology | None, FloatArray] = (None, np.empty(0))

    def weights(self, info: Info) -> FloatArray:
        """Return the capacities, worked out once per network."""
        if self._known[0] is not self.task.topology:
            topology = self.task.topology
            capacities = downstream_capacities(topology, self.task.uplinks.groups)
            self._known = (topology, capacities)
        return self._known[1]


class LeastLoadedPolicy(PathPolicy):
    """New flows go to the least utilised port of a group, by what was measured last.

    The load is an exponential average, `load += smoothing * (measured - load)`. A single winner
    would be flooded for a whole interval, so all ports whose load is within `hysteresis` of the
    least share alike. A port that fell out comes back only when it is within half of that: small
    changes do not move traffic to and fro.
    """

    name = "least-loaded"

    def __init__(self, hysteresis: float = 0.1, smoothing: float = 0.5) -> None:
        """Choose the parameters.

        Args:
            hysteresis: Utilisation above the least loaded port at which a port gets no flows.
            smoothing: Weight of the last interval in the average.
        """
        super().__init__()
        self._hysteresis = check_range("hysteresis", hysteresis, 0.0, 1.0)
        self._smoothing = check_range("smoothing", smoothing, 0.0, 1.0)
        self._loads = np.empty(0)
        self._is_chosen = np.empty(0, bool)

    def bind(self, env: object) -> Self:
        """Begin with all ports; returns the policy.

        Args:
            env: The environment, under whatever wrappers, or its task.
        """
        super().bind(env)
        self._loads = np.zeros(len(self.task.uplinks.members))
        self._is_chosen = np.ones(len(self._loads), bool)
        return self

    def weights(self, info: Info) -> FloatArray:
        """Return 1 for the ports to use, 0 for the others."""
        self._loads += self._smoothing * (info["uplink_loads"] - self._loads)
        sizes = self.task.uplinks.sizes
        least = np.repeat(np.minimum.reduceat(self._loads, np.cumsum(sizes) - sizes), sizes)
        margin = np.where(self._is_chosen, self._hysteresis, self._hysteresis / 2)
        self._is_chosen = self._loads <= least + margin
        return self._is_chosen.astype(np.float64)


class RandomPathsPolicy(Drawing, PathPolicy):
    """Draw every weight evenly from 0 to 1, each time anew."""

    def weights(self, info: Info) -> FloatArray:
        """Return new random weights."""
        return self._generator.random(len(self.task.uplinks.members))
