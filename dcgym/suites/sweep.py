"""Sweeps: one environment, its arguments varied over a grid, under several policies and seeds."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from dcgym.config import check_int, check_keys, check_positive, check_range
from dcgym.envs.factory import argument_names, default_of, env_id_of, make_env, policy_family
from dcgym.errors import ConfigError
from dcgym.suites.config import Settings, SuiteConfig
from dcgym.units import parse_duration

__all__ = ["Cell", "SweepConfig", "make_cells"]

# What a text in the place of a mapping stands for: scenario "yao-sim-8" is {preset: yao-sim-8}.
NAME_KEYS = {"topology": "name", "traffic": "name", "scenario": "preset"}
# Part of a run that is left out where nobody says how much.
WARMUP_FRACTION = 1 / 6
LONGEST_NAME = 100

Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class Cell:
    """A point of the grid.

    Attributes:
        name: Name for folders and tables, such as "load=0.4-rate=10Mbit".
        values: The value of each swept argument, by its path; a label where it is no scalar.
        env: Arguments of the environment.
    """

    name: str
    values: Mapping[str, Scalar]
    env: Mapping[str, Any]


@dataclass(frozen=True)
class SweepConfig(SuiteConfig):
    """Settings of a sweep.

    Attributes:
        env: Arguments of the environment that all runs share; ``env`` names it.
        axes: Values of each swept argument by its path, such as "interval" or "traffic.load".
        checkpoints: Folder of a trained policy by the learner's name; others are trained in
            each cell.
        episode_s: Seconds of one run.
        warmup_s: Seconds at the start of a run that the metrics leave out; a sixth if None.
        train_s: Wall-clock seconds of a training.
        train_envs: Environments that a learner uses side by side.
    """

    env: Mapping[str, Any] = field(default_factory=dict)
    axes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    checkpoints: Mapping[str, str] = field(default_factory=dict)
    episode_s: float = 12.0
    warmup_s: float | None = None
    train_s: float = 120.0
    train_envs: int = 4

    def __post_init__(self) -> None:
        """Refuse what cannot run, before anything is started."""
        super().__post_init__()
        check_int("seeds", self.seeds, 1)
        check_int("jobs", self.jobs, 1)
        check_int("train_envs", self.train_envs, 1)
        for name in ("episode_s", "train_s"):
            check_positive(name, getattr(self, name))
        if check_range("warmup_s", self.measured_from_s, 0, self.episode_s) == self.episode_s:
            raise ConfigError("warmup_s", self.warmup_s, f"less than episode_s={self.episode_s}")
        self._check_checkpoints()
        for cell in self.cells.values():
            _interval_s(cell)
            # Environments check their arguments when they are made, and start nothing.
            make_env(cell.env).close()  # type: ignore[no-untyped-call]

    def _check_checkpoints(self) -> None:
        from dcgym.policies import CHECKPOINT_FILE, LEARNERS

        check_keys(self.checkpoints, sorted(LEARNERS), "checkpoint")
        for folder in self.checkpoints.values():
            if not (Path(folder) / CHECKPOINT_FILE).is_file():
                raise ConfigError("checkpoint", str(folder), f"a folder with {CHECKPOINT_FILE}")

    @cached_property
    def cells(self) -> Mapping[str, Cell]:
        """The points of the grid by name, the last axis changing fastest."""
        return {cell.name: cell for cell in make_cells(self.env, self.axes)}

    @property
    def scenarios(self) -> tuple[str, ...]:
        """Names of the cells."""
        return tuple(self.cells)

    @property
    def family(self) -> str:
        """Family of the policies."""
        return policy_family(env_id_of(self.env))

    @property
    def episode_module(self) -> str:
        """Module that runs one episode from its settings."""
        is_balancing = self.family == "balancing"
        return "dcgym.suites.balancing_episode" if is_balancing else "dcgym.suites.episode"

    @property
    def measured_from_s(self) -> float:
        """Time at which the measured part of a run begins."""
        return self.episode_s * WARMUP_FRACTION if self.warmup_s is None else self.warmup_s

    def checkpoint(self, policy: str) -> str | None:
        """Return the folder of a learner that was trained before."""
        return self.checkpoints.get(policy)

    def episode(self, scenario: str, policy: str, seed: int) -> Settings:
        """Return the settings of a run that the episode module reads."""
        cell = self.cells[scenario]
        interval_s = _interval_s(cell)
        return {
            "env": dict(cell.env),
            "scenario": scenario,
            "sweep": dict(cell.values),
            "policy": policy,
            "seed": seed,
            "steps": max(1, round(self.episode_s / interval_s)),
            "interval_s": interval_s,
            "warmup_s": self.measured_from_s,
        }

    def training(self, scenario: str, policy: str) -> Settings:
        """Return the settings of a learner's training in a cell."""
        return {
            "name": "-".join(part for part in (policy, scenario) if part),
            "env": dict(self.cells[scenario].env),
            "policy": policy,
            "seed": 0,
            "train_s": self.train_s,
            "envs": self.train_envs,
        }


