"""A suite is data: cases, policies, seeds, lengths, what was published, what is expected."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from dcgym.config import (
    LONGEST_S,
    check_int,
    check_list,
    check_name,
    check_range,
    check_seconds,
    read_numbers,
)
from dcgym.defaults import DefaultCount, DefaultNumber
from dcgym.envs.factory import env_id_of, find_environment
from dcgym.errors import ConfigError
from dcgym.registry import Registry
from dcgym.suites.scores import Scoring
from dcgym.suites.shapes import Shape
from dcgym.suites.spec import Arguments, Scalar
from dcgym.suites.until import Until

__all__ = [
    "MOST_RUNS",
    "SUITES",
    "WARMUP_FRACTION",
    "Case",
    "Published",
    "Suite",
    "Training",
    "check_runs",
]

MOST_RUNS = 100_000
"""Runs that a suite may have."""

WARMUP_FRACTION = 1 / 6
"""Part of a run that is left out where nobody says how much."""

MOST_JOBS = 1_024


@dataclass(frozen=True)
class Case:
    """One configuration of the environment.

    Attributes:
        env: Arguments of the environment; ``env`` names it.
        name: Name for folders, tables and records; a single nameless case appears nowhere.
        sweep: Value of each swept argument by its path; a label where it is no scalar.
        params: Parameters of policies, by the policy's name.
        train_env: Arguments of the environment that learners train in; `env` if None.
        train_name: Name of that environment in folders; that of the case if None. Equal trainings
            happen once.
        episode_s: Length of its runs; the suite's if None.
        policies: Names of the only policies that meet it; all of the suite's if None.
    """

    env: Arguments
    name: str = ""
    sweep: Mapping[str, Scalar] = field(default_factory=dict)
    params: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    train_env: Arguments | None = None
    train_name: str | None = None
    episode_s: float | None = None
    policies: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Check the length, and that folders can have the names."""
        read_numbers(self)
        if not isinstance(self.name, str) or self.name:
            check_name("case", self.name)
        if self.train_name:
            check_name("train_name", self.train_name)
        if self.episode_s is not None:
            check_seconds(f"episode_s of case {self.name}", self.episode_s)

    def meets(self, policy: str) -> bool:
        """Tell whether a policy meets this case.

        Args:
            policy: Name of the policy.
        """
        return self.policies is None or policy in self.policies


@dataclass(frozen=True)
class Training:
    """How learners are trained.

    Attributes:
        seconds: Wall-clock seconds of each training.
        envs: Environments that a learner uses side by side.
        trainings: Trainings of each learner, from seeds that no evaluation has; the run of seed i
            scores number i modulo this, so that both kinds of seeds vary. Intervals of scores
            draw trainings first and runs within them.
    """

    seconds: float = 120.0
    envs: int = 4
    trainings: int = 1

    def __post_init__(self) -> None:
        """Check the numbers."""
        read_numbers(self)
        check_seconds("train_s", self.seconds)
        check_int("train_envs", self.envs, 1, MOST_RUNS)
        check_int("trainings", self.trainings, 1)


@dataclass(frozen=True)
class Published:
    """A number to set beside the results.

    Attributes:
        source: Where it was published.
        metric: Name of the metric.
        policy: Name of the policy.
        value: The number, in the metric's unit.
        case: Name of the case.
    """

    source: str
    metric: str
    policy: str
    value: float
    case: str = ""


def check_runs(count: int) -> None:
    """Refuse more runs than a suite may have: their list alone would fill the memory.

    Args:
        count: Number of runs.

    Raises:
        ConfigError: There are more than `MOST_RUNS`.
    """
    if count > MOST_RUNS:
        allowed = f"at most {MOST_RUNS} runs (cases x policies x seeds)"
        raise ConfigError("runs", count, allowed)


