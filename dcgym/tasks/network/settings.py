"""Arguments of the environments on a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dcgym.tasks.common.rewards import RewardSpec
from dcgym.tasks.common.settings import Duration, TaskSettings
from dcgym.tasks.network.arguments import TopologySpec, read_interval
from dcgym.tasks.network.path_rules import ECMP, PathChoice
from dcgym.traffic import Plan

__all__ = ["NetworkSettings", "TrafficSettings", "TrafficSpec"]

TrafficSpec = str | Path | Mapping[str, object] | Plan


@dataclass(frozen=True, kw_only=True)
class TrafficSettings(TaskSettings):
    """What all tasks on the traffic of a network are told.

    Attributes:
        topology: Name, mapping, file, or `Topology`.
        traffic: Name, mapping, file, or `Plan`.
        backend: Name, or a mapping of ``name`` and options; a `Network`; or a function that makes
            one of a topology, which may be named as "module:name".
        interval: Control interval; "0ms" runs freely.
        congestion_control: Name, or mapping of host to name.
        marking: Mark packets at the switches; a mapping replaces how the topology says.
        events: What happens to links and switches during each episode.
    """

    drawn_fields = ("topology", "traffic", "events", "congestion_control", "marking")

    topology: TopologySpec = "dumbbell"
    traffic: TrafficSpec = "pairs"
    backend: object = "emulation"
    interval: Duration = "50ms"
    max_steps: int | None = 200
    congestion_control: str | Mapping[str, str] = "cubic"
    marking: bool | Mapping[str, object] = False
    events: Sequence[Mapping[str, object]] = ()

    def __post_init__(self) -> None:
        """Check what needs no network."""
        super().__post_init__()
        read_interval(self.interval)

    @property
    def interval_ns(self) -> int:
        """The control interval; 0 runs freely."""
        return read_interval(self.interval)

    @property
    def path_choice(self) -> PathChoice:
        """How flows, flowlets or packets are spread over equal-cost ports."""
        return ECMP


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
