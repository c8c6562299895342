"""Rates and paths in one action: the joint environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dcgym.envs.arguments import BackendSpec, RewardSpec, TopologySpec
from dcgym.envs.decisions import Decision, RateDecision
from dcgym.envs.path_balancing import FLOW_TABLE, SHORT_FLOWS, WeightedPathsEnv
from dcgym.tasks.congestion.actions import ActionMap
from dcgym.traffic import Plan

__all__ = ["JointEnv"]


class JointEnv(WeightedPathsEnv):
    """Limit the sending rate of every host and weigh the paths of its flows, in one step.

    ## Description
    `CongestionControl-v0` and `PathBalancing-v0` on one network: how much may enter, and which way
    it goes. Rates act at once, weights on flows that begin.

    ## Action Space
    `Dict` of `rates`, `Box(n_hosts)` as in `CongestionControl-v0`, and `weights`,
    `Box(n_weights)` as in `PathBalancing-v0`. Learners that know no `Dict` see both in one `Box`,
    rates first (`gymnasium.spaces.flatten_space`).

    ## Observation Space
    `Box`, float32: features of the observed switch ports, the flow matrix if asked for, the rate
    share of each host, the normalised weight of each port and group.

    ## Rewards
    A weighted sum of the terms in `dcgym.tasks.network.rewards`. The default, `goodput_queue` and
    `uplink_queue`, is what the hosts received over their interface rates times one minus twice the
    fill of the fullest queue anywhere, minus the fill of the fullest queue of an uplink. The order
    of a step is that of `CongestionControl-v0`; both parts are in force before the interval begins.

    ## Starting State
    A measured observation of the running network with every share at 1, equal weights and an empty
    flow table; seeds work as in the other environments.

    ## Episode End
    Terminated when every flow of the plan has ended, truncated after `max_steps`. Plans of endless
    flows never terminate. `gymnasium.make` truncates at 200 steps unless told otherwise through
    `max_episode_steps`.

    ## Information
    Everything that `CongestionControl-v0` and `PathBalancing-v0` return.

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
    | action | of the rates: "direct" or "tanh" |
    | floor | least share a host is given |
    | weighting | of the paths: "direct" or "softmax" |
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

    policy_family = "joint"

    def __init__(
        self,
        topology: TopologySpec = "fat-tree",
        traffic: str | Path | Mapping[str, Any] | Plan = SHORT_FLOWS,
        backend: BackendSpec = "emulation",
        interval: str | int | float = "50ms",
        features: Sequence[str] = ("tx_rate", "d_tx_rate", "backlog", "d_backlog"),
        probes: Sequence[Sequence[str]] = (),
        observe: str = "all",
        reward: RewardSpec = ("goodput_queue", "uplink_queue"),
        action: str = "direct",
        floor: float = 0.01,
        weighting: str = "direct",
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
        self._action, self._floor = action, floor
        super().__init__(
            weighting=weighting,
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

    @property
    def action_map(self) -> ActionMap:
        """What the rates of an action mean, for policies."""
        return self._rates.action_map

    def _make_decisions(self) -> tuple[Decision, ...]:
        self._rates = RateDecision(self.topology, self._action, self._floor)
        return (self._rates, self._make_weights())
