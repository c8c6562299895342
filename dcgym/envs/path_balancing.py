"""Which of several equal-cost paths gets how many flows: the path-balancing environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.config import check_in
from dcgym.envs.arguments import BackendSpec, RewardSpec, TopologySpec
from dcgym.envs.decisions import Decision, WeightDecision
from dcgym.envs.network import NetworkEnv
from dcgym.errors import ConfigError
from dcgym.tasks.congestion.actions import PathWeightMap
from dcgym.tasks.network.features import Interval
from dcgym.tasks.network.rewards import RewardInputs
from dcgym.tasks.paths.uplinks import Uplinks
from dcgym.traffic import Plan

__all__ = ["FLOW_TABLE", "SHORT_FLOWS", "PathBalancingEnv", "WeightedPathsEnv"]

FLOW_TABLE = 65_536
OBSERVED = ("uplinks", "all")

SHORT_FLOWS: Mapping[str, Any] = {"name": "random-bijection", "size": "250KB", "repetitions": 0}
"""Flow after flow from every host: weights steer flows that begin, and an endless one does once."""


class WeightedPathsEnv(NetworkEnv):
    """Base of the environments that weigh paths; adds what that needs to `NetworkEnv`.

    Args:
        weighting: One of `dcgym.tasks.congestion.actions.WEIGHTINGS`.
        observe: "uplinks" or "all".
        flow_table: Flows that the switches remember.
        flowlet_gap: Idle time after which a flow may move.
        switch: "ebpf" alone.
        arguments: Those of `NetworkEnv`.
    """

    def __init__(
        self,
        *,
        weighting: str,
        observe: str,
        flow_table: int,
        flowlet_gap: str | int | float,
        switch: str,
        **arguments: Any,
    ) -> None:
        if switch == "ovs":
            # Its select groups do not keep to unequal weights: openvswitch/ovs-issues 180.
            raise ConfigError("switch", switch, "ebpf (Open vSwitch cannot weigh paths)")
        self._weighting = weighting
        self._observe_what = check_in("observe", observe, OBSERVED)
        self._path_options = {"flow_table": flow_table, "flowlet_gap": flowlet_gap}
        super().__init__(switch=switch, **arguments)

    @property
    def uplinks(self) -> Uplinks:
        """The groups that the weights are for, in the order of the action."""
        return self._weights.uplinks

    @property
    def weight_map(self) -> PathWeightMap:
        """What the weights of an action mean, for policies."""
        return self._weights.action_map

    def _make_weights(self) -> WeightDecision:
        self._weights = WeightDecision(self.topology, self._weighting)
        return self._weights

    def _observed_ports(self) -> Sequence[int]:
        if self._observe_what == "all":
            return super()._observed_ports()
        return [int(port) for port in self.uplinks.ports]

    def _backend_options(self) -> dict[str, Any]:
        return super()._backend_options() | self._path_options

    def _reward_inputs(
        self, interval: Interval, hosts: dict[str, npt.NDArray[np.float64]]
    ) -> RewardInputs:
        return replace(
            super()._reward_inputs(interval, hosts),
            uplink_loads=self.uplinks.loads(interval),
            uplink_queues=self.uplinks.queues(interval),
            uplink_jain=self.uplinks.balance(interval)["uplink_jain"],
        )


class PathBalancingEnv(WeightedPathsEnv):
    """Weigh equal-cost paths so that no link is full while another one is idle.

    ## Description
    Between most pairs of hosts of a data-centre network there are several shortest paths. Every
    switch spreads flows over the next hops of a destination by a hash of their addresses and
    ports; once per control interval the agent sets with which probability it takes which. A flow
    that has begun keeps its path, so that its packets stay in order, unless flowlets are on: then
    it chooses anew after an idle gap.

    ## Action Space
    `Box(n_weights)`: for each switch in the order of `topology.switches`, for each of its groups
    (hosts reached by the same ports) that has more than one port, in the order of the lowest host,
    one number for each port in the order of its number. `env.unwrapped.uplinks` lists them. With
    `action="direct"` the number is a weight, 0 to 1, divided by the sum of its group; where a
    group's are all 0, its ports share evenly. With `action="softmax"` it is a logit, -4 to 4.

    ## Observation Space
    `Box`, float32. For each observed switch port, in the order of `topology.switch_ports`, the
    features in the order given (see `dcgym.tasks.network.features`); then the flow matrix, if asked for; then
    the current weights, normalised, in the order of the action. Observed are the ports that the
    weights are about, or with `observe="all"` all of them.

    ## Rewards
    A weighted sum of the terms in `dcgym.tasks.network.rewards`. The default, `goodput` and `uplink_queue`, is
    the mean of what the hosts received over their interface rates, minus the fill of the fullest
    queue among the observed uplinks. The terms about rates take every share as 1. The order of a
    step is that of `CongestionControl-v0`.

    ## Starting State
    A measured observation of the running network with equal weights and an empty flow table. The
    plan's seed is drawn from the environment's own generator, so the same seed gives every policy
    the same traffic.

    ## Episode End
    Terminated when every flow of the plan has ended, truncated after `max_steps`. Plans of endless
    flows never terminate. `gymnasium.make` truncates at 200 steps unless told otherwise through
    `max_episode_steps`.

    ## Information
    | key | meaning |
    |---|---|
    | reward_terms | each term times its weight; they add up to the reward |
    | metrics | those of `CongestionControl-v0`, and how evenly uplinks are used (below) |
    | path_weights | weights in force, in the order of the action |
    | uplink_loads | utilisation of each port, in the order of the action |
    | interval_us | length of the interval that was measured |
    | action_latency_us | from the collection of the last observation to the weights in force |
    | observation_age_us | age of this observation's snapshot when `step` returns it |
    | deadline_overrun_us | how late the environment woke |
    | is_restarted | the action came late, and the interval began with its acknowledgement |
    | events | records of the events that took effect since the last step, with recovery times |

    `metrics` adds `uplink_load_max`, the utilisation of the busiest uplink; `uplink_imbalance`, the
    highest over the mean load within a group; and `uplink_jain`, Jain's index within a group. The
    latter two weigh the groups by their bytes and are 1 where all is even.

    ## Arguments
    | name | meaning |
    |---|---|
    | topology | name, mapping, file, or `Topology`; with equal-cost paths |
    | traffic | name, mapping, file, or `Plan`; weights steer flows that begin |
    | backend | "emulation", a `Backend`, or what makes one of a topology, "module:name" too |
    | interval | control interval, such as "50ms"; "0ms" runs freely |
    | features | names of the features |
    | probes | pairs of hosts, such as `[["h1", "h3"]]`, for the feature `probe_rtt` |
    | observe | "uplinks" or "all": whose features |
    | reward | a term, a list of terms, or a mapping term to weight |
    | action | "direct" or "softmax" |
    | flow_table | flows the switches remember, the oldest going first; 0: packets follow weights |
    | flowlet_gap | idle time after which a flow may move, such as "500us"; 0: never |
    | congestion_control | name, or mapping of host to name |
    | marking | mark packets at the switches; a mapping replaces how the topology says |
    | switch | "ebpf"; Open vSwitch cannot weigh paths |
    | events | what happens to links and switches during each episode (see `dcgym.tasks.network.events`) |
    | preflight | measure a few links before the first episode; of the emulation |
    | generator | what sends the traffic: "native", "iperf3" or "goben"; of the emulation |
    | render_mode | None or "rgb_array" |
    | max_steps | steps until truncation, or None |

    ## Version History
    - v0: first version
    """

    policy_family = "paths"

    def __init__(
        self,
        topology: TopologySpec = "fat-tree",
        traffic: str | Path | Mapping[str, Any] | Plan = SHORT_FLOWS,
        backend: BackendSpec = "emulation",
        interval: str | int | float = "50ms",
        features: Sequence[str] = ("tx_rate", "d_tx_rate", "backlog", "d_backlog"),
        probes: Sequence[Sequence[str]] = (),
        observe: str = "uplinks",
        reward: RewardSpec = ("goodput", "uplink_queue"),
        action: str = "direct",
        flow_table: int = FLOW_TABLE,
        flowlet_gap: str | int | float = 0,
        congestion_control: str | Mapping[str, str] = "cubic",
        marking: bool | Mapping[str, Any] = False,
        switch: str = "ebpf",
        events: Sequence[Mapping[str, Any]] = (),
        preflight: bool = True,
        generator: str = "native",
        render_mode: str | None = None,
        max_steps: int | None = None,
    ) -> None:
        """Check the arguments and build the spaces; nothing is started before `reset`."""
        super().__init__(
            weighting=action,
            observe=observe,
            flow_table=flow_table,
            flowlet_gap=flowlet_gap,
            topology=topology,
            traffic=traffic,
            backend=backend,
            interval=interval,
            features=features,
            probes=probes,
            reward=reward,
            congestion_control=congestion_control,
            marking=marking,
            switch=switch,
            events=events,
            preflight=preflight,
            generator=generator,
            render_mode=render_mode,
            max_steps=max_steps,
        )

    def _make_decisions(self) -> tuple[Decision, ...]:
        return (self._make_weights(),)
