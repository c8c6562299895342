"""Commands to networks and pools, checked: what every backend of them refuses alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dcgym.config import check_int
from dcgym.errors import ConfigError
from dcgym.tasks.accelerators.agents import Agents
from dcgym.tasks.accelerators.rules import DEVICE_RULES, DeviceRule
from dcgym.tasks.balancing.rules import RULES
from dcgym.tasks.network.protocol import NetworkCommands

__all__ = [
    "check_assignments",
    "check_device_rule",
    "check_device_weights",
    "refuse_flow_commands",
    "rule_names",
    "sampled_flags",
]


def refuse_flow_commands(commands: NetworkCommands) -> None:
    """Refuse commands to flows, in a network of no capability ``flow_control``.

    Args:
        commands: What is decided.

    Raises:
        ConfigError: There are some.
    """
    if commands.flow_commands is not None:
        raise ConfigError("flow_commands", "given", "None: this network steers no flows")


def rule_names(rules: str | Sequence[str], n_balancers: int) -> Sequence[str]:
    """Return the name of each balancer's rule.

    Args:
        rules: Those names, or one for all.
        n_balancers: Number of balancers.

    Raises:
        ConfigError: There is no such rule, or not one for each.
    """
    names = [rules] * n_balancers if isinstance(rules, str) else rules
    if len(names) != n_balancers:
        raise ConfigError("rules", rules, f"{n_balancers} names of rules, one a balancer")
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


def sampled_flags(balancers: Sequence[int], n_balancers: int) -> list[bool]:
    """Tell of each balancer whether its samples are reduced.

    Args:
        balancers: Numbers of those whose are.
        n_balancers: Number of balancers.

    Raises:
        ConfigError: There is no such balancer.
    """
    numbers = {check_int("sampled", one, 0, n_balancers - 1) for one in balancers}
    return [number in numbers for number in range(n_balancers)]


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