def make_cells(env: Mapping[str, Any], axes: Mapping[str, Sequence[Any]]) -> list[Cell]:
    """Return the grid of some axes; a single nameless cell where there are none.

    Args:
        env: Arguments that all cells share.
        axes: Values of each swept argument by its path.

    Raises:
        ConfigError: No such argument, no values, or the same value twice.
    """
    labels = {path: _labels(path, values) for path, values in axes.items()}
    shorts = _short_names(list(axes))
    cells = []
    for positions in itertools.product(*(range(len(values)) for values in axes.values())):
        chosen = {path: axes[path][at] for path, at in zip(axes, positions, strict=True)}
        named = {path: labels[path][at] for path, at in zip(axes, positions, strict=True)}
        arguments = dict(env)
        for path, value in chosen.items():
            arguments = set_argument(arguments, path, value)
        arguments.setdefault("interval", default_of(env_id_of(env), "interval"))
        values = {path: v if _is_scalar(v) else named[path] for path, v in chosen.items()}
        name = "-".join(f"{shorts[path]}={label}" for path, label in named.items())
        cells.append(Cell(name, values, arguments))
    return cells


def set_argument(env: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return arguments of an environment with one of them, or a part of it, replaced.

    Args:
        env: The arguments; what they lack is the environment's default.
        path: Name of an argument, or of an option in it: "traffic.load".
        value: Its value.

    Raises:
        ConfigError: There is no such argument, or it has no options.
    """
    env_id = env_id_of(env)
    name, *options = path.split(".")
    check_keys({name: value}, argument_names(env_id), "config")
    current = env[name] if name in env else default_of(env_id, name)
    return {**env, name: _replace(current, name, options, value)}


def _replace(current: Any, name: str, options: Sequence[str], value: Any) -> Any:
    if not options:
        return value
    if isinstance(current, str) and name in NAME_KEYS:
        current = {NAME_KEYS[name]: current}
    if not isinstance(current, Mapping):
        raise ConfigError("set", f"{name}.{options[0]}", f"{name} alone: it has no options")
    inner = _replace(current.get(options[0]), options[0], options[1:], value)
    return {**current, options[0]: inner}


def _interval_s(cell: Cell) -> float:
    interval_s = parse_duration(cell.env["interval"], "interval") / 1e9
    if interval_s <= 0:
        raise ConfigError("interval", cell.env["interval"], "more than 0 s for a timed run")
    return interval_s


def _short_names(paths: Sequence[str]) -> dict[str, str]:
    """Return the last part of each path, or all of it where that is not enough."""
    last = {path: path.rpartition(".")[2] for path in paths}
    names = list(last.values())
    return {path: name if names.count(name) == 1 else path for path, name in last.items()}


def _labels(path: str, values: Sequence[Any]) -> list[str]:
    """Return a text for each value, fit for a file name."""
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise ConfigError("set", f"{path}={values}", f"one or more values of {path}")
    if any(value == other for value, other in itertools.combinations(values, 2)):
        raise ConfigError("set", f"{path}={list(values)}", "each value once")
    labels = [re.sub(r"[^\w.+:]+", "_", _label(value)) for value in values]
    if len(set(labels)) == len(labels) and max(map(len, labels)) <= LONGEST_NAME:
        return labels
    return [f"#{position}" for position in range(1, len(values) + 1)]


def _label(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, Mapping):
        parts = [f"{key}:{_label(part)}" for key, part in value.items()]
        return "+".join(part.removeprefix("name:") for part in parts)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "+".join(map(_label, value))
    return str(value)


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)
