"""Environments by id: what each is told, what it decides, and where it runs.

An environment that is registered here has every form: `gym.make`, `gym.make_vec`,
`dcgym.parallel_env` where it has several agents, and RLlib's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import partial
from typing import Any, TypeVar

import numpy as np

from dcgym.backends.registry import DEVICE_POOLS, NETWORKS, PLACEMENTS, POOLS, Maker
from dcgym.config import check_arguments
from dcgym.envs.backends import read_backend, resolved_backend, topology_of, with_options
from dcgym.envs.bindings.accelerators import AcceleratorBinding
from dcgym.envs.bindings.assignment import AssignmentBinding
from dcgym.envs.bindings.base import AnyBinding, BoundTask
from dcgym.envs.bindings.dips import DipEpisode
from dcgym.envs.bindings.episodes import Episode, EpisodeBinding, EpisodeTask
from dcgym.envs.bindings.flows import FlowBinding
from dcgym.envs.bindings.migration import MigrationEpisode
from dcgym.envs.bindings.network import NetworkBinding
from dcgym.envs.bindings.placement import PlacementEpisode
from dcgym.envs.bindings.pool import PoolBinding
from dcgym.envs.bindings.traffic import make_tasks
from dcgym.envs.drawn import LOOKS, LOOKS_SEED, drawn_system
from dcgym.envs.system import System
from dcgym.errors import ConfigError
from dcgym.registry import Registry
from dcgym.tasks.accelerators.settings import AcceleratorBalancingSettings
from dcgym.tasks.accelerators.task import ACCELERATOR_LAYOUT, accelerator_balancing
from dcgym.tasks.assignment.settings import JobAssignmentSettings
from dcgym.tasks.assignment.task import ASSIGNMENT_LAYOUT, job_assignment
from dcgym.tasks.balancing.layout import BALANCING_LAYOUT
from dcgym.tasks.balancing.settings import (
    CentralLoadBalancingSettings,
    LoadBalancingSettings,
    PoolSettings,
)
from dcgym.tasks.balancing.task import (
    BalancingTask,
    central_load_balancing,
    each_balancer,
    load_balancing,
)
from dcgym.tasks.common.draws import Draws
from dcgym.tasks.common.layout import Layout
from dcgym.tasks.common.settings import TaskSettings
from dcgym.tasks.congestion.task import CONGESTION_LAYOUT, CongestionSettings, congestion_control
from dcgym.tasks.flows.task import FLOWS_LAYOUT, FlowSettings, FlowTask, each_flow, flow_control
from dcgym.tasks.joint.task import JointSettings, joint
from dcgym.tasks.network.settings import TrafficSettings
from dcgym.tasks.network.task import NetworkTask
from dcgym.tasks.network.traffic import TrafficTask
from dcgym.tasks.paths.task import PATHS_LAYOUT, PathSettings, path_balancing
from dcgym.tasks.placement.dips import DIP_LAYOUT, dip_placement
from dcgym.tasks.placement.migration import MIGRATION_LAYOUT, vip_migration
from dcgym.tasks.placement.settings import (
    DipPlacementSettings,
    VipMigrationSettings,
    VipPlacementSettings,
)
from dcgym.tasks.placement.task import PLACEMENT_LAYOUT, vip_placement
from dcgym.topologies import Topology

__all__ = [
    "ENVIRONMENTS",
    "AgentForm",
    "Environment",
    "flow_form",
    "network_form",
    "pool_form",
    "task_form",
]

Settings = TypeVar("Settings", bound=TaskSettings)
Traffic = TypeVar("Traffic", bound=TrafficSettings)
Task = TypeVar("Task", bound=BoundTask)
Carrying = TypeVar("Carrying", bound=TrafficTask)
Placing = TypeVar("Placing", bound=EpisodeTask)


@dataclass(frozen=True)
class AgentForm:
    """One way to divide a task among agents.

    Attributes:
        settings: Frozen dataclass of its arguments.
        make: Binds copies of the task to a backend, from its arguments and the number of copies.
        page: What it decides, sees and is rewarded for, in Markdown.
        makers: The backends that it can be given by name.
        task: Makes the task of one copy from its arguments, without a backend.
        recorder: What suites record of its runs, by a name of `dcgym.suites.recorders.RECORDERS`.
    """

    settings: type[TaskSettings]
    make: Callable[[Any, int], System]
    page: str
    makers: Registry[Maker[Any, Any]]
    task: Callable[[Any], BoundTask]
    recorder: str = "plain"

    @property
    def arguments(self) -> list[str]:
        """Names of its arguments, the options of the backends among them."""
        return sorted(self.defaults)

    @property
    def defaults(self) -> dict[str, object]:
        """What each argument is where nobody says it; `MISSING` for one that has to be said."""
        found: dict[str, object] = {}
        options = [one for maker in self.makers.values() for one in fields(maker.options)]
        for one in (*options, *fields(self.settings)):
            made = one.default_factory
            found[one.name] = one.default if made is MISSING else made()
        return found

    def read(self, arguments: Mapping[str, object]) -> TaskSettings:
        """Return the settings of an environment.

        Options of backends may stand beside the argument ``backend``, and mean what they mean in
        it: ``switch="ovs"`` is ``backend={"name": "emulation", "switch": "ovs"}``. One of another
        backend may stand there too, where it asks for nothing.

        Args:
            arguments: The arguments by name.

        Raises:
            ConfigError: A value is not allowed.
            UnexpectedArgument: There is no such argument.
        """
        check_arguments(arguments, self.arguments)
        own, options = self._divided(arguments)
        if options:
            backend = own.get("backend", self.defaults["backend"])
            own["backend"] = with_options(backend, options, self.makers)
        return self.settings(**own)

    def resolved(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Return arguments with those left at their defaults, and a named backend's options in it.

        Args:
            arguments: The arguments by name; others stay as they are.

        Raises:
            ConfigError: An option of the backend is not allowed.
        """
        own, options = self._divided({**self.defaults, **arguments})
        said = {name: value for name, value in options.items() if name in arguments}
        return {**own, "backend": resolved_backend(own["backend"], said, self.makers)}

    def _divided(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, object]]:
        """Return the arguments of the settings and others, and the options of backends."""
        known = {name for maker in self.makers.values() for name in maker.options.names()}
        known -= {one.name for one in fields(self.settings)}
        own = {name: value for name, value in arguments.items() if name not in known}
        return own, {name: value for name, value in arguments.items() if name in known}

    @property
    def summary(self) -> str:
        """First line of the page."""
        return self.page.strip().split("\n", 1)[0]

    @property
    def default_maker(self) -> Maker[Any, Any] | None:
        """The backend where nobody names one; None where that has no name."""
        name = self.settings.__dataclass_fields__["backend"].default
        return self.makers.get(name) if isinstance(name, str) else None

    def agent_names(self, settings: TaskSettings) -> tuple[str, ...]:
        """Return the names of the agents; no backend is made.

        Where ``randomise`` draws the settings, they are those of any draw that is possible.

        Args:
            settings: The arguments.

        Raises:
            ConfigError: An argument is not allowed, or no draw that was looked at is possible.
        """
        if settings.randomise is None:
            return tuple(self.task(settings).agents)
        draws = Draws(settings.randomise, settings.drawn_fields)
        generator = np.random.default_rng(LOOKS_SEED)
        for drawn in (draws.largest(), *(draws.draw(generator) for _ in range(LOOKS))):
            try:
                return tuple(self.task(settings.drawn(drawn)).agents)
            except ConfigError as error:
                refusal = error
        raise refusal


