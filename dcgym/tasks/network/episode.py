"""What an episode on a network consists of, as tasks hand it to a backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dcgym.tasks.network.events import Event
from dcgym.traffic import Plan

__all__ = ["NetworkEpisode"]


@dataclass(frozen=True)
class NetworkEpisode:
    """One episode: its traffic, and how hosts and switches are configured for it.

    Attributes:
        plan: The flows, or the applications.
        seed: Seed of whatever the backend itself draws; the plan is drawn already.
        congestion_control: Algorithm of each host by name; a host not named gets cubic.
        marking: Whether switch ports with a threshold mark ECN.
        events: What happens to links and switches, in the order of their times.
        steered: Flows of the plan, from the first, whose states are read and which take commands;
            the same number in all copies.
    """

    plan: Plan
    seed: int = 0
    congestion_control: Mapping[str, str] = field(default_factory=dict)
    marking: bool = False
    events: tuple[Event, ...] = ()
    steered: int = 0
