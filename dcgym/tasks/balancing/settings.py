"""Arguments of the environments on a server pool."""

from __future__ import annotations

from dataclasses import dataclass

from dcgym.config import check_int
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.presets import ScenarioSpec
from dcgym.tasks.common.rewards import RewardSpec
from dcgym.tasks.common.settings import Duration, TaskSettings
from dcgym.units import parse_duration

__all__ = ["LoadBalancingSettings", "PoolSettings"]


@dataclass(frozen=True, kw_only=True)
class PoolSettings(TaskSettings):
    """What all tasks on a server pool are told.

    Attributes:
        scenario: Name, mapping, file or `Scenario`.
        backend: Name, or a function that makes a `Pool` of a scenario and a number of copies.
        interval: Control interval.
        reward: A term, a list of terms, or a mapping term to weight.
        action: "continuous" or "discrete".
        rule: Rule of the controlled balancers; "weighted" uses the action.
        record_limit: Finished flows that are kept for `flow_records`.
        warm_up: Time whose flows records and averages leave out.
    """

    scenario: ScenarioSpec = "yao-sim-8"
    backend: object = "simulation"
    interval: Duration = "250ms"
    reward: RewardSpec = "vbf_log_vbf"
    action: str = "continuous"
    rule: str = "weighted"
    record_limit: int = 0
    warm_up: Duration = 0

    def __post_init__(self) -> None:
        """Check what needs no scenario."""
        super().__post_init__()
        check_int("record_limit", self.record_limit, 0)
        if parse_duration(self.interval, "interval") <= 0:
            raise ConfigError("interval", self.interval, "a duration above 0, such as '250ms'")
        parse_duration(self.warm_up, "warm_up")

    @property
    def interval_ns(self) -> int:
        """The control interval."""
        return parse_duration(self.interval, "interval")

    @property
    def warm_up_ns(self) -> int:
        """Time whose flows records and averages leave out."""
        return parse_duration(self.warm_up, "warm_up")


@dataclass(frozen=True, kw_only=True)
class LoadBalancingSettings(PoolSettings):
    """Arguments of `dcgym/LoadBalancing-v0`.

    Attributes:
        others: Rule of the balancers that are not controlled.
        balancer: Number of the controlled balancer.
    """

    others: str = "sed"
    balancer: int = 0
