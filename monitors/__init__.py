"""Telemetry in shared memory: the layout, one region of it, and the snapshots read from it."""

if __name__ != "dcgym.monitors":
    raise ImportError("import this package as dcgym.monitors")

from dcgym.monitors.network.agent_flows import AGENT_FLOW, CommandFlag, read_agent_flows
from dcgym.monitors.network.flows import FlowMatrix
from dcgym.monitors.network.layout import HEADER, HOST, PORT
from dcgym.monitors.network.queues import MetQueues
from dcgym.monitors.network.region import TelemetryRegion
from dcgym.monitors.network.snapshot import HOST_STATE, PORT_STATE, Snapshot
from dcgym.monitors.network.states import Fields, StateWords

__all__ = [
    "AGENT_FLOW",
    "HEADER",
    "HOST",
    "HOST_STATE",
    "PORT",
    "PORT_STATE",
    "CommandFlag",
    "Fields",
    "FlowMatrix",
    "MetQueues",
    "Snapshot",
    "StateWords",
    "TelemetryRegion",
    "read_agent_flows",
]
