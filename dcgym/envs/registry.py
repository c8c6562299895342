"""Environments by id: what each is told, what it decides, and where it runs.

An environment that is registered here has every form: `gym.make`, `gym.make_vec`,
`dcgym.parallel_env` where it has several agents, and RLlib's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from dcgym.backends.device_pools import DEVICE_POOLS, DevicePoolMaker
from dcgym.backends.registry import (
    NETWORKS,
    PLACEMENTS,
    POOLS,
    NetworkMaker,
    PlacementMaker,
    PoolMaker,
)
from dcgym.envs.accelerator_system import accelerator_system
from dcgym.envs.assignment_system import assignment_system
from dcgym.envs.dip_system import dip_system
from dcgym.envs.flow_system import flow_system
from dcgym.envs.migration_system import migration_system
from dcgym.envs.network_system import network_system
from dcgym.envs.placement_system import placement_system
from dcgym.envs.pool_system import pool_system
from dcgym.envs.randomised import drawn_system
from dcgym.envs.registration import register_id
from dcgym.envs.system import System
from dcgym.registry import Registry
from dcgym.tasks.accelerators.settings import AcceleratorBalancingSettings
from dcgym.tasks.accelerators.task import accelerator_balancing
from dcgym.tasks.assignment.settings import JobAssignmentSettings
from dcgym.tasks.assignment.task import job_assignment
from dcgym.tasks.balancing.settings import LoadBalancingSettings, PoolSettings
from dcgym.tasks.balancing.task import central_load_balancing, each_balancer, load_balancing
from dcgym.tasks.common.settings import TaskSettings
from dcgym.tasks.congestion.task import CongestionSettings, congestion_control
from dcgym.tasks.flows.task import FlowSettings, FlowTask, each_flow, flow_control
from dcgym.tasks.joint.task import JointSettings, joint
from dcgym.tasks.network.settings import NetworkSettings
from dcgym.tasks.network.task import NetworkTask
from dcgym.tasks.paths.task import PathSettings, path_balancing
from dcgym.tasks.placement.dips import dip_placement
from dcgym.tasks.placement.migration import vip_migration
from dcgym.tasks.placement.settings import (
    DipPlacementSettings,
    VipMigrationSettings,
    VipPlacementSettings,
)
from dcgym.tasks.placement.task import vip_placement

__all__ = [
    "ENVIRONMENTS",
    "AgentForm",
    "Environment",
    "add_environment",
    "flow_form",
    "network_form",
    "pool_form",
]


@dataclass(frozen=True)
class AgentForm:
    """One way to divide a task among agents.

    Attributes:
        settings: Frozen dataclass of its arguments.
        make: Binds copies of the task to a backend, from its arguments and the number of copies.
        page: What it decides, sees and is rewarded for, in Markdown.
        makers: The backends that it can be given by name.
        task: Makes the task of one copy from its arguments, without a backend: results are read
            where none can run. None takes it from what ``make`` has bound.
    """

    settings: type[TaskSettings]
    make: Callable[[Any, int], System]
    page: str
    makers: (
        Registry[NetworkMaker]
        | Registry[PoolMaker]
        | Registry[DevicePoolMaker]
        | Registry[PlacementMaker]
    )
    task: Callable[[Any], object] | None = None

    @property
    def arguments(self) -> list[str]:
        """Names of its arguments."""
        return sorted(field.name for field in fields(self.settings))

    @property
    def default_maker(self) -> NetworkMaker | PoolMaker | DevicePoolMaker | PlacementMaker | None:
        """The backend where nobody names one; None where that has no name."""
        name = self.settings.__dataclass_fields__["backend"].default
        return self.makers.get(name) if isinstance(name, str) else None


@dataclass(frozen=True)
class Environment:
    """An environment.

    Attributes:
        id: Id, such as "dcgym/CongestionControl-v2".
        family: Family of the policies that act in it.
        single: The form of one agent.
        agents: The form of several agents, None where there is none.
    """

    id: str
    family: str
    single: AgentForm
    agents: AgentForm | None = None


ENVIRONMENTS: Registry[Environment] = Registry(
    "environments", "env", re.compile(r"[\w.-]+/[\w.-]+-v\d+")
)
"""The environments, by id."""


def add_environment(environment: Environment) -> Environment:
    """Make an environment available by its id, in dcgym and in Gymnasium.

    Args:
        environment: The environment.

    Raises:
        ConfigError: The id is malformed or taken.
    """
    ENVIRONMENTS.add(environment.id, environment, _summary(environment.single.page))
    maker = environment.single.default_maker
    is_deterministic = maker is not None and maker.capabilities.deterministic
    register_id(environment.id, is_deterministic)
    return environment


def network_form(
    settings: type[NetworkSettings], task: Callable[[Any, Any], NetworkTask]
) -> AgentForm:
    """Return the form of a task on a network.

    Args:
        settings: Frozen dataclass of its arguments.
        task: Makes the task of one copy, of the settings and of a network that is given, or None.
            Its docstring is the page.
    """
    bound = partial(network_system, task)
    return AgentForm(settings, _drawn(bound), task.__doc__ or "", NETWORKS, partial(_alone, task))


def flow_form(task: Callable[[Any, Any], FlowTask]) -> AgentForm:
    """Return the form of a task on the flows of a network.

    Args:
        task: Makes the task of one copy, of the settings and of a network that is given, or None.
            Its docstring is the page.
    """
    bound = partial(flow_system, task)
    return AgentForm(
        FlowSettings, _drawn(bound), task.__doc__ or "", NETWORKS, partial(_alone, task)
    )


def pool_form(settings: type[PoolSettings], task: Callable[[Any], Any]) -> AgentForm:
    """Return the form of a task on a server pool.

    Args:
        settings: Frozen dataclass of its arguments.
        task: Makes the task of the settings. Its docstring is the page.
    """
    bound = partial(pool_system, task)
    return AgentForm(settings, _drawn(bound), task.__doc__ or "", POOLS, task)


def _alone(task: Callable[[Any, None], object], settings: NetworkSettings) -> object:
    """Return a task on a network, without the network."""
    return task(settings, None)


def _drawn(make: Callable[[Any, int], System]) -> Callable[[Any, int], System]:
    """Return what binds copies of a task too where ``randomise`` draws their settings."""
    return partial(drawn_system, make)


def _summary(page: str) -> str:
    return page.strip().split("\n", 1)[0]


for _environment in (
    Environment(
        "dcgym/CongestionControl-v2",
        "congestion",
        network_form(CongestionSettings, congestion_control),
    ),
    Environment("dcgym/PathBalancing-v2", "paths", network_form(PathSettings, path_balancing)),
    Environment("dcgym/FlowControl-v1", "flows", flow_form(flow_control), flow_form(each_flow)),
    Environment("dcgym/Joint-v2", "joint", network_form(JointSettings, joint)),
    Environment(
        "dcgym/LoadBalancing-v1",
        "balancing",
        pool_form(LoadBalancingSettings, load_balancing),
        pool_form(PoolSettings, each_balancer),
    ),
    Environment(
        "dcgym/CentralLoadBalancing-v1",
        "balancing",
        pool_form(PoolSettings, central_load_balancing),
    ),
    Environment(
        "dcgym/JobAssignment-v0",
        "assignment",
        AgentForm(
            JobAssignmentSettings,
            _drawn(assignment_system),
            job_assignment.__doc__ or "",
            POOLS,
            job_assignment,
        ),
    ),
    Environment(
        "dcgym/AcceleratorBalancing-v0",
        "accelerators",
        AgentForm(
            AcceleratorBalancingSettings,
            _drawn(accelerator_system),
            accelerator_balancing.__doc__ or "",
            DEVICE_POOLS,
            accelerator_balancing,
        ),
    ),
    Environment(
        "dcgym/VipPlacement-v0",
        "placement",
        AgentForm(
            VipPlacementSettings,
            _drawn(placement_system),
            vip_placement.__doc__ or "",
            PLACEMENTS,
            vip_placement,
        ),
    ),
    Environment(
        "dcgym/DipPlacement-v0",
        "dips",
        AgentForm(
            DipPlacementSettings,
            _drawn(dip_system),
            dip_placement.__doc__ or "",
            PLACEMENTS,
            dip_placement,
        ),
    ),
    Environment(
        "dcgym/VipMigration-v0",
        "migration",
        AgentForm(
            VipMigrationSettings,
            _drawn(migration_system),
            vip_migration.__doc__ or "",
            PLACEMENTS,
            vip_migration,
        ),
    ),
):
    add_environment(_environment)
