"""What runs record, by the name that an environment's row says.

A package with a protocol of its own adds a recorder: ``RECORDERS.add("mine", MyRecorder)``.
"""

from __future__ import annotations

from dcgym.registry import Registry
from dcgym.suites.recorders.accelerators import AcceleratorRecorder
from dcgym.suites.recorders.assignment import AssignmentRecorder
from dcgym.suites.recorders.base import Columns, Outcome, Recorder, Row, StepResult
from dcgym.suites.recorders.mappings import DipRecorder, MigrationRecorder
from dcgym.suites.recorders.network import NetworkRecorder
from dcgym.suites.recorders.placement import PlacementRecorder
from dcgym.suites.recorders.pool import PoolRecorder

__all__ = ["RECORDERS", "Columns", "Outcome", "Recorder", "Row", "StepResult"]

RECORDERS: Registry[type[Recorder]] = Registry("recorders", "recorder")
"""The recorders of runs by name."""

RECORDERS.add_all(
    {
        "plain": Recorder,
        "network": NetworkRecorder,
        "pool": PoolRecorder,
        "jobs": AssignmentRecorder,
        "devices": AcceleratorRecorder,
        "placement": PlacementRecorder,
        "dips": DipRecorder,
        "migration": MigrationRecorder,
    }
)
