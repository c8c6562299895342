"""Scores of policies from Python: the runs of a suite, for whatever can act."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from dcgym.config import check_int, check_name, check_range, check_seconds
from dcgym.envs.factory import default_of, env_id_of, find_environment, make_session
from dcgym.errors import ConfigError
from dcgym.files import load_mapping
from dcgym.policies import Policy, load_policy, make_policy
from dcgym.policies.base import Observation
from dcgym.suites.checks import steps_in
from dcgym.suites.model_wrappers import Spaces, check_spaces
from dcgym.suites.models import FunctionPolicy, Model, ModelPolicy, copies_of
from dcgym.suites.reports.cells import Cell
from dcgym.suites.reports.downwards import metric_cells, metric_titles, split_by_width
from dcgym.suites.reports.html import table
from dcgym.suites.reports.layout import layout_of, policies_of, runs_of
from dcgym.suites.reports.numbers import spread_of
from dcgym.suites.reports.plots import cell
from dcgym.suites.results import Records
from dcgym.suites.rollout import MakePolicy, run_episode
from dcgym.suites.spec import RunSpec
from dcgym.suites.suite import MOST_RUNS, check_runs
from dcgym.tasks.common.layout import Column
from dcgym.tasks.common.statistics import FloatArray
from dcgym.units import as_python, read_number

__all__ = ["Acting", "Evaluation", "compare", "evaluate"]


# Width of a terminal that nobody has made wider.
LINE = 80


Acting: TypeAlias = "str | Path | Policy | Model | Callable[[Observation], object]"
"""A policy's name, the folder of a trained one, a policy, a model, or a function."""


@dataclass(frozen=True)
class Evaluation:
    """Records of runs, which print as a table of means and 95 % intervals.

    Attributes:
        records: One record a run, as a suite writes them.
    """

    records: Records

    def mean(self, metric: str, policy: str | None = None) -> float:
        """Return the mean of a metric over the seeds, in the metric's own unit.

        Args:
            metric: Its name, such as "fct_us_mean".
            policy: Name of the policy; None where there is one.

        Raises:
            ConfigError: Unknown policy or metric.
        """
        return spread_of(self._runs(metric, policy), Column(metric, metric)).mean

    def values(self, metric: str, policy: str | None = None) -> FloatArray:
        """Return a metric of every run, by seed.

        Args:
            metric: Its name.
            policy: Name of the policy; None where there is one.

        Raises:
            ConfigError: Unknown policy or metric.
        """
        return np.array([run["metrics"][metric] for run in self._runs(metric, policy)])

    def _runs(self, metric: str, policy: str | None) -> Records:
        known = policies_of(self.records)
        if policy is None and len(known) == 1:
            policy = known[0]
        if policy not in known:
            raise ConfigError("policy", policy, known)
        runs = runs_of(self.records, policy)
        if metric not in runs[0]["metrics"]:
            raise ConfigError("metric", metric, sorted(runs[0]["metrics"]))
        return runs

    def __str__(self) -> str:
        titles = ["policy", *metric_titles(self.records)]
        found = {
            policy: [policy, *(" ".join(filter(None, cell)) for cell in cells)]
            for policy, cells in metric_cells(self.records).items()
        }
        widths = {policy: 2 + max(map(len, texts)) for policy, texts in found.items()}
        first = max(map(len, titles))
        blocks = []
        for group in split_by_width(widths, first, LINE):
            lines = []
            for row, title in enumerate(titles):
                cells = (f"  {found[one][row].ljust(widths[one] - 2)}" for one in group)
                lines.append(f"{title.ljust(first)}{''.join(cells)}".rstrip())
            blocks.append("\n".join(lines))
        return "\n\n".join(blocks)

    def _repr_html_(self) -> str:
        """Return the table as notebooks show it."""
        columns = layout_of(self.records).columns
        titles = ["policy", *(column.title for column in columns)]
        rows: list[list[Cell]] = []
        for policy in policies_of(self.records):
            runs = runs_of(self.records, policy)
            rows.append([policy, *(cell(spread_of(runs, one), one) for one in columns)])
        return table(titles, rows)


