"""A task on the traffic of one network: what runs there, whatever is decided about it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.config import check_keys
from dcgym.errors import needs_reset
from dcgym.tasks.network.activity import Activity
from dcgym.tasks.network.arguments import read_congestion_control
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.events import make_events
from dcgym.tasks.network.settings import TrafficSettings
from dcgym.topologies import Topology
from dcgym.topologies.routing import route_table
from dcgym.traffic import Plan, make_plan
from dcgym.traffic.plans.applications import AppPlan

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["TrafficTask"]

SEED_LIMIT = 2**31


class TrafficTask:
    """The traffic of one copy of a network; of an episode it holds the plan and nothing else.

    Args:
        settings: The arguments of the environment.
        topology: The network.
        marks: Whether its switches mark.
        family: Family of the policies that act here.

    Attributes:
        marks: Whether the switches mark.
        plan: The traffic of the episode that runs, or of the first one.
        activity: Tells which of its flows are active; None before the first episode.
        deliverable_bps: What the plan's flows get together; infinite where no reward asks for it.

    Raises:
        ConfigError: An argument is not allowed.
    """

    agents: tuple[str, ...]
    action_space: gym.Space[object]
    observation_space: gym.spaces.Box
    observation_labels: list[str]
    """Name of each position of an agent's observation."""
    options = ("traffic",)
    """Names that `reset` understands."""
    rows = None
    deliverable_bps = math.inf

    def __init__(
        self, settings: TrafficSettings, topology: Topology, marks: bool, *, family: str
    ) -> None:
        self.settings, self.topology, self.family = settings, topology, family
        self.marks, self.interval_ns = marks, settings.interval_ns
        self.traffic = settings.traffic
        # A network that is too large is refused before its traffic is drawn.
        route_table(topology)
        self.plan: Plan = make_plan(self.traffic, topology, 0)
        self.events = make_events(settings.events, topology)
        self._congestion_control = read_congestion_control(settings.congestion_control, topology)
        self.activity: Activity | None = None

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

    def draw_seed(self, generator: np.random.Generator) -> int:
        """Draw the seed of an episode's plan."""
        return int(generator.integers(SEED_LIMIT))

    def begin(
        self, seed: int, options: Mapping[str, Any], check: Callable[[Plan], None]
    ) -> NetworkEpisode:
        """Return a new episode.

        Args:
            seed: Seed of its plan.
            options: ``traffic`` replaces the traffic from now on.
            check: Refuses a plan that the backend cannot run.

        Raises:
            ConfigError: Unknown option, or traffic that does not fit.
        """
        check_keys(options, self.options, "options")
        before = self.traffic, self.plan
        self.traffic = options.get("traffic", self.traffic)
        try:
            self.plan = make_plan(self.traffic, self.topology, seed)
            check(self.plan)
            self.take(self.plan)
            if isinstance(self.plan, AppPlan):
                self.plan.check_machine()
        except BaseException:
            # What is refused once must not be refused for ever.
            self.traffic, self.plan = before
            raise
        return NetworkEpisode(
            self.plan, seed, self._congestion_control, self.marks, tuple(self.events)
        )

    def take(self, plan: Plan) -> None:
        """Work out what an episode has to know of its plan.

        Args:
            plan: The plan.

        Raises:
            ConfigError: It does not fit.
        """
