"""Telemetry in shared memory: the layout, one region of it, and the snapshots read from it."""

if __name__ != "dcgym.monitors":
    raise ImportError("import this package as dcgym.monitors")

from dcgym.monitors.network.flows import FlowMatrix
from dcgym.monitors.network.layout import HEADER, HOST, PORT
from dcgym.monitors.network.queues import MetQueues
from dcgym.monitors.network.region import TelemetryRegion
from dcgym.monitors.network.snapshot import Snapshot

__all__ = ["HEADER", "HOST", "PORT", "FlowMatrix", "MetQueues", "Snapshot", "TelemetryRegion"]
