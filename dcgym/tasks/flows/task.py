"""The window or rate of each flow: the task of per-flow congestion control."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.config import check_in, check_int
from dcgym.defaults import Default
from dcgym.errors import ConfigError
from dcgym.tasks.common.features import check_features
from dcgym.tasks.common.layout import Column, Layout
from dcgym.tasks.common.rewards import Reward, RewardSpec
from dcgym.tasks.common.settings import Duration
from dcgym.tasks.flows.actions import FLOW_ACTIONS, FlowAction
from dcgym.tasks.flows.features import FLOW_FEATURES
from dcgym.tasks.flows.interval import FlowInterval
from dcgym.tasks.flows.rewards import FLOW_REWARDS
from dcgym.tasks.network.arguments import read_topology
from dcgym.tasks.network.controls import AGENT_CONTROL
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.settings import TrafficSettings
from dcgym.tasks.network.traffic import TrafficTask
from dcgym.topologies import Topology
from dcgym.traffic import Plan
from dcgym.units import parse_duration

__all__ = ["FLOWS_LAYOUT", "FlowSettings", "FlowTask", "each_flow", "flow_control"]

FloatArray = npt.NDArray[np.float64]

MOST_FLOWS = 1024
TCP = 0  # in plans' records
MOST_HISTORY = 100

FLOWS_LAYOUT = Layout(
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
    ),
)
DEFAULT_LEASE = Default("1s")


@dataclass(frozen=True, kw_only=True)
class FlowSettings(TrafficSettings):
    """Arguments of `dcgym/FlowControl-v1`.

    Attributes:
        flows: Number of flows that are steered, the first of the plan.
        action: One of `dcgym.tasks.flows.actions.FLOW_ACTIONS`.
        features: Names of `dcgym.tasks.flows.features.FLOW_FEATURES`.
        history: Intervals that are observed, the newest last.
        reward: A term of `dcgym.tasks.flows.rewards.FLOW_REWARDS`, a list of terms, or a mapping
            term to weight.
        lease: How long a command holds when no other follows; where nobody says, two intervals if
            1 s is none.
    """

    flows: int = 1
    action: str = "orca"
    features: Sequence[str] = ("rate", "queueing", "latency_inflation", "loss", "window")
    history: int = 4
    reward: RewardSpec = "orca"
    lease: Duration = DEFAULT_LEASE
    congestion_control: str | Mapping[str, str] = AGENT_CONTROL

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        check_int("flows", self.flows, 1, MOST_FLOWS)
        FLOW_ACTIONS.find(self.action)
        check_features(self.features, FLOW_FEATURES.names())
        check_int("history", self.history, 1, MOST_HISTORY)
        Reward(self.reward, FLOW_REWARDS)
        if self.lease_ns <= self.interval_ns:
            raise ConfigError("lease", self.lease, f"longer than the interval of {self.interval}")

    @property
    def lease_ns(self) -> int:
        """How long a command holds; a default gives way to a longer interval."""
        lease_ns = parse_duration(self.lease, "lease")
        gives_way = isinstance(self.lease, Default) and lease_ns <= self.interval_ns
        return 2 * self.interval_ns if gives_way else lease_ns


class FlowTask(TrafficTask):
    """The commands of some flows on one copy of a network.

    Args:
        settings: The arguments of the environment.
        topology: The network.
        marks: Whether its switches mark.

    Attributes:
        agents: Name of the agent of each flow.
        action: What actions mean.
        reward: Terms and weights.

    Raises:
        ConfigError: An argument is not allowed, or the plan has too few flows.
    """

    def __init__(self, settings: FlowSettings, topology: Topology, marks: bool) -> None:
        super().__init__(settings, topology, marks, family="flows")
        self.settings: FlowSettings = settings
        self.action: FlowAction = FLOW_ACTIONS.find(settings.action)()
        self.reward: Reward[FlowInterval, FloatArray] = Reward(settings.reward, FLOW_REWARDS)
        self.agents = tuple(f"flow{number}" for number in range(settings.flows))
        # The age of the interval behind the name of the feature.
        self.observation_labels = [
            f"{name}-{age}"
            for age in reversed(range(settings.history))
            for name in settings.features
        ]
        shape = (len(self.observation_labels),)
        self.action_space = self.action.space
        self.observation_space = gym.spaces.Box(-1.0, 1.0, shape, np.float32)
        self._link_rates_bps = {
            host.name: port.rate_bps
            for host, port in zip(topology.hosts, topology.host_ports, strict=True)
        }
        self.take(self.plan)

    def begin(
        self, seed: int, options: Mapping[str, object], check: Callable[[Plan], None]
    ) -> NetworkEpisode:
        """Return a new episode, whose first flows are steered.

        Args:
            seed: Seed of its plan.
            options: As `TrafficTask.begin` takes them.
            check: As there.

        Raises:
            ConfigError: Unknown option, or traffic that does not fit.
        """
        return replace(super().begin(seed, options, check), steered=len(self.agents))

    def take(self, plan: Plan) -> None:
        """Refuse a plan whose first flows cannot be steered.

        Args:
            plan: The plan.

        Raises:
            ConfigError: It has too few flows, or one of them is UDP or runs something else.
        """
        count = self.settings.flows
        if len(plan) < count:
            raise ConfigError("flows", count, f"1 to {len(plan)}, the flows of {plan.name}")
        if (plan.records["transport"][:count] != TCP).any():
            raise ConfigError(
                "traffic", plan.name, f"TCP as its first {count} flows: UDP obeys none"
            )
        for host in self.senders(plan):
            control = self._congestion_control[host]
            check_in(f"congestion_control of {host}", control, (AGENT_CONTROL,))

    def link_rates_bps(self) -> FloatArray:
        """Return the rate of each flow's interface, (F,)."""
        return np.array([self._link_rates_bps[host] for host in self.senders(self.plan)])

    def senders(self, plan: Plan) -> list[str]:
        """Return the sender of each flow that is steered.

        Args:
            plan: The plan.
        """
        return [plan.hosts[row] for row in plan.records["src"][: self.settings.flows]]

    def observe(self, interval: FlowInterval) -> FloatArray:
        """Return the features of the interval, (E, F, features).

        Args:
            interval: What the flows did.
        """
        columns = [FLOW_FEATURES[name](interval) for name in self.settings.features]
        return np.where(interval.is_open[..., None], np.stack(columns, axis=-1), 0.0)