def evaluate(
    env: str | Mapping[str, object],
    policy: Acting,
    seeds: int | Iterable[int] = 5,
    *,
    seconds: float = 60.0,
    warmup: float = 0.0,
    name: str | None = None,
    every_agent: bool = False,
) -> Evaluation:
    """Run a policy for some seeds, and return what its runs recorded.

    The same seed gives every policy the same traffic. Rewards are means a step; everything else
    comes from the records of flows, ports and servers.

    Args:
        env: Id of the environment, or a mapping of ``env`` and its arguments.
        policy: What acts. A model acts under the `VecNormalize` of its environment; other wrappers
            that may change what it sees or does are refused by name. A model that was loaded
            without its environment, or its `policy` alone, knows of no wrappers.
        seeds: Number of seeds, or the seeds. Learners train on seeds too: take others than theirs.
        seconds: Length of a run.
        warmup: Seconds at its start that the metrics leave out.
        name: Name in tables; the policy's own if None.
        every_agent: Give each agent its own copy of the policy, where there are several; else one
            acts among the fixed rules of the others, as in `gym.make`.

    Raises:
        ConfigError: An argument is not allowed.
        BackendError: The backend died.
    """
    seconds = check_seconds("seconds", seconds)
    warmup = check_range("warmup", warmup, 0, seconds)
    config = {"env": env} if isinstance(env, str) else load_mapping(env, "env")
    if not every_agent:
        config = {**_of_one_agent(config), **config}
    begin = _makers(policy, config)
    spec = RunSpec(
        env=config,
        policy=begin()(0).name if name is None else check_name("name", name),
        steps=steps_in(seconds, config),
        warmup_s=warmup,
    )
    return Evaluation([run_episode(replace(spec, seed=s), make=begin()) for s in _seeds(seeds)])


def compare(
    env: str | Mapping[str, object],
    policies: Iterable[str] | Mapping[str, Acting],
    seeds: int | Iterable[int] = 5,
    **options: Any,
) -> Evaluation:
    """Run several policies on the same seeds.

    Args:
        env: Id of the environment, or a mapping of ``env`` and its arguments.
        policies: Names of policies, or a mapping of a name to what acts.
        seeds: Number of seeds, or the seeds.
        **options: Further arguments of `evaluate`.

    Raises:
        ConfigError: An argument is not allowed.
        BackendError: The backend died.
    """
    given = as_python(policies)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError("policies", given, "names, or a mapping of a name to what acts")
    names = tuple(islice(given, MOST_RUNS + 1))
    check_runs(len(names))
    for name in names:
        check_name("policy", name)
    named = policies if isinstance(policies, Mapping) else {name: name for name in names}
    chosen = _seeds(seeds)
    found = [evaluate(env, policy, chosen, name=name, **options) for name, policy in named.items()]
    return Evaluation([record for one in found for record in one.records])


def _seeds(seeds: object) -> Iterable[int]:
    seeds = as_python(seeds)
    if read_number(seeds) is not None:
        return range(check_int("seeds", seeds, 1, MOST_RUNS))
    if isinstance(seeds, str) or not isinstance(seeds, Iterable):
        raise ConfigError("seeds", seeds, "a number of seeds, or the seeds")
    # One more than may be: a counter has no end.
    given = tuple(islice(seeds, MOST_RUNS + 1))
    check_runs(len(given))
    return tuple(check_int("seeds", seed, 0) for seed in given)


def _makers(policy: object, config: Mapping[str, object]) -> Callable[[], MakePolicy]:
    """Return what is called once a run; it returns what makes the policy of each agent."""
    if isinstance(policy, str):
        family = find_environment(env_id_of(config)).family
        return lambda: lambda seed: make_policy(policy, family=family, seed=seed)
    if isinstance(policy, Path):
        return lambda: lambda seed: load_policy(policy)
    if isinstance(policy, Policy):
        return copies_of(policy)
    if isinstance(policy, Model):
        model = policy
        # First: a wrapper's name says more than that the spaces differ by it.
        ModelPolicy(model)
        check_spaces(model, _spaces_of(config))
        return lambda: lambda seed: ModelPolicy(model)
    if not callable(policy):
        allowed = "a name, a folder, a Policy, a model with predict(), or a function"
        raise ConfigError("policy", policy, allowed)
    found = FunctionPolicy(getattr(policy, "__name__", "function"), policy)
    return lambda: lambda seed: found


def _spaces_of(config: Mapping[str, object]) -> Spaces:
    session = make_session(dict(config))
    try:
        return session.system.observation_space, session.system.action_space
    finally:
        session.close()


def _of_one_agent(config: Mapping[str, object]) -> dict[str, object]:
    """Return an argument that only the form of one agent has, which chooses it."""
    environment = find_environment(env_id_of(config))
    if environment.agents is None:
        return {}
    own = {*environment.single.arguments} - {*environment.agents.arguments}
    return {name: default_of(environment.id, name) for name in sorted(own)[:1]}