@dataclass(frozen=True)
class Environment:
    """An environment.

    Attributes:
        id: Id, such as "dcgym/CongestionControl-v2".
        family: Family of the policies that act in it.
        single: The form of one agent.
        agents: The form of several agents, None where there is none.
        layout: What tables and reports show of its runs.
    """

    id: str
    family: str
    single: AgentForm
    agents: AgentForm | None = None
    layout: Layout = field(default_factory=Layout)


ENVIRONMENTS: Registry[Environment] = Registry(
    "environments", "env", re.compile(r"[\w.-]+/[\w.-]+-v\d+")
)
"""The environments, by id."""


def network_form(
    settings: type[Traffic], task: Callable[[Traffic, Topology | None], NetworkTask]
) -> AgentForm:
    """Return the form of a task on a network.

    Args:
        settings: Frozen dataclass of its arguments.
        task: Makes the task of one copy, of the settings and of a network that is given, or None.
            Its docstring is the page.
    """
    return _on_networks(settings, task, NetworkBinding)


def flow_form(task: Callable[[FlowSettings, Topology | None], FlowTask]) -> AgentForm:
    """Return the form of a task on the flows of a network.

    Args:
        task: Makes the task of one copy, of the settings and of a network that is given, or None.
            Its docstring is the page.
    """
    return _on_networks(FlowSettings, task, FlowBinding)


