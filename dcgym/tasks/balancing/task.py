"""Which server gets the next flow: the task of one balancer, of each, or of all under one agent."""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.tasks.balancing.actions import WeightMap, make_weight_map
from dcgym.tasks.balancing.frontends import (
    frontend_name,
    frontend_numbers,
    frontend_rates_per_s,
)
from dcgym.tasks.balancing.measure import LoadInputs
from dcgym.tasks.balancing.observation import BalancerObservation
from dcgym.tasks.balancing.presets import make_scenario
from dcgym.tasks.balancing.rewards import (
    BALANCING_REWARDS,
    GAIN_OVER_SED,
    LOG_ONGOING,
)
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.tasks.balancing.service import ServiceMap
from dcgym.tasks.balancing.settings import (
    CentralLoadBalancingSettings,
    LoadBalancingSettings,
    PoolSettings,
)
from dcgym.tasks.common.rewards import Reward
from dcgym.tasks.common.rows import RowLayout

__all__ = [
    "BalancingTask",
    "central_load_balancing",
    "each_balancer",
    "load_balancing",
]

FloatArray = npt.NDArray[np.float64]
SEED_LIMIT = 2**63

MOST_FLOWS = 5_000_000
"""Flows that an interval may have on average: more fill the memory, and take seconds a step."""

MOST_FIRST_FLOWS = 100_000_000
"""Flows that the time before an episode may have on average."""


def _check_flows(scenario: Scenario, settings: PoolSettings) -> None:
    rate_per_s = sum(scenario.rates_per_s)
    first_ns = settings.lead_in_ns(is_real_time=False)
    for field, time_ns, most in (
        ("interval", settings.interval_ns, MOST_FLOWS),
        ("lead_in", first_ns, MOST_FIRST_FLOWS),
    ):
        flows = rate_per_s * time_ns * 1e-9
        if not flows <= most:
            allowed = f"a scenario with at most {most} of them; give it a lower rate or less time"
            raise ConfigError(field, f"{flows:.3g} flows", allowed)


