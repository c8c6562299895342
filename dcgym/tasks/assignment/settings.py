"""Arguments of `dcgym/JobAssignment-v0`."""

from __future__ import annotations

from dataclasses import dataclass

from dcgym.config import check_in, check_int
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.presets import ScenarioSpec, make_scenario
from dcgym.tasks.balancing.rules import RULES
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.tasks.common.rewards import RewardSpec
from dcgym.tasks.common.settings import Duration, TaskSettings
from dcgym.units import parse_duration

__all__ = ["ACTIONS", "JobAssignmentSettings"]

ACTIONS = ("server", "scores")
NS_PER_S = 1e9


@dataclass(frozen=True, kw_only=True)
class JobAssignmentSettings(TaskSettings):
    """What the environment is told.

    Attributes:
        scenario: Name, mapping, file or `Scenario`; it has one balancer.
        backend: Name, or a mapping of ``name`` and options; or a function that makes a `Pool` of a
            scenario and a number of copies.
        interval: Mean time from one job to the next; None for that of the scenario.
        jobs: Jobs of an episode; None for no end.
        observation: A name in `OBSERVATIONS`.
        action: "server": its number; "scores": one number a server, the highest gets the job.
        reward: A term, a list of terms, or a mapping term to weight.
        rule: Rule of the data plane that places the jobs in the agent's place; None for the agent.
        record_limit: Finished jobs that are kept for `flow_records`.
        paths: "own": each copy has arrivals of its own; "shared": copies that begin together meet
            the same jobs.
    """

    drawn_fields = ("scenario",)

    scenario: ScenarioSpec = "park-10"
    backend: object = "simulation"
    interval: Duration | None = None
    jobs: int | None = 1000
    observation: str = "park"
    action: str = "server"
    reward: RewardSpec = ("sojourn", "failures")
    rule: str | None = None
    record_limit: int = 0
    paths: str = "own"

    def __post_init__(self) -> None:
        """Check what needs no scenario."""
        super().__post_init__()
        if self.jobs is not None:
            check_int("jobs", self.jobs, 1)
        check_in("action", self.action, ACTIONS)
        check_int("record_limit", self.record_limit, 0)
        check_in("paths", self.paths, ("own", "shared"))
        if self.rule is not None:
            RULES.find(self.rule)
        if self.interval is not None and parse_duration(self.interval, "interval") <= 0:
            raise ConfigError("interval", self.interval, "a duration above 0, such as '55ms'")

    @property
    def has_end(self) -> bool:
        """Whether every episode ends: after its last job, too."""
        return super().has_end or self.jobs is not None

    def make_scenario(self) -> Scenario:
        """Return the scenario, its arrivals at the mean distance that was asked for.

        Raises:
            ConfigError: It is malformed, has several balancers or virtual addresses, or arrivals
                without a rate.
        """
        scenario = make_scenario(self.scenario)
        if scenario.balancers != 1:
            allowed = "1: one dispatcher places every job"
            raise ConfigError("scenario.balancers", scenario.balancers, allowed)
        if (n_vips := len(scenario.pool.vips)) != 1:
            raise ConfigError("scenario.vips", n_vips, "1: each server may get each job")
        if self.interval is None:
            return scenario
        workload = scenario.workload
        if workload.is_closed_loop or workload.arrivals.process.recording is not None:
            allowed = f"None with {workload.arrivals.name} arrivals, which have times of their own"
            raise ConfigError("interval", self.interval, allowed)
        rate_per_s = NS_PER_S / parse_duration(self.interval, "interval")
        load = scenario.offered_load * rate_per_s / sum(scenario.rates_per_s)
        if workload.load is not None:
            return scenario.changed(load=load)
        raise ConfigError("interval", self.interval, "None where applications give rates")

    def mean_interval(self) -> Duration:
        """Return the mean time from one job to the next, in seconds."""
        return 1 / sum(self.make_scenario().rates_per_s)