@dataclass(frozen=True)
class Suite:
    """A comparison of policies: every policy meets every case that asks for it, with every seed.

    Attributes:
        name: Name for commands and listings.
        description: What is compared, in one line.
        cases: The configurations.
        policies: Names of the policies.
        seeds: Number of seeds; a seed gives every policy the same traffic. Where nobody says, as
            many as trainings if these are more.
        episode_s: Length of a run, in seconds of its own clock. Where nobody says, six times a
            warm-up that is as long.
        warmup_s: Time at the start of a run that the metrics leave out. Where nobody says, a sixth
            of the shortest run if that is no longer.
        jobs: Runs at the same time; 0 runs them in the calling process, one after the other. Where
            nobody says, 1 if they need the machine for themselves.
        is_alone: Whether runs need the machine for themselves.
        training: How learners are trained.
        checkpoints: Folder of a trained policy by the learner's name; others are trained.
        published: Numbers to set beside the results.
        shapes: What the results are expected to show.
        scoring: What normalised scores are made of; that of the family of policies if None.
        until: When a case has enough seeds, where it may have more than `seeds`.
        maker: Makes it for other values of what its parameters name: a backend, ``episode_s``,
            options of its command. None where it is the same for all.

    Raises:
        ConfigError: A number is not allowed.
    """

    name: str
    description: str
    cases: tuple[Case, ...]
    policies: tuple[str, ...]
    seeds: int = DefaultCount(3)
    episode_s: float = DefaultNumber(12.0)
    warmup_s: float = DefaultNumber(2.0)
    jobs: int = DefaultCount(2)
    is_alone: bool = False
    training: Training = field(default_factory=Training)
    checkpoints: Mapping[str, str] = field(default_factory=dict)
    published: tuple[Published, ...] = ()
    shapes: tuple[Shape, ...] = ()
    scoring: Scoring | None = None
    until: Until | None = None
    maker: Callable[..., Suite] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the numbers; `check_suite` checks the names, which takes more time."""
        read_numbers(self)
        check_name("suite", self.name)
        check_seconds("episode_s", self.episode_s)
        check_range("warmup_s", self.warmup_s, 0, LONGEST_S)
        for name, kind, what in (("cases", Case, "cases"), ("policies", str, "names of policies")):
            given = check_list(name, getattr(self, name), f"a list of {what}")
            if not all(isinstance(one, kind) for one in given):
                raise ConfigError(name, given, f"a list of {what}")
            object.__setattr__(self, name, tuple(given))
        self._give_way()
        check_int("seeds", self.seeds, 1, MOST_RUNS)
        pairs = sum(case.meets(policy) for case in self.cases for policy in self.policies)
        most = self.seeds if self.until is None else max(self.seeds, self.until.most_seeds)
        check_runs(pairs * most)
        check_int("jobs", self.jobs, 0, MOST_JOBS)
        check_int("trainings", self.training.trainings, 1, self.seeds)
        if self.warmup_s >= self.episode_s:
            allowed = f"a length above the warm-up of {self.warmup_s:g} s"
            raise ConfigError("episode_s", self.episode_s, allowed)
        for case in self.cases:
            if case.episode_s is not None and not self.warmup_s < case.episode_s < math.inf:
                allowed = f"a length above the warm-up of {self.warmup_s:g} s"
                raise ConfigError(f"episode_s of case {case.name}", case.episode_s, allowed)
        if self.is_alone and self.jobs > 1:
            raise ConfigError("jobs", self.jobs, "1: these runs need the machine for themselves")

    def _give_way(self) -> None:
        """Put what goes with the values that were asked for in the place of defaults."""
        trainings = self.training.trainings
        if isinstance(self.seeds, DefaultCount) and trainings > self.seeds:
            object.__setattr__(self, "seeds", trainings)
        if isinstance(self.jobs, DefaultCount) and self.is_alone:
            object.__setattr__(self, "jobs", 1)
        own = [case.episode_s for case in self.cases if case.episode_s is not None]
        shortest_s = min([self.episode_s, *own])
        if isinstance(self.warmup_s, DefaultNumber):
            if 0 < shortest_s <= self.warmup_s:
                object.__setattr__(self, "warmup_s", shortest_s * WARMUP_FRACTION)
        elif isinstance(self.episode_s, DefaultNumber) and self.episode_s <= self.warmup_s:
            object.__setattr__(self, "episode_s", self.warmup_s / WARMUP_FRACTION)

    @property
    def family(self) -> str:
        """Family of the policies."""
        return find_environment(env_id_of(self.cases[0].env)).family

    @cached_property
    def case_names(self) -> tuple[str, ...]:
        """Names of the cases."""
        return tuple(case.name for case in self.cases)

    def case(self, name: str) -> Case:
        """Return a case by its name.

        Args:
            name: The name.

        Raises:
            ConfigError: There is no such case.
        """
        if name not in self._cases:
            raise ConfigError("case", name, list(self.case_names))
        return self._cases[name]

    @cached_property
    def _cases(self) -> dict[str, Case]:
        return {case.name: case for case in reversed(self.cases)}

    @property
    def options(self) -> tuple[str, ...]:
        """Names of what `maker` takes."""
        return () if self.maker is None else tuple(inspect.signature(self.maker).parameters)

    def made_for(
        self,
        backend: object = None,
        episode_s: float | None = None,
        own: Mapping[str, object] | None = None,
    ) -> Suite:
        """Return the suite for another backend and length, and with other values of its options.

        Args:
            backend: What the environment's argument takes; None for the suite's own.
            episode_s: Length of a run; None for the suite's own. A warm-up that nobody asked for
                gives way to it.
            own: Values of its other options; None for the suite's own.

        Raises:
            ConfigError: A value is not allowed.
        """
        given = {"backend": backend, "episode_s": episode_s, **({} if own is None else own)}
        asked = {name: value for name, value in given.items() if value is not None}
        taken = {name: asked.pop(name) for name in self.options if name in asked}
        made = self.maker(**taken) if self.maker is not None and taken else self
        if "backend" in asked:
            made = made.on_backend(backend)
        if "episode_s" in asked:
            warmup_s = DefaultNumber(made.warmup_s)
            made = replace(made, episode_s=check_seconds("episode_s", episode_s), warmup_s=warmup_s)
        return made

    def on_backend(self, backend: object) -> Suite:
        """Return the suite on another backend; learners train where they did.

        Args:
            backend: What the environment's argument takes.
        """
        cases = tuple(
            replace(
                case, env={**case.env, "backend": backend}, train_env=case.train_env or case.env
            )
            for case in self.cases
        )
        return replace(self, cases=cases)

    def trained_on(self, backend: object) -> Suite:
        """Return the suite with learners that train on another backend than they are scored on.

        Args:
            backend: What the environment's argument takes.
        """
        cases = tuple(
            replace(case, train_env={**(case.train_env or case.env), "backend": backend})
            for case in self.cases
        )
        return replace(self, cases=cases)


SUITES: Registry[Suite] = Registry("suites", "suite")
"""The suites by name."""