class BalancingTask:
    """Weights of the servers, decided by balancers; the same for every copy of a pool.

    Shapes: M front ends (a virtual address at a balancer) are controlled by A agents, each by one;
    N servers.

    Args:
        settings: The arguments of the environment.
        balancers: Numbers of the controlled balancers; None for all.
        vip: Name or number of the address whose front ends are controlled there; None for all.
        n_agents: One, or None for as many as front ends are controlled.
        others: Rule of the front ends that are not controlled.
        decides: Some of `dcgym.tasks.balancing.service.DECISIONS`.

    Attributes:
        scenario: The pool.
        rules: Rule of each front end.
        lead_in_rules: The same with SED in the place of the controlled ones.
        weight_map: What one balancer's part of an action means.
        service: What the part of an action about servers in service means; None without it.
        action_map: What an agent's action means.
        observation: What one balancer observes.
        rate_per_s: Flows a second that each controlled front end gets on average, (M,).

    Raises:
        ConfigError: An argument is not allowed.
    """

    family = "balancing"
    options: tuple[str, ...] = ()

    def __init__(
        self,
        settings: PoolSettings,
        balancers: Sequence[int] | None = None,
        vip: str | int | None = None,
        n_agents: int | None = None,
        others: str = "sed",
        decides: Sequence[str] = ("weights",),
    ) -> None:
        self.settings = settings
        self.scenario = make_scenario(settings.scenario)
        _check_flows(self.scenario, settings)
        n_frontends, self.n_servers = self.scenario.n_frontends, self.scenario.n_servers
        self.controlled = frontend_numbers(self.scenario.pool, balancers, vip)
        count = len(self.controlled)
        self.n_agents = count if n_agents is None else n_agents
        self.frontends_per_agent = count // self.n_agents
        pool = self.scenario.pool
        self.agents = tuple(
            f"balancer_{frontend_name(pool, i, '_')}" for i in self.controlled[: self.n_agents]
        )
        self.rules = tuple(
            settings.rule if i in self.controlled else others for i in range(n_frontends)
        )
        # Before an episode, and beside it in the shadow that `gain_over_sed` compares with.
        self.lead_in_rules = tuple(
            "sed" if i in self.controlled else others for i in range(n_frontends)
        )
        self.interval_ns = settings.interval_ns
        self.rate_per_s = frontend_rates_per_s(self.scenario)[list(self.controlled)]
        self.weight_map: WeightMap = make_weight_map(settings.action, self.n_servers)
        weights = make_weight_map(settings.action, self.n_servers * self.frontends_per_agent)
        self.service = ServiceMap(weights, pool.members, decides) if "eligible" in decides else None
        self.action_map: WeightMap = weights if self.service is None else self.service
        groups = self.scenario.server_groups
        # Policies ask for these at every step.
        self._configured_weights = self._of_agent([one.configured_weight for one in groups])
        self._workers = self._of_agent([one.workers for one in groups])
        self.observation = BalancerObservation(self.n_servers, settings.features)
        self.action_space: gym.Space[npt.NDArray[np.generic]] = self.action_map.space
        self.observation_space = self._observation_space()

    def _observation_space(self) -> gym.spaces.Box:
        one, times = self.observation.space, self.frontends_per_agent
        serving = np.ones(0 if self.service is None else self.n_servers, np.float32)
        low = np.append(np.tile(one.low, times), -serving)
        return gym.spaces.Box(low, np.append(np.tile(one.high, times), serving), dtype=np.float32)

    def __deepcopy__(self, memo: dict[int, object]) -> BalancingTask:
        """Return the task: it holds no state of an episode."""
        return self

    def _of_agent(self, values: Sequence[float]) -> FloatArray:
        """Repeat what belongs to the servers, once per front end of an agent."""
        return np.tile(np.array(values, np.float64), self.frontends_per_agent)

    @property
    def configured_weights(self) -> FloatArray:
        """The weight of each server as its operator sees it, once per front end of an agent."""
        return self._configured_weights.copy()

    @property
    def workers(self) -> FloatArray:
        """The processors of each server, once per front end of an agent."""
        return self._workers.copy()

    @property
    def rows(self) -> RowLayout | None:
        """Where the row of each server is; None where an agent sees or decides more than one."""
        is_row = self.frontends_per_agent == 1 and self.service is None
        return self.observation.rows if is_row else None

    @property
    def observation_labels(self) -> list[str]:
        """Name of each position of an observation, with its front end where there are several."""
        labels = self.observation.labels
        if self.frontends_per_agent > 1:
            names = [frontend_name(self.scenario.pool, number) for number in self.controlled]
            labels = [f"balancer{name}.{label}" for name in names for label in labels]
        return labels if self.service is None else labels + self.service.labels

    def make_reward(self, has_shadow: bool) -> Reward[LoadInputs, FloatArray]:
        """Return terms and weights.

        Args:
            has_shadow: Whether the backend can run a second copy on the same flows.

        Raises:
            ConfigError: Unknown term, or one that needs a shadow.
        """
        default = GAIN_OVER_SED if has_shadow else LOG_ONGOING
        spec = default if self.settings.reward is None else self.settings.reward
        reward: Reward[LoadInputs, FloatArray] = Reward(spec, BALANCING_REWARDS)
        if GAIN_OVER_SED in reward.weights and not has_shadow:
            allowed = f"{LOG_ONGOING}, or a backend that can run a shadow, such as simulation"
            raise ConfigError("reward", GAIN_OVER_SED, allowed)
        return reward

    def draw_seed(self, generator: np.random.Generator) -> int:
        """Draw the seed of an episode's arrivals.

        Args:
            generator: Source of chance.
        """
        return int(generator.integers(SEED_LIMIT))


