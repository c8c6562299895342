"""Telemetry in shared memory: the layout, one region of it, and the snapshots read from it."""

if __name__ != "dcgym.monitors":
    raise ImportError("import this package as dcgym.monitors")

from dcgym.monitors.flows import FlowMatrix
from dcgym.monitors.layout import HEADER, HOST, PORT
from dcgym.monitors.queues import MetQueues
from dcgym.monitors.region import TelemetryRegion
from dcgym.monitors.snapshot import Snapshot

__all__ = ["HEADER", "HOST", "PORT", "FlowMatrix", "MetQueues", "Snapshot", "TelemetryRegion"]
