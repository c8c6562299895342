"""From a configuration, a mapping or a YAML file, to an environment."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym

from dcgym.config import check_in, check_int, check_keys
from dcgym.envs.registration import ENV_IDS, register_envs
from dcgym.tasks.congestion.presets import read_config

__all__ = [
    "DEFAULT_ENV",
    "PARALLEL_ENVS",
    "argument_names",
    "default_of",
    "env_id_of",
    "make_env",
    "make_vec_env",
    "parallel_env",
    "policy_family",
]

DEFAULT_ENV = "dcgym/CongestionControl-v0"

PARALLEL_ENVS = {
    "LoadBalancing-v0": "dcgym.envs.load_balancing_parallel:ParallelLoadBalancingEnv",
}
"""Multi-agent environments by name: module and class."""


def make_env(
    config: str | Path | Mapping[str, Any] | None = None, **overrides: Any
) -> gym.Env[Any, Any]:
    """Build an environment with Gymnasium's wrappers (order check, time limit).

    Args:
        config: A mapping, a name of `dcgym.tasks.congestion.presets`, or the path of a YAML file, of the
            environment's arguments. `env` names the environment, `max_steps` its time limit in
            steps (None for none).
        overrides: Single arguments that win over the configuration.

    Raises:
        ConfigError: Unknown field or value that is not allowed.
    """
    arguments = read_config(config) if config is not None else {}
    arguments.update(overrides)
    env_id = env_id_of(arguments)
    arguments.pop("env", None)
    register_envs()
    check_keys(arguments, argument_names(env_id), "config")
    if "max_steps" not in arguments:
        return gym.make(env_id, **arguments)
    max_steps = arguments.pop("max_steps")
    limit = -1 if max_steps is None else check_int("max_steps", max_steps, 1)
    return gym.make(env_id, max_episode_steps=limit, **arguments)


def make_vec_env(
    config: str | Path | Mapping[str, Any], num_envs: int, **overrides: Any
) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Build a native vector environment: one call steps all of its environments.

    Args:
        config: What `make_env` takes.
        num_envs: Number of environments.
        overrides: Single arguments that win over the configuration.

    Raises:
        ConfigError: Unknown field, value that is not allowed, or an environment without a native
            vector form.
    """
    arguments = {**read_config(config), **overrides}
    native = [env_id for env_id in ENV_IDS if gym.spec(env_id).vector_entry_point]
    env_id = check_in("env", env_id_of(arguments), native)
    arguments.pop("env", None)
    entry_point = gym.spec(env_id).vector_entry_point
    assert isinstance(entry_point, str)
    make = gym.envs.registration.load_env_creator(entry_point)
    if "max_steps" in arguments:
        arguments["max_episode_steps"] = arguments.pop("max_steps")
    check_keys(arguments, sorted(inspect.signature(make).parameters), "config")
    return gym.make_vec(env_id, num_envs, "vector_entry_point", **arguments)


def parallel_env(name: str, **arguments: Any) -> Any:
    """Build a multi-agent environment, a PettingZoo `ParallelEnv`.

    Args:
        name: One of `PARALLEL_ENVS`.
        **arguments: The environment's arguments.

    Raises:
        ConfigError: Unknown name, field or value that is not allowed.
        MissingDependency: PettingZoo is not installed.
    """
    entry_point = PARALLEL_ENVS[check_in("env", name.removeprefix("dcgym/"), PARALLEL_ENVS)]
    make = gym.envs.registration.load_env_creator(entry_point)
    check_keys(arguments, sorted(inspect.signature(make).parameters), "config")
    return make(**arguments)


def env_id_of(arguments: Mapping[str, Any]) -> str:
    """Return the id that a configuration's ``env`` names; "dcgym/" may be left out.

    Raises:
        ConfigError: There is no such environment.
    """
    name = arguments.get("env", DEFAULT_ENV)
    if isinstance(name, str) and "/" not in name:
        name = f"dcgym/{name}"
    return str(check_in("env", name, ENV_IDS))


def policy_family(env_id: str) -> str:
    """Return the family of the policies that act in an environment."""
    return str(_load_class(env_id).policy_family)


def argument_names(env_id: str) -> list[str]:
    """Return the names of an environment's arguments."""
    return sorted(inspect.signature(_load_class(env_id)).parameters)


def default_of(env_id: str, argument: str) -> Any:
    """Return what an environment takes where it is not told an argument."""
    return inspect.signature(_load_class(env_id)).parameters[argument].default


def _load_class(env_id: str) -> Any:
    # The specs name their class as text; this loads the env's module, no backend.
    register_envs()
    entry_point = gym.spec(env_id).entry_point
    assert isinstance(entry_point, str)
    return gym.envs.registration.load_env_creator(entry_point)
