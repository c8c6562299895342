"""A task on one network: what its decisions mean, what is observed, and what is rewarded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.config import check_keys
from dcgym.errors import ConfigError
from dcgym.monitors import Snapshot
from dcgym.tasks.common.actions import read_action
from dcgym.tasks.common.layout import Layout
from dcgym.tasks.common.rewards import Reward
from dcgym.tasks.common.statistics import jain_index
from dcgym.tasks.network.arguments import read_congestion_control
from dcgym.tasks.network.decision import Decision, DecisionMap
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.events import check_events, make_events
from dcgym.tasks.network.features import FeatureSet, check_feature_names
from dcgym.tasks.network.interval import Interval, Words, words_of
from dcgym.tasks.network.max_min import deliverable_bps
from dcgym.tasks.network.metrics import HOST_COUNTERS, PORT_COUNTERS, interval_metrics
from dcgym.tasks.network.probes import Probes
from dcgym.tasks.network.rewards import DELIVERY, NETWORK_REWARDS, RewardInputs
from dcgym.tasks.network.settings import NetworkSettings
from dcgym.tasks.network.uplinks import Uplinks
from dcgym.topologies import Topology
from dcgym.traffic import Plan, make_plan
from dcgym.traffic.plans.applications import APPS, AppPlan

__all__ = ["Measured", "NetworkTask"]

FloatArray = npt.NDArray[np.float64]
Observation = npt.NDArray[np.float32]
# The words of ports and of hosts.
PairOfWords = tuple[Words, Words]

AGENT = "network"
SEED_LIMIT = 2**31


class Measured:
    """What one interval led to.

    Attributes:
        interval: What the ports did.
        observation: What the agent sees of it.
        terms: Each reward term times its weight.
        metrics: The interval's metrics, by the names of results.
        info: What the decisions show of themselves.
    """

    __slots__ = ("info", "interval", "metrics", "observation", "terms")

    def __init__(
        self,
        interval: Interval,
        observation: Observation,
        terms: dict[str, float],
        metrics: dict[str, float],
        info: dict[str, npt.NDArray[np.float32]],
    ) -> None:
        self.interval, self.observation = interval, observation
        self.terms, self.metrics, self.info = terms, metrics, info


class NetworkTask:
    """Some decisions on one copy of a network; holds the state of its episode and nothing else.

    Args:
        settings: The arguments of the environment.
        topology: The network.
        marks: Whether its switches mark.
        decisions: What an action consists of; a single one needs no `Dict` around it.
        family: Family of the policies that act here.
        layout: What tables show of its runs.
        observed_ports: Indexes of the switch ports whose features are observed; all if None.
        is_flat: Several decisions are one `Box`, in their order, instead of a `Dict`.

    Attributes:
        marks: Whether the switches mark.
        plan: The traffic of the episode that runs, or of the first one.
        action_space: A `Box`, or a `Dict` where there are several decisions and `is_flat` is not.
        features: The observation.
        reward: Terms and weights.

    Raises:
        ConfigError: An argument is not allowed.
    """

    agents = (AGENT,)
    options = ("traffic",)
    """Names that `reset` understands."""
    rows = None

    def __init__(
        self,
        settings: NetworkSettings,
        topology: Topology,
        marks: bool,
        decisions: Sequence[Decision],
        *,
        family: str,
        layout: Layout,
        observed_ports: Sequence[int] | None = None,
        is_flat: bool = False,
    ) -> None:
        self.settings, self.topology, self.family, self.layout = settings, topology, family, layout
        self.decisions, self.marks, self.is_flat = tuple(decisions), marks, is_flat
        sizes = [len(decision.values) for decision in self.decisions]
        self._cuts = np.cumsum(sizes)[:-1].tolist()
        self.interval_ns = settings.interval_ns
        self.traffic = settings.traffic
        self.plan: Plan = make_plan(self.traffic, topology, 0)
        self.events = make_events(settings.events, topology)
        check_events(self.events, settings.switch)
        self._congestion_control = read_congestion_control(settings.congestion_control, topology)
        features = check_feature_names(settings.features)
        self.probes = Probes(settings.probes, features, topology)
        self.reward: Reward[RewardInputs, float] = Reward(settings.reward, NETWORK_REWARDS)
        self.action_space = self._make_action_space()
        ports, hosts = topology.switch_ports, topology.host_ports
        self.features = FeatureSet(
            settings.features,
            len(ports),
            len(hosts),
            rows=range(len(ports)) if observed_ports is None else observed_ports,
            settings=[label for decision in self.decisions for label in decision.labels],
            n_probes=len(self.probes.pairs),
        )
        self.observation_space = self.features.space
        self._host_rates_bps = np.array([port.rate_bps for port in hosts], np.float64)
        self._all_shares = np.ones(len(hosts))
        self._pairs: dict[tuple[str, str], int] | None = None
        self._deliverable_bps = 0.0
        self._last_words: tuple[Snapshot, PairOfWords] | None = None
        self._port_rates_bps = np.array([port.rate_bps for port in ports], np.float64)
        self._queue_limits_bytes = np.array([port.queue_bytes for port in ports], np.float64)
        self._check_applications()

    @property
    def observation_labels(self) -> list[str]:
        """Name of each position of the observation, such as `port0.backlog` or `host3.rate`."""
        return self.features.labels

    @property
    def action_map(self) -> DecisionMap:
        """What the first decision's action means."""
        return self.decisions[0].action_map

    def decision(self, name: str) -> Decision:
        """Return a decision, for the policies that make it.

        Args:
            name: Its name, such as "rates" or "weights".

        Raises:
            ConfigError: This task has no such decision.
        """
        for one in self.decisions:
            if one.name == name:
                return one
        raise ConfigError("decision", name, [one.name for one in self.decisions])

    @property
    def rate_map(self) -> DecisionMap:
        """What the part of an action that limits hosts means.

        Raises:
            ConfigError: This task limits nobody.
        """
        return self.decision("rates").action_map

    @property
    def weight_map(self) -> DecisionMap:
        """What the part of an action that weighs paths means.

        Raises:
            ConfigError: This task weighs no paths.
        """
        return self.decision("weights").action_map

    @property
    def uplinks(self) -> Uplinks:
        """The ports that the weights are about, in the order of the action.

        Raises:
            ConfigError: This task weighs no paths.
        """
        found = self.decision("weights").uplinks
        assert found is not None
        return found

    @property
    def rate_shares(self) -> FloatArray:
        """Share of each host: 1 where nobody decides about rates."""
        rates = (one.values for one in self.decisions if one.name == "rates")
        return next(rates, self._all_shares)

    def backend_options(self) -> dict[str, object]:
        """Return what a backend that is made by name is told, as far as it has such options."""
        options = self.settings.backend_options()
        if isinstance(self.plan, AppPlan):
            options["generator"] = APPS
        return options | {
            "flow_matrix": self.features.has_flow_matrix,
            "probes": self.probes.pairs,
        }

    def default_options(self) -> dict[str, object]:
        """Return what `backend_options` is where nobody asks for anything."""
        plain = type(self.settings)().backend_options()
        return plain | {"flow_matrix": False, "probes": ()}

    def draw_seed(self, generator: np.random.Generator) -> int:
        """Draw the seed of an episode's plan."""
        return int(generator.integers(SEED_LIMIT))

    def begin(self, seed: int, options: Mapping[str, Any]) -> NetworkEpisode:
        """Return a new episode, whose decisions begin anew.

        Args:
            seed: Seed of its plan.
            options: ``traffic`` replaces the traffic from now on.

        Raises:
            ConfigError: Unknown option, or traffic that does not fit.
        """
        check_keys(options, self.options, "options")
        self.traffic = options.get("traffic", self.traffic)
        self.plan = make_plan(self.traffic, self.topology, seed)
        self._check_applications()
        if DELIVERY in self.reward.weights:
            self._fill()
        if isinstance(self.plan, AppPlan):
            self.plan.check_machine()
        for decision in self.decisions:
            decision.begin()
        return NetworkEpisode(
            self.plan, seed, self._congestion_control, self.marks, tuple(self.events)
        )

    def read(self, action: Any) -> None:
        """Take an action, the parts of which the decisions then hold.

        Args:
            action: A point of the action space; or of each part by name, where parts are several.

        Raises:
            ConfigError: It is not one of the action space's shape.
        """
        if len(self.decisions) == 1:
            self.decisions[0].read(action)
            return
        if self.is_flat and not isinstance(action, Mapping):
            values = read_action(action, self.action_space.shape or ())
            for decision, part in zip(self.decisions, np.split(values, self._cuts), strict=True):
                decision.read(part)
            return
        names = [decision.name for decision in self.decisions]
        if set(check_keys(action, names, "action")) != set(names):
            raise ConfigError("action", sorted(action), f"all of {names}")
        for decision in self.decisions:
            decision.read(action[decision.name])

    def measure(self, before: Snapshot, after: Snapshot, *, is_first: bool = False) -> Measured:
        """Return what lies between two snapshots.

        Args:
            before: State at the beginning of the interval.
            after: State at its end.
            is_first: Whether it is the first of an episode, in which every change is 0.
        """
        (ports_before, hosts_before), (ports_now, hosts_now) = self._words(before, after)
        ports = PORT_COUNTERS.rises(ports_now, ports_before)
        hosts = HOST_COUNTERS.rises(hosts_now, hosts_before)
        interval = self._interval(before, after, ports)
        values = [decision.values for decision in self.decisions]
        settings = values[0] if len(values) == 1 else np.concatenate(values)
        observation = self.features.observe(interval, settings, is_first=is_first)
        metrics = interval_metrics(interval, after.hosts, hosts)
        info: dict[str, npt.NDArray[np.float32]] = {}
        for decision in self.decisions:
            metrics.update(decision.metrics(interval))
            info.update(decision.info(interval))
        delivery: dict[str, float] = {}
        if DELIVERY in self.reward.weights:
            delivery = self._delivery(metrics["goodput_bps"], hosts["tx_bytes"], before, after)
        terms = self.reward.terms(self._reward_inputs(interval, hosts["rx_bytes"], delivery))
        return Measured(interval, observation, terms, metrics, info)

    def _interval(
        self, before: Snapshot, after: Snapshot, port_deltas: dict[str, FloatArray]
    ) -> Interval:
        matrix = after.flow_matrix
        if matrix is not None and before.flow_matrix is not None:
            matrix = np.maximum(matrix - before.flow_matrix, 0)
        return Interval(
            duration_s=(after.time_ns - before.time_ns) / 1e9,
            ports=after.ports,
            port_deltas=port_deltas,
            rates_bps=self._port_rates_bps,
            queue_limits_bytes=self._queue_limits_bytes,
            flow_matrix=matrix,
            probe_shares=self.probes.shares(after.probe_rtt_ns),
        )

    def _words(self, before: Snapshot, after: Snapshot) -> tuple[PairOfWords, PairOfWords]:
        """Return the words of both; an interval mostly begins with the last snapshot seen."""
        last = self._last_words
        then = last[1] if last is not None and last[0] is before else _words_of(before)
        now = then if after is before else _words_of(after)
        self._last_words = after, now
        return then, now

    def _reward_inputs(
        self, interval: Interval, rx_bytes: FloatArray, delivery: Mapping[str, float]
    ) -> RewardInputs:
        capacity_bytes = np.maximum(self._host_rates_bps / 8 * interval.duration_s, 1)
        backlog_bytes = interval.ports["backlog_bytes"].astype(np.float64)
        inputs: dict[str, Any] = {"shares": self._all_shares, **delivery}
        for decision in self.decisions:
            inputs.update(decision.reward_inputs(interval))
        # Neither is negative, and np.clip costs several times as much.
        return RewardInputs(
            queues=np.minimum(backlog_bytes / self._queue_limits_bytes, 1.0),
            goodput_shares=np.minimum(rx_bytes / capacity_bytes, 1.0),
            **inputs,
        )

    def _delivery(
        self, goodput_bps: float, tx_bytes: FloatArray, before: Snapshot, after: Snapshot
    ) -> dict[str, float]:
        """Return what arrived over what could have, and how evenly it was sent."""
        if isinstance(self.plan, AppPlan):
            # Which of them have something to send is the applications' secret.
            is_waiting = tx_bytes > 0
        else:
            # Who begins or ends meanwhile could not have sent for the whole interval.
            is_waiting = (before.hosts["active_flows"] > 0) & (after.hosts["active_flows"] > 0)
        if not is_waiting.any():
            return {"delivered": 1.0, "sender_jain": 1.0}
        could_bps = min(float(self._host_rates_bps[is_waiting].sum()), self._deliverable_bps)
        return {
            "delivered": min(goodput_bps / could_bps, 1.0),
            "sender_jain": float(jain_index(tx_bytes[is_waiting])),
        }

    def _fill(self) -> None:
        """Work out what the plan's flows get together."""
        pairs = self.plan.pair_counts()
        if pairs != self._pairs:
            # Filling a large network takes longer than its reset, and most plans keep their pairs.
            self._pairs = pairs
            self._deliverable_bps = deliverable_bps(self.topology, self.plan)

    def _make_action_space(self) -> gym.Space[Any]:
        spaces: dict[str, gym.Space[Any]] = {
            decision.name: decision.action_map.space for decision in self.decisions
        }
        if len(spaces) == 1:
            return next(iter(spaces.values()))
        parts = gym.spaces.Dict(spaces)
        return gym.spaces.flatten_space(parts) if self.is_flat else parts

    def _check_applications(self) -> None:
        if isinstance(self.plan, AppPlan) and self.settings.generator != "native":
            raise ConfigError("generator", self.settings.generator, "native, beside apps")


def _words_of(snapshot: Snapshot) -> PairOfWords:
    return words_of(snapshot.ports), words_of(snapshot.hosts)
