"""Sweeps: one environment, its arguments varied over a design, under several policies and seeds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dcgym.config import as_name, check_keys, check_seconds
from dcgym.envs.factory import argument_names, default_of, env_id_of
from dcgym.suites.designs import SAMPLE, Axis, label_of, read_axes, renumbered
from dcgym.suites.spec import Arguments, Scalar
from dcgym.suites.suite import WARMUP_FRACTION, Case, Suite, check_runs
from dcgym.tasks.common.nested import replaced

__all__ = ["lasting", "make_cells", "set_argument", "sweep_suite"]


def sweep_suite(
    env: Arguments,
    axes: Mapping[str, object],
    policies: Sequence[str],
    sample: int | None = None,
    sampler: str = "latin",
) -> Suite:
    """Return the suite of every combination of some arguments' values.

    Args:
        env: Arguments of the environment that all runs share; ``env`` names it.
        axes: Values of each swept argument by its path, such as "interval" or "traffic.load";
            `dcgym.suites.designs.read_axes` says what else they may be.
        policies: Names of the policies.
        sample: Points of a sample of the ranges among the axes; none if None.
        sampler: How they are chosen: one of `dcgym.suites.designs.SAMPLERS`.

    Raises:
        ConfigError: No such argument, no values, or the same value twice.
    """
    return Suite(
        name="sweep",
        description="Every combination of some arguments' values.",
        cases=make_cells(env, read_axes(axes, sample, sampler)),
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


def make_cells(env: Arguments, axes: Sequence[Axis]) -> tuple[Case, ...]:
    """Return every combination of the rows of some axes; a single nameless cell if there are none.

    Args:
        env: Arguments that all cells share.
        axes: What varies.

    Raises:
        ConfigError: No such argument, or more cells than runs are allowed.
    """
    check_runs(math.prod(len(axis.rows) for axis in axes))
    longest = "-".join(f"{axis.name}={max(axis.labels, key=len)}" for axis in axes)
    if axes and as_name(longest) != longest:
        axes = renumbered(axes)
    cells = []
    for places in itertools.product(*(range(len(axis.rows)) for axis in axes)):
        arguments, values, parts = dict(env), {}, []
        for axis, at in zip(axes, places, strict=True):
            parts.append(f"{axis.name}={axis.labels[at]}")
            for path, value in zip(axis.paths, axis.rows[at], strict=True):
                if path != SAMPLE:
                    arguments = set_argument(arguments, path, value)
                label = axis.labels[at] if len(axis.paths) == 1 else label_of(value)
                values[path] = _scalar(value, label)
        arguments.setdefault("interval", default_of(env_id_of(env), "interval"))
        cells.append(Case(arguments, "-".join(parts), sweep=values))
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


def _scalar(value: object, label: str) -> Scalar:
    if isinstance(value, str):
        # The path of a file may hold bytes that are no text, which no table or figure has.
        return value.encode(errors="backslashreplace").decode()
    return value if value is None or isinstance(value, int | float) else label
