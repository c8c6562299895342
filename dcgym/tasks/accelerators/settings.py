"""Arguments of `dcgym/AcceleratorBalancing-v0`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dcgym.config import check_flag, check_in, check_int, check_list, check_positive, check_range
from dcgym.defaults import Default
from dcgym.errors import ConfigError
from dcgym.tasks.accelerators.agents import Agents
from dcgym.tasks.accelerators.devices import MOST_WEIGHT
from dcgym.tasks.accelerators.pool import AcceleratorPool
from dcgym.tasks.accelerators.presets import PoolSpec, make_pool_of_devices
from dcgym.tasks.accelerators.rules import DEVICE_RULES, SERVER_RULES
from dcgym.tasks.common.rewards import RewardSpec
from dcgym.tasks.common.settings import Duration, TaskSettings
from dcgym.units import parse_duration

__all__ = ["ACTIONS", "FAILURES", "MOST_LEVEL", "OBSERVATIONS", "AcceleratorBalancingSettings"]

ACTIONS = ("step", "levels", "weights")
OBSERVATIONS = ("mean", "devices")
FAILURES = ("positions", "devices")
MOST_LEVEL = 100
DEFAULT_SETTLE = Default("2s")


@dataclass(frozen=True, kw_only=True)
class AcceleratorBalancingSettings(TaskSettings):
    """What the environment is told.

    Attributes:
        scenario: Name, mapping, file or `AcceleratorPool`.
        backend: Name, or a mapping of ``name`` and options; or a function that makes a `DevicePool`
            of a pool and a number of copies.
        interval: Control interval.
        settle: Beginning of each interval that nothing is measured in: the last action's queues.
            Where nobody says, a fifth of an interval that is no longer than 2 s.
        rate: Requests a second; None for one that each episode draws.
        loads: Least and largest rate that is drawn, over what the processors alone can serve.
        agents: What the devices report, in the place of the scenario's; None for that.
        server_rule: Rule between servers.
        device_rule: Rule between the devices of a server; "wrr" and "dynamic-wrr" use the weights.
        action: "step": the accelerators' weights up, down, or as they are; "levels": a whole
            weight for each position; "weights": a real one.
        weights: Weights of the positions that an episode begins with, the last one for all that
            follow; None for the scenario's.
        most_weight: Largest weight w_max of "step" and "levels".
        observation: "mean" over servers of each position, or "devices", all of them.
        reward: A term, a list of terms, or a mapping term to weight.
        latency_threshold: Largest p99 of a success; None for four times the slowest device's mean
            service time.
        utilisation_threshold: Least mean utilisation of the processors where using all devices is
            a success.
        max_reward: Reward of a success; of a failure minus that.
        failure: What fails at an offered load above 1: "positions", the mean over the servers of
            a device position; "devices", any device.
        is_terminal: Whether success and failure end the episode, as published.
        oracle: Whether infos name the best weights, found by exhaustive search in a simulation of
            its own.
        record_limit: Finished requests that are kept for `flow_records`.
        paths: "own": each copy has requests of its own; "shared": copies that begin together meet
            the same ones.
    """

    drawn_fields = ("scenario",)

    scenario: PoolSpec = "p4wise-128"
    backend: object = "simulation"
    interval: Duration | None = "10s"
    max_steps: int | None = 100
    settle: Duration = DEFAULT_SETTLE
    rate: float | None = None
    loads: Sequence[float] = (0.2, 1.1)
    agents: Mapping[str, object] | None = None
    server_rule: str = "ecmp"
    device_rule: str = "wrr"
    action: str = "step"
    weights: Sequence[float] | None = None
    most_weight: int = 6
    observation: str = "mean"
    reward: RewardSpec = "p4wise"
    latency_threshold: Duration | None = "1s"
    utilisation_threshold: float = 0.6
    max_reward: float = 10.0
    failure: str = "positions"
    is_terminal: bool = True
    oracle: bool = False
    record_limit: int = 0
    paths: str = "own"

    def __post_init__(self) -> None:
        """Check what needs no pool."""
        super().__post_init__()
        check_in("action", self.action, ACTIONS)
        check_in("observation", self.observation, OBSERVATIONS)
        check_in("failure", self.failure, FAILURES)
        check_in("paths", self.paths, ("own", "shared"))
        check_in("server_rule", self.server_rule, SERVER_RULES)
        DEVICE_RULES.find(self.device_rule)
        check_int("most_weight", self.most_weight, 1, MOST_LEVEL)
        check_int("record_limit", self.record_limit, 0)
        check_range("utilisation_threshold", self.utilisation_threshold, 0, 1)
        check_positive("max_reward", self.max_reward)
        for name in ("is_terminal", "oracle"):
            check_flag(name, getattr(self, name))
        if self.rate is not None:
            check_range("rate", self.rate, 0.001, 1e9)
        self._check_times()
        self._check_loads()
        if self.weights is not None:
            self._check_weights(self.weights)

    def _check_times(self) -> None:
        if self.interval is None or self.interval_ns <= 0:
            raise ConfigError("interval", self.interval, "a duration above 0, such as '10s'")
        if self.settle_ns >= self.interval_ns:
            raise ConfigError("settle", self.settle, "a duration below the interval")
        if self.latency_threshold is not None:
            time_ns = parse_duration(self.latency_threshold, "latency_threshold")
            check_int("latency_threshold", time_ns, 1)

    def _check_loads(self) -> None:
        loads = check_list("loads", self.loads, "two numbers, the lower one first", (2,))
        low = check_range("loads", loads[0], 0.001, 100)
        check_range("loads", loads[1], low, 100)

    def _check_weights(self, weights: object) -> None:
        allowed = "numbers of 0 or more, one of them above 0"
        numbers = check_list("weights", weights, allowed)
        if not max((check_range("weights", one, 0, MOST_WEIGHT) for one in numbers), default=0) > 0:
            raise ConfigError("weights", weights, allowed)

    def make_pool(self) -> AcceleratorPool:
        """Return the pool, with the agents that were asked for.

        Raises:
            ConfigError: It is malformed.
        """
        pool = make_pool_of_devices(self.scenario)
        if self.agents is None:
            return pool
        return pool.changed(agents=Agents.from_dict(self.agents))

    @property
    def interval_ns(self) -> int:
        """Control interval."""
        return parse_duration(self.interval, "interval")

    @property
    def settle_ns(self) -> int:
        """Part of it that nothing is measured in; a default gives way to a shorter interval."""
        settle_ns = parse_duration(self.settle, "settle")
        gives_way = isinstance(self.settle, Default) and settle_ns >= self.interval_ns
        return self.interval_ns // 5 if gives_way else settle_ns