# Long because its docstring is the page of the environment.
def flow_control(settings: FlowSettings, given: Topology | None = None) -> FlowTask:
    """Steer the window or the rate of one TCP flow, as Orca and Aurora do.

    ## Description
    The hosts of a network run the congestion control `dcgym_agent`: Reno, whose window and pacing
    rate an agent may set. Once per control interval the agent gives the first flow of the plan a
    command, which is in force with the flow's next acknowledgement. All other flows are Reno. A
    command holds for `lease`; where no other follows, the flow goes on as Reno within two round
    trips. In the emulation this is a struct_ops program of the kernel, in the packet twin the same
    code.

    ## Action Space
    `Box(1)`, -1 to 1. With `action="orca"` the window is multiplied by 2^a, once; 0 leaves Reno
    alone. With `action="aurora"` the pacing rate is multiplied by 1 + 0.025 a, or divided by
    1 - 0.025 a where a is negative; the first action starts at the rate that the flow reached
    without one. With `action="window"` it is the window itself, 2 to 1024 packets on a logarithmic
    scale. With `action="rate"` it is the pacing rate, a hundredth to all of the sender's link.

    ## Observation Space
    `Box`, float32, -1 to 1: the features in the order given, of the last `history` intervals, the
    newest last. A flow that is not there has zeros.

    | feature | meaning |
    |---|---|
    | rate | what was acknowledged, over the rate of the sender's link |
    | rate_of_best | the same over the highest rate of the flow so far |
    | queueing | 1 less the least round trip over the mean one |
    | latency_inflation | change of the mean round trip over the length of the interval |
    | send_excess | what left less what arrived, over the larger of both |
    | loss | segments lost over segments sent |
    | marks | segments marked over segments acknowledged |
    | window | logarithm of the window; 1 is 65536 packets |

    ## Rewards
    A weighted sum of the terms in `dcgym.tasks.flows.rewards`. The default, `orca`, is the power of
    the flow, throughput less five times what was lost over the delay, as a share of the best
    throughput over the least delay. `aurora` is 0.001 (10 throughput in packets/s - 1000 latency in
    s - 2000 loss). `rate`, `queueing` and `loss` are the features of these names, the last two
    negative.

    ## Starting State
    The network before the first flow begins: zeros. The plan's seed is drawn from the
    environment's own generator, so the same seed gives every policy the same traffic.

    ## Episode End
    Terminated when every flow of the plan has ended; plans of endless flows never terminate.
    Truncated after ``max_steps``, or Gymnasium's `max_episode_steps`, 200 steps by default.

    ## Information
    What `CongestionControl-v2` returns about the whole network, without `rate_shares`, and for the
    flow:

    | key | meaning |
    |---|---|
    | reward_terms | each term times its weight; they add up to the reward |
    | is_open | whether the flow was there throughout the interval |
    | flow_rate_bps | payload acknowledged |
    | flow_rtt_us | mean round trip |
    | flow_cwnd | window at the end, in packets |
    | clamped | commands so far that were out of range, and were brought into it |
    | fallbacks | times so far that a lease ended and the flow went on as Reno |

    ## Arguments
    | name | meaning |
    |---|---|
    | topology | name, mapping, file, or `Topology` |
    | traffic | name, mapping, file, or `Plan` |
    | backend | "emulation", "simulation", or what makes a network that steers flows |
    | flows | number of flows that are steered, the first of the plan; 1 for one agent |
    | action | "orca", "aurora", "window" or "rate" |
    | features | names of the features |
    | history | intervals that are observed |
    | reward | a term, a list of terms, or a mapping term to weight |
    | lease | how long a command holds when no other follows; two intervals where 1 s is too short |
    | interval | control interval, such as "50ms"; "0ms" runs freely |
    | congestion_control | "dcgym_agent", or mapping of host to name: the others' may differ |
    | marking | mark packets at the switches; a mapping replaces how the topology says |
    | probes | as in `CongestionControl-v2`, and so are those that follow |
    | events | what happens to links and switches (see `dcgym.tasks.network.events`) |
    | render_mode | None or "rgb_array": load and queues (extra `video`) |
    | randomise | distribution of each field that is drawn at `reset`, by its path; or None |
    | max_steps | steps until truncation, or None |
    | info | "full"; "flat": one level of floats, such as ``metrics/drops``; or "none" |

    ## Version History
    - v1: other results in the packet twin, whose flows and timers begin as the kernel's do
    - v0: first version

    Args:
        settings: The arguments above.
        given: The network of a backend that exists already.
    """
    check_int("flows", settings.flows, 1, 1)
    return each_flow(settings, given)


