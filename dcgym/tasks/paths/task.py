"""Which of several equal-cost paths gets how many flows: the task of path balancing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dcgym.config import check_in
from dcgym.tasks.common.layout import CENSORED, Column, Layout
from dcgym.tasks.common.settings import Duration
from dcgym.tasks.network.arguments import TopologySpec, read_topology
from dcgym.tasks.network.path_rules import PathChoice, read_path_rule
from dcgym.tasks.network.settings import NetworkSettings, TrafficSpec
from dcgym.tasks.network.task import NetworkTask
from dcgym.tasks.paths.weights import WeightDecision
from dcgym.topologies import Topology

__all__ = ["PATHS_LAYOUT", "PathSettings", "observed_ports", "path_balancing"]

FLOW_TABLE = 65_536
OBSERVED = ("uplinks", "all")

SHORT_FLOWS: Mapping[str, object] = {"name": "random-bijection", "size": "250KB", "repetitions": 0}
"""Flow after flow from every host: weights steer flows that begin, and an endless one does once."""

PATHS_LAYOUT = Layout(
    columns=(
        Column("reward_mean", "reward", low=None),
        Column("goodput_bps", "goodput, Mbit/s", 1e6, 2),
        Column("fct_us_p50", "FCT p50, ms", 1e3, 1),
        Column("fct_us_p99", "FCT p99, ms", 1e3, 1),
        CENSORED,
        Column("uplink_load_max", "busiest uplink"),
        Column("uplink_imbalance", "max/mean load"),
        Column("uplink_jain", "Jain of uplinks", high=1.0),
        Column("queue_bytes_mean", "queue mean, KB", 1e3, 1),
        Column("drops", "drops", 1.0, 0),
    ),
    series=(
        Column("goodput_bps", "goodput, Mbit/s", 1e6),
        Column("queue_bytes", "longest queue, KB", 1e3),
        Column("uplink_jain", "Jain's index of the uplinks"),
    ),
)


@dataclass(frozen=True, kw_only=True)
class PathSettings(NetworkSettings):
    """Arguments of `dcgym/PathBalancing-v2`.

    Attributes:
        observe: "uplinks" or "all": the ports whose features are observed.
        action: One of `dcgym.tasks.paths.actions.WEIGHTINGS`.
        path_rule: How flows, flowlets or packets are spread, one of
            `dcgym.tasks.network.path_rules.PATH_RULES`.
        flow_table: Flows that the switches remember; 0 for none.
        flowlet_gap: Idle time after which a flowlet of the rule letflow has ended; 0 for its own.
    """

    topology: TopologySpec = "fat-tree"
    traffic: TrafficSpec = field(default_factory=lambda: dict(SHORT_FLOWS))
    features: Sequence[str] = ("tx_rate", "d_tx_rate", "backlog", "d_backlog")
    observe: str = "uplinks"
    action: str = "direct"
    path_rule: str = "ecmp"
    flow_table: int = FLOW_TABLE
    flowlet_gap: Duration = 0

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        check_in("observe", self.observe, OBSERVED)
        read_path_rule(self.path_rule, self.flow_table, self.flowlet_gap)

    @property
    def path_choice(self) -> PathChoice:
        """How flows, flowlets or packets are spread over equal-cost ports."""
        return read_path_rule(self.path_rule, self.flow_table, self.flowlet_gap)


def observed_ports(settings: PathSettings, weights: WeightDecision) -> list[int] | None:
    """Return the indexes of the switch ports that are observed; None for all.

    Args:
        settings: Whose ``observe`` says which.
        weights: The decision, whose ports are observed.
    """
    return None if settings.observe == "all" else [int(port) for port in weights.ports]


# Long because its docstring is the page of the environment.
def path_balancing(settings: PathSettings, given: Topology | None = None) -> NetworkTask:
    """Weigh equal-cost paths so that no link is full while another one is idle.

    ## Description
    Between most pairs of hosts of a data-centre network there are several shortest paths. Every
    switch spreads flows over the next hops of a destination by a hash of their addresses and
    ports; once per control interval the agent sets with which probability it takes which. A flow
    that has begun keeps its path, so that its packets stay in order. That is the path rule `ecmp`;
    with others a flowlet, a packet or a sender chooses, still in the proportions of the weights.

    ## Action Space
    `Box(n_weights)`: for each switch in the order of `topology.switches`, for each of its groups
    (hosts reached by the same ports) that has more than one port, in the order of the lowest host,
    one number for each port in the order of its number. `env.unwrapped.task.uplinks` lists them.
    With `action="direct"` the number is a weight, 0 to 1, divided by the sum of its group; where a
    group's are all 0, its ports share evenly. With `action="linear"` the same is stretched onto
    -1 to 1. With `action="softmax"` it is a logit, -4 to 4.

    ## Observation Space
    `Box`, float32. For each observed switch port, in the order of `topology.switch_ports`, the
    features in the order given (see `dcgym.tasks.network.features`); then the flow matrix, if asked
    for; then the current weights, normalised, in the order of the action. Observed are the ports
    that the weights are about, or with `observe="all"` all of them.

    ## Rewards
    A weighted sum of the terms in `dcgym.tasks.network.rewards`. The default is `delivery`, that of
    `CongestionControl-v2`: what arrived over what could have, less queues and unfairness. The
    terms about rates take every share as 1. The order of a step is that of `CongestionControl-v2`.

    ## Starting State
    A measured observation of the running network with equal weights and an empty flow table. The
    plan's seed is drawn from the environment's own generator, so the same seed gives every policy
    the same traffic.

    ## Episode End
    Terminated when every flow of the plan has ended; plans of endless flows never terminate.
    Truncated after ``max_steps``, or Gymnasium's `max_episode_steps`, 200 steps by default.

    ## Information
    | key | meaning |
    |---|---|
    | reward_terms | each term times its weight; they add up to the reward |
    | metrics | those of `CongestionControl-v2`, and how evenly uplinks are used (below) |
    | path_weights | weights in force, in the order of the action |
    | uplink_loads | utilisation of each port, in the order of the action |
    | events | records of the events that took effect since the last step, with recovery times |
    | times of a step | those of `dcgym.envs.session.STEP_TIMES` |

    `metrics` adds `uplink_load_max`, the utilisation of the busiest uplink; `uplink_imbalance`, the
    highest over the mean load within a group; and `uplink_jain`, Jain's index within a group. The
    latter two weigh the groups by their bytes and are 1 where all is even.

    ## Arguments
    | name | meaning |
    |---|---|
    | topology | name, mapping, file, or `Topology`; with equal-cost paths |
    | traffic | name, mapping, file, or `Plan`; weights steer flows that begin |
    | backend | "emulation", a `Network`, or what makes one of a topology, "module:name" too |
    | interval | control interval, such as "50ms"; "0ms" runs freely |
    | features | names of the features |
    | probes | pairs of hosts, such as `[["h1", "h3"]]`, for the feature `probe_rtt` |
    | observe | "uplinks" or "all": whose features |
    | reward | a term, a list of terms, or a mapping term to weight |
    | action | "direct", "linear" or "softmax" |
    | path_rule | "ecmp", "letflow", "spray", "drill", "plb" or "flowbender" |
    | flow_table | flows the switches remember, the oldest going first; 0: packets follow weights |
    | flowlet_gap | with letflow, idle time after which a flow may move; 0: 500 us |
    | congestion_control | name, or mapping of host to name |
    | marking | mark packets at the switches; a mapping replaces how the topology says |
    | events | what happens to links and switches (see `dcgym.tasks.network.events`) |
    | render_mode | None or "rgb_array": load, queues and the action (extra `video`) |
    | randomise | distribution of each field that is drawn at `reset`, by its path; or None |
    | max_steps | steps until truncation, or None |
    | info | "full"; "flat": one level of floats, such as ``metrics/drops``; or "none" |

    ## Version History
    - v2: other results in the packet twin, whose flows and timers begin as the kernel's do
    - v1: the default reward is `delivery`; before, it was `goodput` and `uplink_queue`
    - v0: first version

    Args:
        settings: The arguments above.
        given: The network of a backend that exists already.
    """
    topology, marks = read_topology(settings.topology, settings.marking, given)
    weights = WeightDecision(topology, settings.action)
    return NetworkTask(
        settings,
        topology,
        marks,
        (weights,),
        family="paths",
        observed_ports=observed_ports(settings, weights),
    )
