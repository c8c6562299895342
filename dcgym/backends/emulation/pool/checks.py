"""What the emulated pool refuses of commands and of programs in its servers' place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.backends.commands import check_eligible, rule_names, sampled_flags
from dcgym.backends.emulation.capabilities import pool_with
from dcgym.backends.emulation.options import PoolOptions
from dcgym.config import check_in
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.events import CAPACITY_EVENTS, SERVER_FAULTS, TWIN_EVENTS
from dcgym.tasks.balancing.protocol import PoolCommands
from dcgym.tasks.balancing.rules import RULES
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.tasks.balancing.weights import check_weights
from dcgym.traffic.http.programs import ServerProgram

__all__ = [
    "REPORTED_RULES",
    "Told",
    "check_rule",
    "check_scenario",
    "read_commands",
    "read_program",
]

REPORTED_RULES = ("sapp", "wsapp", "c3-rank")
"""Rules that go by loads of servers, which come with SYN-ACKs."""
# Nothing tells the end of a flow of UDP.
TIMED_RULES = ("peak-ewma",)
# What stands in for the servers knows nothing of them.
MESSAGE_RULES = ("prequal", "jiq")


def check_rule(name: str, scenario: Scenario, options: PoolOptions) -> None:
    """Refuse a rule that the balancers of a scenario cannot follow.

    Args:
        name: Its name.
        scenario: What carries the flows.
        options: What serves, and what keeps flows on their server.

    Raises:
        ConfigError: It is not in the kernel, or needs what the options or UDP do not bring.
    """
    check_in("rule", RULES.find(name).name, pool_with(options).rules)
    if scenario.data_plane.transport == "udp" and name in REPORTED_RULES:
        allowed = "a rule that needs no servers' reports: they come with SYN-ACKs, not over UDP"
        raise ConfigError("rule", name, allowed)
    if scenario.data_plane.transport == "udp" and name in TIMED_RULES:
        allowed = "a rule that needs no response times: nothing tells the end of a flow of UDP"
        raise ConfigError("rule", name, allowed)
    if options.server_program is not None and name in MESSAGE_RULES:
        allowed = "a rule without messages: a program answers no probes and tells nobody it is idle"
        raise ConfigError("rule", name, allowed)


@dataclass(frozen=True)
class Told:
    """Commands to one pool, each as its balancers take it.

    Attributes:
        rules: Name of each front end's rule, B of them.
        weights: Of the servers at each front end, (B, N).
        eligible: Servers in service, (N,).
    """

    rules: Sequence[str] | None = None
    weights: npt.NDArray[np.float64] | None = None
    eligible: npt.NDArray[np.bool_] | None = None


def read_commands(commands: PoolCommands, scenario: Scenario, options: PoolOptions) -> Told:
    """Return what is decided about one pool.

    Args:
        commands: What.
        scenario: Its balancers and servers.
        options: What serves, and what keeps flows on their server.

    Raises:
        ConfigError: A command is not allowed.
    """
    for name in ("held_flows", "assignments"):
        if getattr(commands, name) is not None:
            allowed = "None in the emulation: real connections do not wait for an agent"
            raise ConfigError(name, getattr(commands, name), allowed)
    frontends, servers = scenario.n_frontends, scenario.n_servers
    rules, weights, eligible = None, None, None
    if commands.rules is not None:
        rules = rule_names(commands.rules, frontends)
        for name in rules:
            check_rule(name, scenario, options)
    if commands.weights is not None:
        [weights] = check_weights(commands.weights, (1, frontends, servers))
    if commands.eligible is not None:
        [eligible] = check_eligible(commands.eligible, 1, servers).copy()
    if commands.sampled is not None:
        sampled_flags(commands.sampled, frontends)
    return Told(rules, weights, eligible)


def check_scenario(scenario: Scenario, options: PoolOptions) -> None:
    """Refuse what only the twin can make happen, and what the scenario's packets cannot bear.

    Args:
        scenario: Its events, and what carries the flows.
        options: What keeps flows on their server.

    Raises:
        ConfigError: An event is the twin's, or cookies are to travel without TCP.
    """
    for event in scenario.events:
        if event.kind in TWIN_EVENTS:
            raise ConfigError("event.kind", event.kind, "another one: only the simulation has it")
    if options.consistency == "cookie" and scenario.data_plane.transport == "udp":
        allowed = "table over UDP: servers put their numbers into timestamps of TCP"
        raise ConfigError("consistency", "cookie", allowed)


def read_program(options: PoolOptions, scenario: Scenario) -> ServerProgram | None:
    """Return the program that stands in for the servers, if there is one.

    Args:
        options: Name it.
        scenario: What happens to its servers.

    Raises:
        ConfigError: A field is not allowed, or an event or a limit asks for what a program cannot.
    """
    if (spec := options.server_program) is None:
        return None
    program = spec if isinstance(spec, ServerProgram) else ServerProgram.read(spec)
    if scenario.data_plane.transport == "udp":
        raise ConfigError("scenario.transport", "udp", "tcp with a program in the servers' place")
    for group in scenario.pool.groups:
        for one in group.resources:
            if one.limit is not None:
                allowed = "None with a program in the servers' place"
                raise ConfigError(f"server.{one.name}_limit", one.limit, allowed)
    for event in scenario.events:
        if event.kind in (*CAPACITY_EVENTS, *SERVER_FAULTS):
            raise ConfigError("event.kind", event.kind, "none that changes how fast a program is")
    return program
