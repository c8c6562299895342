"""From a configuration, a mapping or a YAML file, to an environment of any form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import gymnasium as gym

from dcgym.config import check_in, check_keys
from dcgym.envs.registry import ENVIRONMENTS, AgentForm, Environment
from dcgym.envs.session import Session
from dcgym.envs.values import FloatArray, Mask, Observation
from dcgym.errors import ConfigError
from dcgym.files import check_nesting
from dcgym.tasks.common.presets import read_config
from dcgym.tasks.common.settings import RENDER_MODES, Duration

if TYPE_CHECKING:
    from dcgym.envs.parallel import TaskParallelEnv

__all__ = [
    "DEFAULT_ENV",
    "argument_names",
    "default_of",
    "env_id_of",
    "find_environment",
    "form_of",
    "interval_of",
    "make_env",
    "make_session",
    "make_vec_env",
    "newest_id",
    "parallel_env",
    "policy_family",
]

DEFAULT_ENV = "dcgym/CongestionControl-v2"

_ID = re.compile(r"([\w.-]+/)?[\w.-]+-v\d+")

ConfigSpec = str | Path | Mapping[str, object]


def make_env(config: ConfigSpec | None = None, **overrides: object) -> gym.Env[Observation, object]:
    """Build an environment of one agent with Gymnasium's wrappers.

    Args:
        config: A mapping, a preset's name, or the path of a YAML file, of the environment's
            arguments. `env` names the environment.
        overrides: Single arguments that win over the configuration.

    Raises:
        ConfigError: Unknown field or value that is not allowed.
    """
    environment, arguments = _read(config, overrides)
    check_keys(arguments, environment.single.arguments, "config")
    _check_render_mode(arguments)
    return gym.make(environment.id, **arguments)


def make_vec_env(
    config: ConfigSpec | None, num_envs: int, **overrides: object
) -> gym.vector.VectorEnv[Observation, object, FloatArray | Mask]:
    """Build a vector environment: one call steps all of its copies.

    Args:
        config: What `make_env` takes.
        num_envs: Number of environments.
        overrides: Single arguments that win over the configuration, and those of
            `dcgym.envs.vector.TaskVectorEnv`.

    Raises:
        ConfigError: Unknown field or value that is not allowed.
    """
    environment, arguments = _read(config, overrides)
    own = ("is_shared", "autoreset_mode")
    form = environment.agents if arguments.get("is_shared") else environment.single
    check_keys(arguments, [*(form or environment.single).arguments, *own], "config")
    _check_render_mode(arguments)
    return gym.make_vec(environment.id, num_envs, "vector_entry_point", **arguments)


def parallel_env(config: ConfigSpec | None = None, **overrides: object) -> TaskParallelEnv:
    """Build an environment of several agents, a PettingZoo `ParallelEnv`.

    Args:
        config: What `make_env` takes; or the id of an environment, "dcgym/" may be left out.
        overrides: Single arguments that win over the configuration.

    Raises:
        ConfigError: Unknown name, field or value that is not allowed.
        MissingDependency: PettingZoo is not installed.
    """
    if isinstance(config, str) and _ID.fullmatch(config):
        config = {"env": config}
    environment, arguments = _read(config, overrides)
    from dcgym.envs.parallel import TaskParallelEnv

    return TaskParallelEnv(environment.id, **arguments)


def make_session(config: ConfigSpec | None = None, **overrides: object) -> Session:
    """Build what the faces stand on: one copy with every agent that the environment can have.

    Args:
        config: What `make_env` takes. Arguments that only the form of one agent has choose it.
        overrides: Single arguments that win over the configuration.

    Raises:
        ConfigError: Unknown field or value that is not allowed.
    """
    environment, arguments = _read(config, overrides)
    form = form_of(environment, arguments)
    check_keys(arguments, form.arguments, "config")
    return Session(form.make(form.read(arguments), 1))


def form_of(environment: Environment, arguments: Mapping[str, object]) -> AgentForm:
    """Return the form of several agents, or that of one where the arguments or the task ask for it.

    Args:
        environment: The environment.
        arguments: Its arguments by name; ``env`` may be among them.
    """
    several = environment.agents
    if several is None or not {*arguments} - {"env"} <= {*several.arguments}:
        return environment.single
    return several


def env_id_of(arguments: Mapping[str, object]) -> str:
    """Return the id that a configuration's ``env`` names; "dcgym/" may be left out.

    Args:
        arguments: The configuration.

    Raises:
        ConfigError: There is no such environment.
    """
    return find_environment(arguments.get("env", DEFAULT_ENV)).id


def find_environment(name: object) -> Environment:
    """Return an environment by its id; "dcgym/" may be left out.

    Args:
        name: The id.

    Raises:
        ConfigError: There is no such environment, or another version of it.
    """
    full = _full_id(name)
    if isinstance(full, str) and (newest := newest_id(full)) != full:
        raise ConfigError("env", full, f"{newest}, whose results are others")
    return ENVIRONMENTS.find(full)


def newest_id(env_id: str) -> str:
    """Return the id of an environment's last version, for what is read of an earlier one.

    Args:
        env_id: An id. It is returned as it is where that version is there, or none at all.
    """
    name = env_id.rpartition("-v")[0]
    versions = [each for each in ENVIRONMENTS.names() if each.rpartition("-v")[0] == name]
    return env_id if env_id in versions or not versions else versions[-1]


def policy_family(env_id: str) -> str:
    """Return the family of the policies that act in an environment.

    Args:
        env_id: Its id.

    Raises:
        ConfigError: There is no such environment.
    """
    return find_environment(env_id).family


def argument_names(env_id: str) -> list[str]:
    """Return the names of an environment's arguments.

    Args:
        env_id: Its id.

    Raises:
        ConfigError: There is no such environment.
    """
    return find_environment(env_id).single.arguments


def default_of(env_id: str, argument: str) -> object:
    """Return what an environment takes where it is not told an argument.

    Args:
        env_id: Its id.
        argument: Name of the argument.

    Raises:
        ConfigError: There is no such environment or argument.
    """
    defaults = find_environment(env_id).single.defaults
    if argument not in defaults:
        raise ConfigError("argument", argument, sorted(defaults))
    return defaults[argument]


def interval_of(arguments: Mapping[str, object]) -> Duration:
    """Return the control interval of a configuration, or the mean length of its steps.

    Args:
        arguments: The configuration; ``env`` may be among them.

    Raises:
        ConfigError: There is no such environment, or an argument is not allowed.
    """
    environment = find_environment(arguments.get("env", DEFAULT_ENV))
    given = arguments.get("interval", default_of(environment.id, "interval"))
    if given is not None:
        return cast("Duration", given)
    own = {name: value for name, value in arguments.items() if name != "env"}
    check_keys(own, environment.single.arguments, "config")
    return environment.single.read(own).mean_interval()


def _check_render_mode(arguments: Mapping[str, object]) -> None:
    # Gymnasium looks at it before the environment does, and takes it for a text.
    check_in("render_mode", arguments.get("render_mode"), (None, *RENDER_MODES))


def _full_id(name: object) -> object:
    return f"dcgym/{name}" if isinstance(name, str) and "/" not in name else name


def _read(
    config: ConfigSpec | None, overrides: Mapping[str, object]
) -> tuple[Environment, dict[str, Any]]:
    """Return the environment that a configuration names, and its arguments."""
    arguments = {} if config is None else read_config(config)
    for name, value in overrides.items():
        check_nesting(name, value)
    arguments.update(overrides)
    environment = find_environment(arguments.pop("env", DEFAULT_ENV))
    return environment, arguments