# Long because its docstring is the page of the environment.
def load_balancing(settings: LoadBalancingSettings) -> BalancingTask:
    """Weigh the servers of one layer-4 balancer so that flows finish soon.

    ## Description
    Clients open flows to one virtual address; an edge router spreads them over M balancers, and
    each balancer picks one of N servers per flow. The answer goes straight to the client (direct
    server return): a balancer sees its own part of the flows, one direction, and no task sizes.
    Once per control interval the agent sets the weights ``w`` of one balancer; per flow the data
    plane then takes the server with the least ``(q + 1) / w``, ``q`` being the flows it tracks
    there. The other balancers follow a fixed rule. After Yao, "Autonomous Service Management in the
    Cloud", 2023, chapters 3, 6 and 7.

    Where the scenario has several virtual addresses (`Vip`), each has servers and applications of
    its own, and every balancer has weights and counters for each: a front end. The agent sets those
    of the address ``vip`` at its balancer. What it sees is about that address. Servers that do not
    answer it get none of its flows whatever their weights are, and the feature ``eligible`` is 0.

    ## Action Space
    One weight per server; only their ratios count. With ``action="continuous"``:
    `Box(-1, 1, (N,))`, the weight being ``8**a``, 1/8 to 8. With ``action="discrete"``:
    `MultiDiscrete([3] * N)`, the index of one of the weights 1.0, 1.5 and 2.0, as in the published
    agents. Rules with weights of their own, such as ``sed``, ignore the action.

    ## Observation Space
    `Box(12 N + 5)`, float32: what the balancer measured itself. Per server the flows it tracks and
    five reductions each of sampled flow durations and completion times, then five of the times
    between new flows, all squashed to 0..1 by ``x / (x + scale)``, then the last action, -1 to 1.
    With another list of ``features`` (`dcgym.tasks.balancing.features`) those of servers stand in
    its order, server by server; then those of the balancer, and the last action.

    | position | meaning | scale |
    |---|---|---|
    | 11 j | flows tracked on server j | 8 |
    | 11 j + 1 to 11 j + 5 | durations of ongoing flows on server j | 1 s |
    | 11 j + 6 to 11 j + 10 | completion times of flows on server j | 1 s |
    | 11 N to 11 N + 4 | times between two new flows | 0.1 s |
    | 11 N + 5 to 12 N + 4 | the last action | |

    The five reductions are the mean, 90th percentile, standard deviation, decayed mean and decayed
    90th percentile (0.9 per second of a sample's age). `env.unwrapped.observation_labels`
    names each position.

    ## Rewards
    A weighted sum of the terms in `dcgym.tasks.balancing.rewards`, at the end of the interval after
    the action. The default, `gain_over_sed`, compares with a shadow: the same pool, the same flows,
    but SED with the configured weights in the place of the agent. It is the flows that the shadow's
    balancer has under way, minus the agent's own, over the flows a second that a balancer gets: by
    Little's law the seconds that a flow finishes sooner than under SED, 0 for SED itself. Where
    the backend cannot run a shadow (``emulation``) it is ``log_ongoing``, minus the logarithm of
    one plus the flows under way.

    ## Starting State
    A pool at work: ``lead_in`` under SED, by default 30 s (nothing where time is real), then one
    interval with equal weights, so that the first observation is measured. Times of the scenario
    count from this observation: events, recorded arrivals, the phase of periodic ones, ``warm_up``,
    and the times of `flow_records`, which leave out the flows that began before it.
    The same seed gives every policy the same arrivals and task sizes, on every machine, in every
    number of environments side by side.

    ## Episode End
    Traffic does not end, so nothing terminates. Episodes are truncated after ``max_steps``, or
    Gymnasium's `max_episode_steps`, 240 steps (60 s) by default.

    ## Information
    In the simulation action latency, observation age and overrun are 0. The emulation's balancers
    show their counters every 10 ms.

    | key | meaning |
    |---|---|
    | reward_terms | each term times its weight; they add up to the reward |
    | metrics | of the interval: flows, completed; ended_fct_us_mean of those completed, else NaN |
    | metrics | at its end: queue, jain, overprovision, utilisation; servers out_of_service |
    | metrics | since the episode began: untracked, rejected, pcc_violations |
    | servers | what the balancer measured, in plain units, for slow loops such as HLB |
    | weights | the weights in force |
    | times of a step | those of `dcgym.envs.session.STEP_TIMES` |

    ## Arguments
    | name | meaning |
    |---|---|
    | scenario | name, mapping (``{"preset": "yao-sim-8", "load": 0.9}``), file, or `Scenario`; |
    | | by default yao-sim-8 at a load of 0.85, the configured weights swapped |
    | backend | "simulation"; "emulation": BPF balancers and HTTP servers in real time; a function |
    | | that makes a twin of a scenario and a number of pools |
    | interval | control interval, such as "250ms" |
    | features | what is observed, in this order; ``d_`` before a name shows its change |
    | reward | a term, a list of terms, or a mapping term to weight; None for the default |
    | action | "continuous" or "discrete" |
    | rule | rule of the controlled balancer; "weighted" uses the action |
    | others | rule of the other balancers |
    | balancer | number of the controlled balancer |
    | vip | name of the virtual address whose weights are set; None for the first |
    | record_limit | finished flows kept for `flow_records` |
    | lead_in | time under SED before an episode; None for 30 s, or 0 where time is real |
    | drain | time after the last step in which its flows come to their end, for `flow_records`; |
    | | None for 0 |
    | paths | "own": each copy has its own flows; "shared": copies that begin together share them |
    | render_mode | None or "rgb_array": flows and the weights (extra `video`) |
    | randomise | distribution of each field that is drawn at `reset`, by its path; or None |
    | max_steps | steps until truncation, or None |
    | info | "full"; "flat": one level of floats, such as ``metrics/queue``; or "none" |

    ## Version History
    - v1: default reward and scenario; episodes begin with a pool at work; `fct_us_mean` is measured
    - v0: first version

    Args:
        settings: The arguments above.
    """
    vip = 0 if settings.vip is None else settings.vip
    return BalancingTask(settings, (settings.balancer,), vip, others=settings.others)