# Long because its docstring is the page of the environment.
def each_flow(settings: FlowSettings, given: Topology | None = None) -> FlowTask:
    """Steer the windows or rates of several TCP flows, each by an agent of its own.

    ## Description
    As `FlowControl-v1`, with an agent for each of the first `flows` flows of the plan: `flow0`,
    `flow1` and so on. All agents act at the same time, in the same spaces, so that one policy can
    serve all of them. No agent sees another one's flow.

    ## Action Space
    Of each agent that of `FlowControl-v1`.

    ## Observation Space
    Of each agent that of `FlowControl-v1`. `state` is all observations, one after the other.

    ## Rewards
    Each agent has the reward of its own flow.

    ## Starting State
    That of `FlowControl-v1`.

    ## Episode End
    That of `FlowControl-v1`, for all agents at once. An agent whose flow has ended sees zeros.

    ## Information
    That of `FlowControl-v1`, of each flow.

    ## Arguments
    Those of `FlowControl-v1`, with `flows` above 1.

    ## Version History
    - v1: other results in the packet twin, whose flows and timers begin as the kernel's do
    - v0: first version

    Args:
        settings: The arguments above.
        given: The network of a backend that exists already.
    """
    topology, marks = read_topology(settings.topology, settings.marking, given)
    return FlowTask(settings, topology, marks)
