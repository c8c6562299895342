"""From a configuration, a mapping or a YAML file, to an environment."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym

from dcgym.config import check_in, check_int, check_keys
from dcgym.presets import read_config
from dcgym.registration import ENV_IDS, register_envs

__all__ = ["make_env"]

DEFAULT_ENV = "dcgym/CongestionControl-v0"


def make_env(
    config: str | Path | Mapping[str, Any] | None = None, **overrides: Any
) -> gym.Env[Any, Any]:
    """Build an environment with Gymnasium's wrappers (order check, time limit).

    Args:
        config: A mapping, a name of `dcgym.presets`, or the path of a YAML file, of the
            environment's arguments. `env` names the environment, `max_steps` its time limit in
            steps (None for none).
        overrides: Single arguments that win over the configuration.

    Raises:
        ConfigError: Unknown field or value that is not allowed.
    """
    arguments = read_config(config) if config is not None else {}
    arguments.update(overrides)
    env_id = check_in("env", arguments.pop("env", DEFAULT_ENV), ENV_IDS)
    register_envs()
    check_keys(arguments, _allowed_fields(env_id), "config")
    if "max_steps" not in arguments:
        return gym.make(env_id, **arguments)
    max_steps = arguments.pop("max_steps")
    limit = -1 if max_steps is None else check_int("max_steps", max_steps, 1)
    return gym.make(env_id, max_episode_steps=limit, **arguments)


def _allowed_fields(env_id: str) -> list[str]:
    # "dcgym/..." specs name their class as text; this loads the env's module, no backend.
    entry_point = gym.spec(env_id).entry_point
    assert isinstance(entry_point, str)
    parameters = inspect.signature(gym.envs.registration.load_env_creator(entry_point)).parameters
    return sorted(parameters)