def each_balancer(settings: PoolSettings) -> BalancingTask:
    """One agent a balancer: each sees its own flows, and all meet in the same servers' queues.

    Agents are `balancer_0` to `balancer_{M-1}`, or `balancer_0_NAME` and so on, one for each
    virtual address, where there are several. Spaces, rewards and infos of an agent are those of
    `dcgym/LoadBalancing-v1`, whose arguments this takes without ``others``, ``balancer`` and
    ``vip``; flows that start within ``warm_up`` are left out of the records. All agents act at the
    same time; no message passes between them. Episodes never terminate.

    ``info`` is "flat" unless told otherwise: libraries of several agents store infos as tensors.
    Policies with slow loops, such as HLB, need ``info="full"``.

    `state()` is for centralised critics: the observations of all agents, one after the other, then
    ``q / (q + 8)`` of the flows q at each server, which no balancer sees. `state_space` is its
    space, and `state_labels` names each position.

    Args:
        settings: The arguments of the environment.
    """
    return BalancingTask(settings)


# Long because its docstring is the page of the environment.
def central_load_balancing(settings: CentralLoadBalancingSettings) -> BalancingTask:
    """Weigh the servers of all balancers at once: one agent that sees what all of them see.

    ## Description
    The system of `dcgym/LoadBalancing-v1` with one agent over all M balancers: the centralised
    learner that the multi-agent studies compare with. It needs what they avoid, a channel
    from every balancer to the agent.

    ## Action Space
    One weight per balancer and server, balancer by balancer: `Box(-1, 1, (M * N,))` or
    `MultiDiscrete([3] * (M * N))`, with the scales of `dcgym/LoadBalancing-v1`. With V virtual
    addresses each balancer counts V times, once for each, here and below.

    With ``decides=("weights", "eligible")`` one number per server follows, with ``"eligible"``
    alone it is all there is: which servers are in service, for all balancers. With
    ``action="continuous"`` 0 or more of -1 to 1 means yes, with "discrete" 1 of 0 and 1. The
    others take no new flow and serve those that they have. An action that leaves none of a virtual
    address in service leaves all of it. What an event has drained or removed stays away. Without
    weights to decide, rules with learned weights have equal ones.

    ## Observation Space
    `Box(M * (12 N + 5))`, float32, or of another size with other ``features``: the observations of
    `dcgym/LoadBalancing-v1`, one balancer after the other. Where ``decides`` has "eligible", the
    last action about each server follows, N numbers from -1 to 1.

    ## Rewards
    The mean over the balancers of the reward that each would get. The term `in_service` says what
    servers cost: minus the part of them that take new flows.

    ## Starting State
    As `dcgym/LoadBalancing-v1`.

    ## Episode End
    As `dcgym/LoadBalancing-v1`.

    ## Information
    As `dcgym/LoadBalancing-v1`; ``servers`` and ``weights`` hold a row per balancer and server.

    ## Arguments
    Those of `dcgym/LoadBalancing-v1` without ``others``, ``balancer`` and ``vip``, and
    ``decides``: "weights", "eligible" or both. Flows that start within ``warm_up`` are left out of
    `flow_records`.

    ## Version History
    - v1: default reward and scenario; episodes begin with a pool at work; `fct_us_mean` is measured
    - v0: first version

    Args:
        settings: The arguments above.
    """
    return BalancingTask(settings, n_agents=1, decides=settings.decides)
