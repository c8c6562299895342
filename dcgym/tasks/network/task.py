"""A task on one network: what its decisions mean, what is observed, and what is rewarded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.config import check_keys
from dcgym.errors import ConfigError
from dcgym.tasks.common.actions import read_actions
from dcgym.tasks.common.rewards import Reward
from dcgym.tasks.network.decision import Decision, DecisionMap
from dcgym.tasks.network.features import FeatureSet, check_feature_names
from dcgym.tasks.network.max_min import deliverable_bps
from dcgym.tasks.network.meter import Measured, joined
from dcgym.tasks.network.probes import Probes
from dcgym.tasks.network.protocol import NetworkCommands
from dcgym.tasks.network.rewards import DELIVERY, NETWORK_REWARDS, RewardInputs
from dcgym.tasks.network.settings import NetworkSettings
from dcgym.tasks.network.traffic import TrafficTask
from dcgym.tasks.network.uplinks import Uplinks
from dcgym.topologies import Topology
from dcgym.traffic import Plan

__all__ = ["NetworkTask"]

FloatArray = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

AGENT = "network"


class NetworkTask(TrafficTask):
    """Some decisions of one agent about one copy of a network.

    Args:
        settings: The arguments of the environment.
        topology: The network.
        marks: Whether its switches mark.
        decisions: What an action consists of; a single one needs no `Dict` around it.
        family: Family of the policies that act here.
        observed_ports: Indexes of the switch ports whose features are observed; all if None.
        is_flat: Several decisions are one `Box`, in their order, instead of a `Dict`.

    Attributes:
        action_space: A `Box`, or a `Dict` where there are several decisions and `is_flat` is not.
        features: The observation.
        reward: Terms and weights.

    Raises:
        ConfigError: An argument is not allowed.
    """

    agents = (AGENT,)

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
        super().__init__(settings, topology, marks, family=family)
        self.settings: NetworkSettings = settings
        self.decisions, self.is_flat = tuple(decisions), is_flat
        sizes = [len(decision.initial) for decision in self.decisions]
        self._cuts = np.cumsum(sizes)[:-1].tolist()
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
        # Such as `port0.backlog` or `host3.rate`.
        self.observation_labels = self.features.labels
        self._host_rates_bps = np.array([port.rate_bps for port in hosts], np.float64)
        # Where the default reward is the only term, its weight.
        weights = self.reward.weights
        self._delivery_weight = weights[DELIVERY] if list(weights) == [DELIVERY] else None
        self._pairs: dict[tuple[str, str], int] | None = None

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

    def take(self, plan: Plan) -> None:
        """Work out what the plan's flows get together, where the reward asks for it.

        Args:
            plan: The plan.
        """
        if DELIVERY not in self.reward.weights:
            return
        pairs = plan.pair_counts()
        if pairs != self._pairs:
            # Filling a large network takes longer than its reset, and most plans keep their pairs.
            self._pairs = pairs
            self.deliverable_bps = deliverable_bps(self.topology, plan)

    def read(self, actions: Sequence[object] | npt.NDArray[np.generic]) -> list[FloatArray]:
        """Return what actions mean to each decision, 0 to 1 each, (E, n).

        Args:
            actions: A point of the action space for each of E copies; or of each part by name,
                where parts are several.

        Raises:
            ConfigError: One is not of the action space's shape.
        """
        if len(self.decisions) == 1:
            [decision] = self.decisions
            if isinstance(actions, np.ndarray) and actions.shape[1:] == self._shape:
                return [decision.action_map.to_shares(actions)]
            return [decision.action_map.to_shares(read_actions(actions, self._shape))]
        if self.is_flat and not isinstance(actions[0], Mapping):
            values = read_actions(actions, self._shape)
            parts = np.split(values, self._cuts, axis=-1)
        else:
            names = [decision.name for decision in self.decisions]
            found = [check_keys(action, names, "action") for action in actions]
            for action in found:
                if set(action) != set(names):
                    raise ConfigError("action", sorted(action), f"all of {names}")
            parts = [
                read_actions([action[one.name] for action in found], one.action_map.space.shape)
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

    def observe(
        self,
        made: Measured,
        values: Sequence[FloatArray],
        *,
        is_first: bool = False,
        measured: Mask | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return what the agent sees, (E, n).

        Args:
            made: What the intervals led to.
            values: What is in force of each decision, (E, n) each.
            is_first: Whether an episode begins, so that every change is 0.
            measured: As `FeatureSet.observe` takes it.
        """
        return self.features.observe(
            made.interval, joined(values), is_first=is_first, measured=measured
        )

    def terms(self, made: Measured, values: Sequence[FloatArray]) -> Mapping[str, FloatArray]:
        """Return each reward term times its weight, (E,) each.

        Args:
            made: What the intervals led to.
            values: What is in force of each decision, (E, n) each.

        Raises:
            ConfigError: A term returns something else than one number a copy.
        """
        if self._delivery_weight is not None:
            return {DELIVERY: self._delivery_weight * made.totals.delivery}
        decided: dict[str, Callable[[], FloatArray]] = {}
        for decision, own in zip(self.decisions, values, strict=True):
            decided.update(decision.reward_inputs(own, made.interval))
        terms = self.reward.terms(
            RewardInputs(made.interval, made.totals, decided, self._host_rates_bps)
        )
        for name, term in terms.items():
            if np.shape(term) != (len(made.duration_s),):
                allowed = f"one number for each of {len(made.duration_s)} copies: reduce the last"
                raise ConfigError(f"reward.{name}", f"of shape {np.shape(term)}", f"{allowed} axis")
        return terms

    def _make_action_space(self) -> gym.Space[object]:
        spaces: dict[str, gym.Space[object]] = {
            decision.name: decision.action_map.space for decision in self.decisions
        }
        if len(spaces) == 1:
            return next(iter(spaces.values()))
        parts = gym.spaces.Dict(spaces)
        return gym.spaces.flatten_space(parts) if self.is_flat else parts
