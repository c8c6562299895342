"""Requests of a pod whose servers have several devices, and what its agents show of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from dcgym.backends.emulation.wire.message import Content, Descriptor, Message
from dcgym.backends.emulation.wire.messages import BuildPod, PodBuilt

__all__ = [
    "AGENT_DTYPE",
    "AgentSettings",
    "BuildDevicePod",
    "DevicePodBuilt",
    "SetAgent",
]

AGENT_DTYPE = np.dtype(
    {"names": ["sent", "lost"], "formats": ["<u8", "<u8"], "offsets": [0, 8], "itemsize": 64}
)
"""Reports that an agent has sent and lost since it was started; a row a station."""


@dataclass(frozen=True)
class AgentSettings:
    """What the agents of a pod are told, all alike.

    Attributes:
        kind: "periodic" or "event".
        period_ns: Time between two reports.
        window: Periods that a utilisation is taken over.
        threshold_ns: Processing time above which a device is busy.
        release: Share of the threshold below which it is not busy any more.
        second_report_ns: How long after "busy" the contrary is said; 0 for never.
        delay_ns: How long a report is held back.
        loss: Share of the reports that are lost.
    """

    kind: str
    period_ns: int
    window: int
    threshold_ns: int
    release: float
    second_report_ns: int
    delay_ns: int
    loss: float

    def to_dict(self) -> Content:
        """Return the settings as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> AgentSettings:
        """Build settings from plain data.

        Args:
            data: The fields, as `to_dict` returns them.
        """
        return cls(**data)  # type: ignore[arg-type]


@dataclass(frozen=True)
class BuildDevicePod(BuildPod):
    """Build a pod of stations behind one balancer; answered by `DevicePodBuilt`.

    The scenario's servers are the stations: each is a host of its own.

    Attributes:
        stations: What serves at each (`HttpServer.to_dict`), in the order of their hosts.
        devices: How many stations each server of the balancer has: its processors, then its
            accelerators.
        agents: What the agents are told (`AgentSettings.to_dict`); nothing for none.
        agent_rows: Memory that the agents show their counts in.
    """

    stations: tuple[Content, ...]
    devices: tuple[int, ...]
    agents: Content
    agent_rows: Descriptor


@dataclass(frozen=True)
class DevicePodBuilt(PodBuilt):
    """What the environment works through.

    Attributes:
        device_map: Map of what the balancer knows of devices.
        agents: The agents, one a station, as pidfds; none without any.
    """

    device_map: Descriptor
    agents: tuple[Descriptor, ...]


@dataclass(frozen=True)
class SetAgent(Message):
    """Silence a station's agent, or let it speak again; answered by `Done`.

    Attributes:
        station: Its number.
        is_silent: Whether it says nothing.
    """

    station: int
    is_silent: bool
