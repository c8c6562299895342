"""A task on one network: what its decisions mean, what is observed, and what is rewarded."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.config import check_keys
from dcgym.errors import ConfigError, needs_reset
from dcgym.tasks.common.actions import read_actions
from dcgym.tasks.common.rewards import Reward
from dcgym.tasks.network.activity import Activity
from dcgym.tasks.network.arguments import read_congestion_control
from dcgym.tasks.network.decision import Decision, DecisionMap
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.events import check_events, make_events
from dcgym.tasks.network.features import FeatureSet, check_feature_names
from dcgym.tasks.network.max_min import deliverable_bps
from dcgym.tasks.network.probes import Probes
from dcgym.tasks.network.protocol import NetworkCommands
from dcgym.tasks.network.rewards import DELIVERY, NETWORK_REWARDS, RewardInputs
from dcgym.tasks.network.settings import NetworkSettings
from dcgym.tasks.network.uplinks import Uplinks
from dcgym.topologies import Topology
from dcgym.topologies.routing import route_table
from dcgym.traffic import Plan, make_plan
from dcgym.traffic.plans.applications import APPS, AppPlan

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["NetworkTask"]

FloatArray = npt.NDArray[np.float64]

AGENT = "network"
SEED_LIMIT = 2**31


class NetworkTask:
    """Some decisions on one copy of a network; holds the traffic of its episode and nothing else.

    Args:
        settings: The arguments of the environment.
        topology: The network.
        marks: Whether its switches mark.
        decisions: What an action consists of; a single one needs no `Dict` around it.
        family: Family of the policies that act here.
        observed_ports: Indexes of the switch ports whose features are observed; all if None.
        is_flat: Several decisions are one `Box`, in their order, instead of a `Dict`.

    Attributes:
        marks: Whether the switches mark.
        plan: The traffic of the episode that runs, or of the first one.
        activity: Tells which of its flows are active; None before the first episode.
        action_space: A `Box`, or a `Dict` where there are several decisions and `is_flat` is not.
        features: The observation.
        deliverable_bps: What the plan's flows get together; only where a reward asks for it.
        reward: Terms and weights.

    Raises:
        ConfigError: An argument is not allowed.
    """

    agents: tuple[str, ...] = (AGENT,)
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
        observed_ports: Sequence[int] | None = None,
        is_flat: bool = False,
    ) -> None:
        self.settings, self.topology, self.family = settings, topology, family
        self.decisions, self.marks, self.is_flat = tuple(decisions), marks, is_flat
        sizes = [len(decision.initial) for decision in self.decisions]
        self._cuts = np.cumsum(sizes)[:-1].tolist()
        self.interval_ns = settings.interval_ns
        self.traffic = settings.traffic
        # A network that is too large is refused before its traffic is drawn.
        route_table(topology)
        self.plan: Plan = make_plan(self.traffic, topology, 0)
        self.events = make_events(settings.events, topology)
        check_events(self.events, settings.switch)
        self._congestion_control = read_congestion_control(settings.congestion_control, topology)
        features = check_feature_names(settings.features)
        self.probes = Probes(settings.probes, features, topology)
        self.reward: Reward[RewardInputs, FloatArray] = Reward(settings.reward, NETWORK_REWARDS)
        self.action_space = self._make_action_space()
        self._shape = self.action_space.shape or ()
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
        self._pairs: dict[tuple[str, str], int] | None = None
        self.deliverable_bps = 0.0
        self.activity: Activity | None = None
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

    def active_flows(self) -> npt.NDArray[np.bool_]:
        """Return which flows of the plan are active until the next decision, (F,).

        This is the truth (`Activity.flows`), for oracles alone.

        Raises:
            BackendError: No episode has begun.
        """
        if self.activity is None:
            raise needs_reset()
        return self.activity.flows()

    def another(self) -> Self:
        """Return the same task for another copy, whose traffic is its own."""
        return copy.copy(self)

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
        """Return a new episode.

        Args:
            seed: Seed of its plan.
            options: ``traffic`` replaces the traffic from now on.

        Raises:
            ConfigError: Unknown option, or traffic that does not fit.
        """
        check_keys(options, self.options, "options")
        before = self.traffic, self.plan
        self.traffic = options.get("traffic", self.traffic)
        try:
            self.plan = make_plan(self.traffic, self.topology, seed)
            self._check_applications()
            if DELIVERY in self.reward.weights:
                self._fill()
            if isinstance(self.plan, AppPlan):
                self.plan.check_machine()
        except BaseException:
            # What is refused once must not be refused for ever.
            self.traffic, self.plan = before
            raise
        return NetworkEpisode(
            self.plan, seed, self._congestion_control, self.marks, tuple(self.events)
        )

    def read(self, actions: Sequence[Any] | npt.NDArray[Any]) -> list[FloatArray]:
        """Return what actions mean to each decision, 0 to 1 each, (E, n).

        Args:
            actions: A point of the action space for each of E copies; or of each part by name,
                where parts are several.

        Raises:
            ConfigError: One is not of the action space's shape.
        """
        if len(self.decisions) == 1:
            [decision] = self.decisions
            is_read = isinstance(actions, np.ndarray) and actions.shape[1:] == self._shape
            rows = actions if is_read else read_actions(actions, self._shape)
            return [decision.action_map.to_shares(rows)]
        if self.is_flat and not isinstance(actions[0], Mapping):
            values = read_actions(actions, self._shape)
            parts = np.split(values, self._cuts, axis=-1)
        else:
            names = [decision.name for decision in self.decisions]
            for action in actions:
                if set(check_keys(action, names, "action")) != set(names):
                    raise ConfigError("action", sorted(action), f"all of {names}")
            parts = [
                read_actions([action[one.name] for action in actions], one.action_map.space.shape)
                for one in self.decisions
            ]
        pairs = zip(self.decisions, parts, strict=True)
        return [decision.action_map.to_shares(part) for decision, part in pairs]

    def commands(self, values: Sequence[FloatArray]) -> NetworkCommands:
        """Return what the values of each decision ask for.

        Args:
            values: Of each, (E, n).
        """
        commands = self.decisions[0].commands(values[0])
        for decision, own in zip(self.decisions[1:], values[1:], strict=True):
            commands |= decision.commands(own)
        return commands

    def _fill(self) -> None:
        """Work out what the plan's flows get together."""
        pairs = self.plan.pair_counts()
        if pairs != self._pairs:
            # Filling a large network takes longer than its reset, and most plans keep their pairs.
            self._pairs = pairs
            self.deliverable_bps = deliverable_bps(self.topology, self.plan)

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
