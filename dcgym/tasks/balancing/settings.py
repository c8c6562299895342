"""Arguments of the environments on a server pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dcgym.config import check_in, check_int
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.features import DEFAULT_FEATURES
from dcgym.tasks.balancing.presets import ScenarioSpec
from dcgym.tasks.balancing.service import read_decisions
from dcgym.tasks.common.rewards import RewardSpec
from dcgym.tasks.common.settings import Duration, TaskSettings
from dcgym.units import parse_duration

__all__ = [
    "DEFAULT_SCENARIO",
    "CentralLoadBalancingSettings",
    "LoadBalancingSettings",
    "PoolSettings",
]

DEFAULT_SCENARIO: Mapping[str, object] = {
    "preset": "yao-sim-8",
    "load": 0.85,
    "right_weights": False,
}
"""Where a learner has something to learn: the configured weights, which SED follows, are wrong."""

# Some relaxation times of a pool whose flows take a second and whose load is 0.85.
LEAD_IN_NS = 30 * 10**9


@dataclass(frozen=True, kw_only=True)
class PoolSettings(TaskSettings):
    """What all tasks on a server pool are told.

    Attributes:
        scenario: Name, mapping, file or `Scenario`.
        backend: Name, or a mapping of ``name`` and options; or a function that makes a `Pool` of a
            scenario and a number of copies.
        interval: Control interval.
        features: Names of `dcgym.tasks.balancing.features.BALANCER_FEATURES`, each also with ``d_``
            before it for its change since the last observation.
        reward: A term, a list of terms, or a mapping term to weight; None for `gain_over_sed`
            where the backend can run a shadow, else `log_ongoing`.
        action: "continuous" or "discrete".
        rule: Rule of the controlled balancers; "weighted" uses the action.
        record_limit: Finished flows that are kept for `flow_records`.
        warm_up: Time after the first observation whose flows records and averages leave out.
        lead_in: Time under SED before an episode begins, so that the first observation is of a pool
            at work; None for 30 s, and for nothing where time is real.
        drain: Time after the last step in which flows of the episode come to their end, at most,
            so that the records have them too; others arrive meanwhile. None for 0 in loops of
            your own, and in runs for as long as the run.
        paths: "own": each copy has arrivals of its own; "shared": copies that begin together meet
            the same flows.
    """

    drawn_fields = ("scenario",)

    scenario: ScenarioSpec = field(default_factory=lambda: dict(DEFAULT_SCENARIO))
    backend: object = "simulation"
    interval: Duration = "250ms"
    max_steps: int | None = 240
    features: Sequence[str] = DEFAULT_FEATURES
    reward: RewardSpec | None = None
    action: str = "continuous"
    rule: str = "weighted"
    record_limit: int = 0
    warm_up: Duration = 0
    lead_in: Duration | None = None
    drain: Duration | None = None
    paths: str = "own"

    def __post_init__(self) -> None:
        """Check what needs no scenario."""
        super().__post_init__()
        check_int("record_limit", self.record_limit, 0)
        check_in("paths", self.paths, ("own", "shared"))
        if parse_duration(self.interval, "interval") <= 0:
            raise ConfigError("interval", self.interval, "a duration above 0, such as '250ms'")
        parse_duration(self.warm_up, "warm_up")
        for name, value in (("lead_in", self.lead_in), ("drain", self.drain)):
            if value is not None:
                parse_duration(value, name)

    @property
    def interval_ns(self) -> int:
        """The control interval."""
        return parse_duration(self.interval, "interval")

    @property
    def warm_up_ns(self) -> int:
        """Time after the first observation whose flows records and averages leave out."""
        return parse_duration(self.warm_up, "warm_up")

    @property
    def drain_ns(self) -> int:
        """Time that the flows of an episode have after its last step."""
        return 0 if self.drain is None else parse_duration(self.drain, "drain")

    def lead_in_ns(self, is_real_time: bool) -> int:
        """Return the time under SED before an episode begins.

        Args:
            is_real_time: Whether it has to be waited for.
        """
        if self.lead_in is not None:
            return parse_duration(self.lead_in, "lead_in")
        return 0 if is_real_time else LEAD_IN_NS


@dataclass(frozen=True, kw_only=True)
class LoadBalancingSettings(PoolSettings):
    """Arguments of `dcgym/LoadBalancing-v1`.

    Attributes:
        others: Rule of the front ends that are not controlled.
        balancer: Number of the controlled balancer.
        vip: Name of the virtual address whose weights are set there; None for the first.
    """

    others: str = "sed"
    balancer: int = 0
    vip: str | None = None


@dataclass(frozen=True, kw_only=True)
class CentralLoadBalancingSettings(PoolSettings):
    """Arguments of `dcgym/CentralLoadBalancing-v1`.

    Attributes:
        decides: "weights", "eligible" (which servers take new flows), or both.
    """

    decides: str | Sequence[str] = ("weights",)

    def __post_init__(self) -> None:
        """Check what needs no scenario."""
        super().__post_init__()
        object.__setattr__(self, "decides", read_decisions(self.decides))
