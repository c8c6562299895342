"""How fast may each host send: the congestion-control environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dcgym.config import check_in
from dcgym.envs.arguments import BackendSpec, RewardSpec, TopologySpec
from dcgym.envs.decisions import Decision, RateDecision
from dcgym.envs.network import NetworkEnv
from dcgym.tasks.congestion.actions import ActionMap
from dcgym.tasks.network.features import FLOW_MATRIX
from dcgym.traffic import Plan

__all__ = ["CongestionControlEnv"]


class CongestionControlEnv(NetworkEnv):
    """Limit the sending rate of every host so that queues stay short and links full.

    ## Description
    Hosts of a data-centre network send traffic by a plan. Once per control interval the agent sets
    a token bucket at every host's interface; the host's own transport runs below that limit.
    After Ruffy, "Data-Driven Datacenter Traffic Control", UBC 2019.

    ## Action Space
    `Box(n_hosts)`, in the order of `topology.hosts`. With `action="direct"` the value is the share
    of the interface rate, `floor` to 1. With `action="tanh"` it is -4 to 4, squashed onto the same
    range: `(tanh(a) + 1) / 2 * (1 - floor) + floor`.

    ## Observation Space
    `Box`, float32. For each switch port, in the order of `topology.switch_ports`, the features in
    the order given (see `dcgym.tasks.network.features`); then, with `flow_matrix`, ports times hosts; then the
    current rate share of each host. Shares and fractions are 0 to 1, changes (`d_`) -1 to 1.

    ## Rewards
    A weighted sum of the terms in `dcgym.tasks.network.rewards`; `joint_queue` is the thesis' eq. 4.3. A step
    applies the action, waits until it is acknowledged and until the interval's absolute deadline,
    reads one snapshot, and only then computes: the reward belongs to the action just given.

    ## Starting State
    A measured observation of the running network with every share at 1. The plan's seed is drawn
    from the environment's own generator, so the same seed gives every policy the same traffic.

    ## Episode End
    Terminated when every flow of the plan has ended, truncated after `max_steps`. Plans of endless
    flows never terminate. `gymnasium.make` truncates at 200 steps unless told otherwise through
    `max_episode_steps`.

    ## Information
    | key | meaning |
    |---|---|
    | reward_terms | each term times its weight; they add up to the reward |
    | metrics | goodput_bps, queue_bytes, rtt_us, drops, marks, jain and more, of this interval |
    | rate_shares | share of each host in force |
    | interval_us | length of the interval that was measured |
    | action_latency_us | from the collection of the last observation to the acknowledged action |
    | observation_age_us | age of this observation's snapshot when `step` returns it |
    | deadline_overrun_us | how late the environment woke |
    | is_restarted | the action came late, and the interval began with its acknowledgement |
    | events | records of the events that took effect since the last step, with recovery times |

    ## Arguments
    | name | meaning |
    |---|---|
    | topology | name, mapping, file, or `Topology` |
    | traffic | name, mapping, file, or `Plan` |
    | backend | "emulation", a `Backend`, or what makes one of a topology, "module:name" too |
    | interval | control interval, such as "50ms"; "0ms" runs freely |
    | features | names of the features |
    | probes | pairs of hosts, such as `[["h1", "h3"]]`, for the feature `probe_rtt` |
    | flow_matrix | observe the flow matrix too, as the feature of that name does |
    | reward | a term, a list of terms, or a mapping term to weight |
    | action | "direct" or "tanh" |
    | floor | least share a host is given |
    | congestion_control | name, or mapping of host to name |
    | marking | mark packets at the switches; a mapping replaces how the topology says |
    | switch | "ebpf" or "ovs"; of the emulation |
    | events | what happens to links and switches during each episode (see `dcgym.tasks.network.events`) |
    | preflight | measure a few links before the first episode; of the emulation |
    | generator | what sends the traffic: "native", "iperf3" or "goben"; of the emulation |
    | render_mode | None or "rgb_array" |
    | max_steps | steps until truncation, or None |

    `marking={"kind": "step", "min": "30KB"}` sets CE beyond a backlog of 30 KB, as DCTCP wants it.
    `marking={"kind": "red", "min": "3KB", "max": "100KB", "probability": 0.1, "burst": 23}` is RED;
    see the guide on topologies.

    ## Version History
    - v0: first version
    """

    policy_family = "congestion"

    def __init__(
        self,
        topology: TopologySpec = "dumbbell",
        traffic: str | Path | Mapping[str, Any] | Plan = "pairs",
        backend: BackendSpec = "emulation",
        interval: str | int | float = "50ms",
        features: Sequence[str] = ("backlog", "d_backlog"),
        probes: Sequence[Sequence[str]] = (),
        flow_matrix: bool = False,
        reward: RewardSpec = "joint_queue",
        action: str = "direct",
        floor: float = 0.01,
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
        if check_in("flow_matrix", flow_matrix, (True, False)) and FLOW_MATRIX not in features:
            features = (*features, FLOW_MATRIX)
        self._action, self._floor = action, floor
        super().__init__(
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
        """What an action means, for policies."""
        return self._rates.action_map

    def _make_decisions(self) -> tuple[Decision, ...]:
        self._rates = RateDecision(self.topology, self._action, self._floor)
        return (self._rates,)
