"""Rates and paths in one action: the joint task."""

from __future__ import annotations

from dataclasses import dataclass

from dcgym.config import check_in
from dcgym.tasks.congestion.rates import RateDecision
from dcgym.tasks.network.arguments import read_topology
from dcgym.tasks.network.task import NetworkTask
from dcgym.tasks.paths.task import PathSettings, observed_ports
from dcgym.tasks.paths.weights import WeightDecision
from dcgym.topologies import Topology

__all__ = ["JointSettings", "joint"]


@dataclass(frozen=True, kw_only=True)
class JointSettings(PathSettings):
    """Arguments of `dcgym/Joint-v2`; ``action`` is that of the rates.

    Attributes:
        floor: Least share that a host is given.
        weighting: One of `dcgym.tasks.paths.actions.WEIGHTINGS`.
        flat: Whether the action is one `Box`.
    """

    observe: str = "all"
    floor: float = 0.01
    weighting: str = "direct"
    flat: bool = False

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        check_in("flat", self.flat, (True, False))


# Long because its docstring is the page of the environment.
def joint(settings: JointSettings, given: Topology | None = None) -> NetworkTask:
    """Limit the sending rate of every host and weigh the paths of its flows, in one step.

    ## Description
    `CongestionControl-v2` and `PathBalancing-v2` on one network: how much may enter, and which way
    it goes. Rates act at once, weights on flows that begin.

    ## Action Space
    `Dict` of `rates`, `Box(n_hosts)` as in `CongestionControl-v2`, and `weights`,
    `Box(n_weights)` as in `PathBalancing-v2`. With `flat=True` both are one `Box`, rates first, for
    learners that know no `Dict`, such as those of Stable-Baselines3.

    ## Observation Space
    `Box`, float32: features of the observed switch ports, the flow matrix if asked for, the rate
    share of each host, the normalised weight of each port and group.

    ## Rewards
    A weighted sum of the terms in `dcgym.tasks.network.rewards`. The default is `delivery`, that of
    `CongestionControl-v2`: what arrived over what could have, less queues and unfairness. The order
    of a step is that of `CongestionControl-v2`; both parts are in force before the interval begins.

    ## Starting State
    A measured observation of the running network with every share at 1, equal weights and an empty
    flow table; seeds work as in the other environments.

    ## Episode End
    Terminated when every flow of the plan has ended; plans of endless flows never terminate.
    Truncated after ``max_steps``, or Gymnasium's `max_episode_steps`, 200 steps by default.

    ## Information
    Everything that `CongestionControl-v2` and `PathBalancing-v2` return.

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
    | action | of the rates: "direct", "linear" or "tanh" |
    | floor | least share a host is given |
    | weighting | of the paths: "direct", "linear" or "softmax" |
    | flat | whether the action is one `Box` instead of a `Dict` |
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
    - v1: the default reward is `delivery`; before, it was `goodput_queue` and `uplink_queue`
    - v0: first version

    Args:
        settings: The arguments above.
        given: The network of a backend that exists already.
    """
    topology, marks = read_topology(settings.topology, settings.marking, given)
    rates = RateDecision(topology, settings.action, settings.floor)
    weights = WeightDecision(topology, settings.weighting)
    return NetworkTask(
        settings,
        topology,
        marks,
        (rates, weights),
        family="joint",
        observed_ports=observed_ports(settings, weights),
        is_flat=settings.flat,
    )