def pool_form(settings: type[Settings], task: Callable[[Settings], BalancingTask]) -> AgentForm:
    """Return the form of a task on a server pool.

    Args:
        settings: Frozen dataclass of its arguments.
        task: Makes the task of the settings. Its docstring is the page.
    """
    return task_form(settings, task, PoolBinding, POOLS, "pool")


def _on_networks(
    settings: type[Traffic],
    task: Callable[[Traffic, Topology | None], Carrying],
    kind: Callable[[list[Carrying], object], AnyBinding],
) -> AgentForm:
    def bind(given: Traffic, n_envs: int) -> AnyBinding:
        return kind(*make_tasks(task, given, n_envs))

    # On the network of a backend that exists already.
    def alone(given: Traffic) -> Carrying:
        return task(given, topology_of(read_backend(given.backend)))

    make = partial(drawn_system, bind)
    return AgentForm(settings, make, task.__doc__ or "", NETWORKS, alone, "network")


def task_form(
    settings: type[Settings],
    task: Callable[[Settings], Task],
    kind: Callable[[Task, object, int], AnyBinding],
    makers: Registry[Maker[Any, Any]],
    recorder: str = "plain",
) -> AgentForm:
    """Return the form of a task with a binding, whose settings `randomise` may draw.

    Args:
        settings: Frozen dataclass of its arguments.
        task: Makes the task of the settings. Its docstring is the page.
        kind: Makes the binding of a task, of what `read_backend` makes of the settings' backend,
            and of a number of copies.
        makers: The backends that have names.
        recorder: What suites record of its runs, by a name of `dcgym.suites.recorders.RECORDERS`.
    """

    def bind(given: Settings, n_envs: int) -> AnyBinding:
        return kind(task(given), read_backend(given.backend), n_envs)

    make = partial(drawn_system, bind)
    return AgentForm(settings, make, task.__doc__ or "", makers, task, recorder)


def _placement_form(
    settings: type[Settings],
    task: Callable[[Settings], Placing],
    episode: type[Episode[Placing]],
    recorder: str,
) -> AgentForm:
    """Return the form of a task of episodes over a placement model."""
    return task_form(settings, task, partial(EpisodeBinding, episode), PLACEMENTS, recorder)


for _environment in (
    Environment(
        "dcgym/CongestionControl-v2",
        "congestion",
        network_form(CongestionSettings, congestion_control),
        layout=CONGESTION_LAYOUT,
    ),
    Environment(
        "dcgym/PathBalancing-v2",
        "paths",
        network_form(PathSettings, path_balancing),
        layout=PATHS_LAYOUT,
    ),
    Environment(
        "dcgym/FlowControl-v1",
        "flows",
        flow_form(flow_control),
        flow_form(each_flow),
        layout=FLOWS_LAYOUT,
    ),
    Environment("dcgym/Joint-v2", "joint", network_form(JointSettings, joint), layout=PATHS_LAYOUT),
    Environment(
        "dcgym/LoadBalancing-v1",
        "balancing",
        pool_form(LoadBalancingSettings, load_balancing),
        pool_form(PoolSettings, each_balancer),
        layout=BALANCING_LAYOUT,
    ),
    Environment(
        "dcgym/CentralLoadBalancing-v1",
        "balancing",
        pool_form(CentralLoadBalancingSettings, central_load_balancing),
        layout=BALANCING_LAYOUT,
    ),
    Environment(
        "dcgym/JobAssignment-v0",
        "assignment",
        task_form(JobAssignmentSettings, job_assignment, AssignmentBinding, POOLS, "jobs"),
        layout=ASSIGNMENT_LAYOUT,
    ),
    Environment(
        "dcgym/AcceleratorBalancing-v0",
        "accelerators",
        task_form(
            AcceleratorBalancingSettings,
            accelerator_balancing,
            AcceleratorBinding,
            DEVICE_POOLS,
            "devices",
        ),
        layout=ACCELERATOR_LAYOUT,
    ),
    Environment(
        "dcgym/VipPlacement-v0",
        "placement",
        _placement_form(VipPlacementSettings, vip_placement, PlacementEpisode, "placement"),
        layout=PLACEMENT_LAYOUT,
    ),
    Environment(
        "dcgym/DipPlacement-v0",
        "dips",
        _placement_form(DipPlacementSettings, dip_placement, DipEpisode, "dips"),
        layout=DIP_LAYOUT,
    ),
    Environment(
        "dcgym/VipMigration-v0",
        "migration",
        _placement_form(VipMigrationSettings, vip_migration, MigrationEpisode, "migration"),
        layout=MIGRATION_LAYOUT,
    ),
):
    ENVIRONMENTS.add(_environment.id, _environment, _environment.single.summary)
