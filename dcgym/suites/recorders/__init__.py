"""What runs record, by the protocol of their task.

A package with a protocol of its own adds a recorder: ``RECORDERS[MySettings] = MyRecorder``.
"""

from __future__ import annotations

from dcgym.suites.recorders.accelerators import AcceleratorRecorder
from dcgym.suites.recorders.assignment import AssignmentRecorder
from dcgym.suites.recorders.base import Columns, Outcome, Recorder, Row, StepResult
from dcgym.suites.recorders.mappings import DipRecorder, MigrationRecorder
from dcgym.suites.recorders.network import NetworkRecorder
from dcgym.suites.recorders.placement import PlacementRecorder
from dcgym.suites.recorders.pool import PoolRecorder
from dcgym.tasks.accelerators.settings import AcceleratorBalancingSettings
from dcgym.tasks.assignment.settings import JobAssignmentSettings
from dcgym.tasks.balancing.settings import PoolSettings
from dcgym.tasks.common.settings import TaskSettings
from dcgym.tasks.network.settings import NetworkSettings
from dcgym.tasks.placement.settings import (
    DipPlacementSettings,
    VipMigrationSettings,
    VipPlacementSettings,
)

__all__ = ["RECORDERS", "Columns", "Outcome", "Recorder", "Row", "StepResult", "recorder_for"]

RECORDERS: dict[type[TaskSettings], type[Recorder]] = {
    TaskSettings: Recorder,
    NetworkSettings: NetworkRecorder,
    PoolSettings: PoolRecorder,
    JobAssignmentSettings: AssignmentRecorder,
    AcceleratorBalancingSettings: AcceleratorRecorder,
    VipPlacementSettings: PlacementRecorder,
    DipPlacementSettings: DipRecorder,
    VipMigrationSettings: MigrationRecorder,
}
"""Recorder of the runs of a task, by the class of its settings or a base of it."""


def recorder_for(settings: type[TaskSettings]) -> type[Recorder]:
    """Return the recorder of the closest base class.

    Args:
        settings: Class of the environment's settings.
    """
    return next(RECORDERS[kind] for kind in settings.__mro__ if kind in RECORDERS)
