"""Episodes of pools and commands, checked: what every backend of them refuses alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Mask
from dcgym.config import check_int
from dcgym.errors import ConfigError
from dcgym.tasks.accelerators.agents import Agents
from dcgym.tasks.accelerators.protocol import DeviceEpisode
from dcgym.tasks.accelerators.rules import DEVICE_RULES, DeviceRule
from dcgym.tasks.balancing.rules import RULES
from dcgym.tasks.network.protocol import NetworkCommands

__all__ = [
    "check_assignments",
    "check_device_rule",
    "check_device_weights",
    "check_eligible",
    "read_device_episodes",
    "read_seeds",
    "refuse_flow_commands",
    "rule_names",
    "sampled_flags",
]


MOST_SEED = 2**64 - 1


def read_seeds(
    seeds: int | Sequence[int | None], n_envs: int
) -> tuple[npt.NDArray[np.uint64], Mask]:
    """Return the seed of each copy of a pool, 0 for those that stay, and which begin, (E,) each.

    Args:
        seeds: Of each copy, None for one that stays; or one, from which on copies count.
        n_envs: Number of copies E.

    Raises:
        ConfigError: There is not one for each copy, or one is no whole number from 0 to 2**64 - 1.
    """
    if isinstance(seeds, int | np.integer):
        first = check_int("seeds", seeds, 0, MOST_SEED)
        given: list[object] = [(first + env) % (MOST_SEED + 1) for env in range(n_envs)]
    else:
        given = _one_each("seeds", seeds, n_envs, "whole numbers of 0 or more")
    drawn = [0 if one is None else check_int("seeds", one, 0, MOST_SEED) for one in given]
    return np.array(drawn, np.uint64), np.array([one is not None for one in given])


def read_device_episodes(
    episodes: Sequence[DeviceEpisode | None], n_envs: int, rate_per_s: float
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64], Mask]:
    """Return the seed and the rate of each copy, and which begin, (E,) each.

    Args:
        episodes: Of each copy; None for one that stays.
        n_envs: Number of copies E.
        rate_per_s: Requests a second where an episode names none.

    Raises:
        ConfigError: There is not one for each copy, or a seed or a rate is not allowed.
    """
    given = _one_each("episodes", episodes, n_envs, "DeviceEpisodes")
    found = [one for one in given if one is None or isinstance(one, DeviceEpisode)]
    if len(found) < n_envs:
        raise ConfigError("episodes", episodes, f"{n_envs} DeviceEpisodes")
    seeds, mask = read_seeds([None if one is None else one.seed for one in found], n_envs)
    asked = [None if one is None else one.rate_per_s for one in found]
    rates = np.array([rate_per_s if rate is None else rate for rate in asked], np.float64)
    if not np.isfinite(rates).all() or (rates < 0).any():
        raise ConfigError("rate_per_s", asked, "finite numbers of 0 or more")
    return seeds, rates, mask


def _one_each(name: str, given: object, n_envs: int, what: str) -> list[object]:
    """Return what a sequence holds for each copy."""
    found = list(given) if isinstance(given, Iterable) else []
    if len(found) != n_envs:
        raise ConfigError(name, given, f"{n_envs} {what}, or None for a copy that stays")
    return found


def refuse_flow_commands(commands: NetworkCommands) -> None:
    """Refuse commands to flows, in a network of no capability ``flow_control``.

    Args:
        commands: What is decided.

    Raises:
        ConfigError: There are some.
    """
    if commands.flow_commands is not None:
        raise ConfigError("flow_commands", "given", "None: this network steers no flows")


def rule_names(rules: str | Sequence[str], n_frontends: int) -> Sequence[str]:
    """Return the name of each front end's rule.

    Args:
        rules: Those names, or one for all.
        n_frontends: Number of front ends.

    Raises:
        ConfigError: There is no such rule, or not one for each.
    """
    names = [rules] * n_frontends if isinstance(rules, str) else rules
    if len(names) != n_frontends:
        raise ConfigError("rules", rules, f"{n_frontends} names of rules, one a front end")
    for name in names:
        RULES.find(name)
    return names


def check_assignments(servers: npt.ArrayLike, n_envs: int, n_servers: int) -> npt.NDArray[np.int32]:
    """Return the server of each copy's flow that waits, below 0 for that of the rule.

    Args:
        servers: Their numbers, (E,).
        n_envs: Number of copies E.
        n_servers: Number of servers.

    Raises:
        ConfigError: There is no such server, or not one for each copy.
    """
    given = np.asarray(servers)
    is_read = given.shape == (n_envs,) and given.dtype.kind in "iu"
    if not is_read or np.minimum.reduce(given) < -1 or np.maximum.reduce(given) >= n_servers:
        allowed = f"{n_envs} numbers of servers, 0 to {n_servers - 1}, or -1 for the rule's"
        raise ConfigError("assignments", servers, allowed)
    return given.astype(np.int32)


def check_eligible(eligible: npt.ArrayLike, n_envs: int, n_servers: int) -> Mask:
    """Return which servers of each copy take new flows, (E, N).

    Args:
        eligible: Booleans of that shape.
        n_envs: Number of copies E.
        n_servers: Number of servers N.

    Raises:
        ConfigError: They are none, or no server of a copy is left.
    """
    given = np.asarray(eligible)
    if given.shape != (n_envs, n_servers) or given.dtype != np.bool_:
        raise ConfigError("eligible", eligible, f"booleans of shape {(n_envs, n_servers)}")
    if not np.logical_or.reduce(given, axis=1).all():
        raise ConfigError("eligible", False, "True for one server of each copy at least")
    return np.ascontiguousarray(given)


def sampled_flags(frontends: Sequence[int], n_frontends: int) -> list[bool]:
    """Tell of each front end whether its samples are reduced.

    Args:
        frontends: Numbers of those whose are.
        n_frontends: Number of front ends.

    Raises:
        ConfigError: There is no such front end.
    """
    numbers = {check_int("sampled", one, 0, n_frontends - 1) for one in frontends}
    return [number in numbers for number in range(n_frontends)]


def check_device_rule(name: str, agents: Agents) -> DeviceRule:
    """Return a rule between devices.

    Args:
        name: Its name.
        agents: What the devices report.

    Raises:
        ConfigError: There is no such rule, or it needs what the agents do not report.
    """
    rule = DEVICE_RULES.find(name)
    if not agents.serves(rule.needs):
        wanted = "event" if rule.needs == "busy" else "periodic"
        allowed = f"kind {wanted}: {rule.name} needs its reports of {rule.needs}"
        raise ConfigError("agents", agents.kind, allowed)
    return rule


def check_device_weights(
    weights: npt.ArrayLike, shape: tuple[int, int, int]
) -> npt.NDArray[np.float64]:
    """Return weights of devices in full.

    Args:
        weights: What broadcasts to the shape.
        shape: Environments, servers, devices.

    Raises:
        ConfigError: A weight is not allowed, or those of a server are all 0.
    """
    try:
        values = np.broadcast_to(np.asarray(weights, np.float64), shape)
    except ValueError:
        raise ConfigError("device_weights", weights, f"an array of shape {shape}") from None
    if not np.isfinite(values).all() or (values < 0).any():
        raise ConfigError("device_weights", weights, "finite numbers of 0 or more")
    if (values.sum(axis=2) <= 0).any():
        raise ConfigError(
            "device_weights", weights, "above 0 for one device of each server at least"
        )
    return values
