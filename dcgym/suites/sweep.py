"""Sweeps: one environment, its arguments varied over a grid, under several policies and seeds."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from dcgym.config import LONGEST_NAME, as_name, check_keys, check_list, check_seconds
from dcgym.envs.factory import argument_names, default_of, env_id_of
from dcgym.errors import ConfigError
from dcgym.files import load_mapping
from dcgym.suites.spec import Arguments, Scalar
from dcgym.suites.suite import WARMUP_FRACTION, Case, Suite, check_runs
from dcgym.tasks.common.nested import replaced
from dcgym.units import PLAIN

__all__ = ["lasting", "make_cells", "set_argument", "sweep_suite"]


def sweep_suite(
    env: Arguments, axes: Mapping[str, Sequence[object]], policies: Sequence[str]
) -> Suite:
    """Return the suite of every combination of some arguments' values.

    Args:
        env: Arguments of the environment that all runs share; ``env`` names it.
        axes: Values of each swept argument by its path, such as "interval" or "traffic.load".
        policies: Names of the policies.

    Raises:
        ConfigError: No such argument, no values, or the same value twice.
    """
    axes = {
        path: check_list("set", values, f"one or more values of {path}")
        for path, values in load_mapping(axes, "set").items()
    }
    return Suite(
        name="sweep",
        description="Every combination of some arguments' values.",
        cases=make_cells(env, axes),
        policies=policies,  # type: ignore[arg-type]  # The suite reads any list.
    )


def lasting(suite: Suite, episode_s: float, warmup_s: float | None = None) -> Suite:
    """Return a suite with runs of another length.

    Args:
        suite: The suite.
        episode_s: Seconds of one run.
        warmup_s: Time at the start that the metrics leave out; a sixth of the run if None.

    Raises:
        ConfigError: A value is not allowed.
    """
    episode_s = check_seconds("episode_s", episode_s)
    left_out_s = episode_s * WARMUP_FRACTION if warmup_s is None else warmup_s
    return replace(suite, episode_s=episode_s, warmup_s=left_out_s)


def make_cells(env: Arguments, axes: Mapping[str, Sequence[object]]) -> tuple[Case, ...]:
    """Return the grid of some axes; a single nameless cell where there are none.

    Args:
        env: Arguments that all cells share.
        axes: Values of each swept argument by its path.

    Raises:
        ConfigError: No such argument, no values, or the same value twice.
    """
    check_runs(math.prod(len(values) for values in axes.values()))
    labels = {path: _labels(path, values) for path, values in axes.items()}
    shorts = _short_names(list(axes))
    longest = _cell_name(shorts, {path: max(of_path, key=len) for path, of_path in labels.items()})
    if axes and as_name(longest) != longest:
        labels = {path: _numbers(values) for path, values in axes.items()}
    cells = []
    for positions in itertools.product(*(range(len(values)) for values in axes.values())):
        chosen = {path: axes[path][at] for path, at in zip(axes, positions, strict=True)}
        named = {path: labels[path][at] for path, at in zip(axes, positions, strict=True)}
        arguments = dict(env)
        for path, value in chosen.items():
            arguments = set_argument(arguments, path, value)
        arguments.setdefault("interval", default_of(env_id_of(env), "interval"))
        values = {path: _scalar(value, named[path]) for path, value in chosen.items()}
        cells.append(Case(arguments, _cell_name(shorts, named), sweep=values))
    return tuple(cells)


def set_argument(env: Arguments, path: str, value: object) -> dict[str, object]:
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
    return {**env, name: replaced("set", current, name, options, value)}


def _short_names(paths: Sequence[str]) -> dict[str, str]:
    """Return the last part of each path, or all of it where that is not enough."""
    last = {path: path.rpartition(".")[2] for path in paths}
    names = list(last.values())
    return {path: name if names.count(name) == 1 else path for path, name in last.items()}


def _labels(path: str, values: object) -> list[str]:
    """Return a text for each value, fit for a file name."""
    if not isinstance(values, list | tuple) or not values:
        raise ConfigError("set", f"{path}={values}", f"one or more values of {path}")
    if len(set(map(_key, values))) < len(values):
        raise ConfigError("set", f"{path}={list(values)}", "each value once")
    labels = [re.sub(r"[^\w.+:]+", "_", _label(value)) for value in values]
    if len(set(labels)) == len(labels) and max(map(len, labels)) <= LONGEST_NAME:
        return labels
    return _numbers(values)


def _key(value: object) -> Hashable:
    """Return what is the same for values that are the same."""
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, Mapping):
        return frozenset((key, _key(part)) for key, part in value.items())
    return tuple(map(_key, value)) if isinstance(value, list | tuple) else id(value)


def _numbers(values: Sequence[object]) -> list[str]:
    return [f"#{position}" for position in range(1, len(values) + 1)]


def _cell_name(shorts: Mapping[str, str], labels: Mapping[str, str]) -> str:
    return "-".join(f"{shorts[path]}={label}" for path, label in labels.items())


def _label(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, Mapping):
        parts = [f"{key}:{_label(part)}" for key, part in value.items()]
        return "+".join(part.removeprefix("name:") for part in parts)
    if isinstance(value, list | tuple):
        return "+".join(map(_label, value))
    return str(value) if isinstance(value, PLAIN) else type(value).__name__


def _scalar(value: object, label: str) -> Scalar:
    if isinstance(value, str):
        # The path of a file may hold bytes that are no text, which no table or figure has.
        return value.encode(errors="backslashreplace").decode()
    return value if value is None or isinstance(value, int | float) else label
