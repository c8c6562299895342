"""How fast may each host send: the task of congestion control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dcgym.config import check_in
from dcgym.tasks.common.layout import Column, Layout
from dcgym.tasks.congestion.rates import RateDecision
from dcgym.tasks.network.arguments import read_topology
from dcgym.tasks.network.features import FLOW_MATRIX
from dcgym.tasks.network.settings import NetworkSettings
from dcgym.tasks.network.task import NetworkTask
from dcgym.topologies import Topology

__all__ = ["CONGESTION_LAYOUT", "CongestionSettings", "congestion_control"]

CONGESTION_LAYOUT = Layout(
    columns=(
        Column("reward_mean", "reward", low=None),
        Column("goodput_bps", "goodput, Mbit/s", 1e6, 2),
        Column("queue_bytes_mean", "queue mean, KB", 1e3, 1),
        Column("queue_bytes_p99", "queue p99, KB", 1e3, 1),
        Column("rtt_us_p50", "RTT p50, ms", 1e3, 1),
        Column("rtt_us_p99", "RTT p99, ms", 1e3, 1),
        Column("drops", "drops", 1.0, 0),
        Column("jain", "Jain", high=1.0),
    ),
    series=(
        Column("goodput_bps", "goodput, Mbit/s", 1e6),
        Column("queue_bytes", "longest queue, KB", 1e3),
        Column("rate_share", "mean rate share of the hosts"),
    ),
    means={"rate_share": "rate_share_"},
)


@dataclass(frozen=True, kw_only=True)
class CongestionSettings(NetworkSettings):
    """Arguments of `dcgym/CongestionControl-v2`.

    Attributes:
        flow_matrix: Observe the flow matrix too, as the feature of that name does.
        action: One of `dcgym.tasks.congestion.actions.ACTIONS`.
        floor: Least share that a host is given.
    """

    flow_matrix: bool = False
    action: str = "direct"
    floor: float = 0.01

    def __post_init__(self) -> None:
        """Check the fields, and take the flow matrix among the features."""
        super().__post_init__()
        wants_matrix = check_in("flow_matrix", self.flow_matrix, (True, False))
        names: Sequence[str] = self.features
        if wants_matrix and not isinstance(names, str) and FLOW_MATRIX not in names:
            object.__setattr__(self, "features", (*names, FLOW_MATRIX))


# Long because its docstring is the page of the environment.
def congestion_control(settings: CongestionSettings, given: Topology | None = None) -> NetworkTask:
    """Limit the sending rate of every host so that queues stay short and links full.

    ## Description
    Hosts of a data-centre network send traffic by a plan. Once per control interval the agent sets
    a token bucket at every host's interface; the host's own transport runs below that limit.
    After Ruffy, "Data-Driven Datacenter Traffic Control", UBC 2019.

    ## Action Space
    `Box(n_hosts)`, in the order of `topology.hosts`. With `action="direct"` the value is the share
    of the interface rate, `floor` to 1. With `action="linear"` it is -1 to 1, stretched onto the
    same range, as learners like it. With `action="tanh"` it is -4 to 4, squashed onto the range:
    `(tanh(a) + 1) / 2 * (1 - floor) + floor`.

    ## Observation Space
    `Box`, float32. For each switch port, in the order of `topology.switch_ports`, the features in
    the order given (see `dcgym.tasks.network.features`); then, with `flow_matrix`, ports times
    hosts; then the current rate share of each host. Shares and fractions are 0 to 1, changes
    (`d_`) -1 to 1.

    ## Rewards
    A weighted sum of the terms in `dcgym.tasks.network.rewards`. The default, `delivery`, is ``D (1
    - q / 2 - (1 - J) / 2)``, 0 to 1: ``D`` what arrived at all hosts over what could have, ``q``
    the fill of the fullest switch queue, ``J`` Jain's index over what was sent. ``D`` and ``J`` are
    about the hosts that had a flow under way at both ends of the interval, which could have sent at
    their interfaces' rates, but no more than all flows of the plan get together under max-min
    fairness; both are 1 where there is none. `joint_queue` is the thesis' eq. 4.3, which also pays
    for the shares of hosts that send nothing. A step applies the action, waits until it is
    acknowledged and until the interval's absolute deadline, reads one snapshot, and only then
    computes: the reward belongs to the action just given.

    ## Starting State
    A measured observation of the running network with every share at 1. The plan's seed is drawn
    from the environment's own generator, so the same seed gives every policy the same traffic.

    ## Episode End
    Terminated when every flow of the plan has ended; plans of endless flows never terminate.
    Truncated after ``max_steps``, or Gymnasium's `max_episode_steps`, 200 steps by default.

    ## Information
    | key | meaning |
    |---|---|
    | reward_terms | each term times its weight; they add up to the reward |
    | metrics | goodput_bps, queue_bytes, rtt_us, drops, marks, jain and more, of this interval |
    | rate_shares | share of each host in force |
    | events | records of the events that took effect since the last step, with recovery times |
    | times of a step | those of `dcgym.envs.session.STEP_TIMES` |

    ## Arguments
    | name | meaning |
    |---|---|
    | topology | name, mapping, file, or `Topology` |
    | traffic | name, mapping, file, or `Plan` |
    | backend | "emulation", a `Network`, or what makes one of a topology, "module:name" too |
    | interval | control interval, such as "50ms"; "0ms" runs freely |
    | features | names of the features |
    | probes | pairs of hosts, such as `[["h1", "h3"]]`, for the feature `probe_rtt` |
    | flow_matrix | observe the flow matrix too, as the feature of that name does |
    | reward | a term, a list of terms, or a mapping term to weight |
    | action | "direct", "linear" or "tanh" |
    | floor | least share a host is given |
    | congestion_control | name, or mapping of host to name |
    | marking | mark packets at the switches; a mapping replaces how the topology says |
    | events | what happens to links and switches (see `dcgym.tasks.network.events`) |
    | render_mode | None or "rgb_array": load, queues and the action (extra `video`) |
    | randomise | distribution of each field that is drawn at `reset`, by its path; or None |
    | max_steps | steps until truncation, or None |
    | info | "full"; "flat": one level of floats, such as ``metrics/drops``; or "none" |

    `marking={"kind": "step", "min": "30KB"}` sets CE beyond a backlog of 30 KB, as DCTCP wants it.
    `marking={"kind": "red", "min": "3KB", "max": "100KB", "probability": 0.1, "burst": 23}` is RED;
    see the guide on topologies.

    ## Version History
    - v2: other results in the packet twin, whose flows and timers begin as the kernel's do
    - v1: the default reward is `delivery`; before, it was `joint_queue`
    - v0: first version

    Args:
        settings: The arguments above.
        given: The network of a backend that exists already.
    """
    topology, marks = read_topology(settings.topology, settings.marking, given)
    rates = RateDecision(topology, settings.action, settings.floor)
    return NetworkTask(settings, topology, marks, (rates,), family="congestion")
