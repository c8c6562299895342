"""Arguments of the environments on a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dcgym.config import check_in, check_int
from dcgym.tasks.common.rewards import RewardSpec
from dcgym.tasks.common.settings import Duration, TaskSettings
from dcgym.tasks.network.arguments import TopologySpec, read_interval
from dcgym.traffic import Plan
from dcgym.traffic.generators.host_access import HOST_ACCESS
from dcgym.traffic.generators.tools import GENERATORS

__all__ = ["SWITCHES", "NetworkSettings", "TrafficSettings", "TrafficSpec"]

SWITCHES = ("ebpf", "ovs")
"""Data planes of the emulation."""

TrafficSpec = str | Path | Mapping[str, Any] | Plan


@dataclass(frozen=True, kw_only=True)
class TrafficSettings(TaskSettings):
    """What all tasks on the traffic of a network are told.

    Attributes:
        topology: Name, mapping, file, or `Topology`.
        traffic: Name, mapping, file, or `Plan`.
        backend: Name, a `Network`, or a function that makes one of a topology, which may be named
            as "module:name".
        interval: Control interval; "0ms" runs freely.
        congestion_control: Name, or mapping of host to name.
        marking: Mark packets at the switches; a mapping replaces how the topology says.
        events: What happens to links and switches during each episode.
        switch: "ebpf" or "ovs"; of the emulation.
        preflight: Measure a few links before the first episode; of the emulation.
        generator: What sends the traffic, one of `GENERATORS`; of the emulation.
        host_access: What processes of the hosts may do with the machine, one of `HOST_ACCESS`; of
            the emulation.
        threads: Threads that simulate the copies of a vector; of the simulation.
    """

    drawn_fields = ("topology", "traffic", "events", "congestion_control", "marking")

    topology: TopologySpec = "dumbbell"
    traffic: TrafficSpec = "pairs"
    backend: object = "emulation"
    interval: Duration = "50ms"
    max_steps: int | None = 200
    congestion_control: str | Mapping[str, str] = "cubic"
    marking: bool | Mapping[str, Any] = False
    events: Sequence[Mapping[str, Any]] = ()
    switch: str = "ebpf"
    preflight: bool = True
    generator: str = "native"
    host_access: str = HOST_ACCESS[0]
    threads: int = 1

    def __post_init__(self) -> None:
        """Check what needs no network."""
        super().__post_init__()
        read_interval(self.interval)
        check_in("switch", self.switch, SWITCHES)
        check_in("preflight", self.preflight, (True, False))
        GENERATORS.find(self.generator)
        check_in("host_access", self.host_access, HOST_ACCESS)
        check_int("threads", self.threads, 1)

    @property
    def interval_ns(self) -> int:
        """The control interval; 0 runs freely."""
        return read_interval(self.interval)

    def backend_options(self) -> dict[str, object]:
        """Return the fields that are options of a backend, as far as it has them."""
        names = ("switch", "preflight", "generator", "host_access", "threads")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class NetworkSettings(TrafficSettings):
    """What tasks of one agent about a network are told.

    Attributes:
        features: Names of the features.
        probes: Pairs of hosts whose round trips are measured for the feature ``probe_rtt``.
        reward: A term, a list of terms, or a mapping term to weight.
    """

    features: Sequence[str] = ("backlog", "d_backlog")
    probes: Sequence[Sequence[str]] = ()
    reward: RewardSpec = "delivery"
