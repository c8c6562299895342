"""What the emulated pool refuses of rules and of programs in its servers' place."""

from __future__ import annotations

from collections.abc import Mapping

from dcgym.errors import ConfigError
from dcgym.tasks.balancing.events import CAPACITY_EVENTS, SERVER_FAULTS, TWIN_EVENTS
from dcgym.tasks.balancing.rules import check_kernel_rule
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.traffic.http.programs import ServerProgram

__all__ = ["REPORTED_RULES", "check_events", "check_rule", "read_program"]

REPORTED_RULES = ("sapp", "wsapp", "c3-rank")
"""Rules that go by loads of servers, which come with SYN-ACKs."""
# Nothing tells the end of a flow of UDP.
TIMED_RULES = ("peak-ewma",)
# What stands in for the servers knows nothing of them.
MESSAGE_RULES = ("prequal", "jiq")


def check_rule(name: str, scenario: Scenario, has_program: bool = False) -> None:
    """Refuse a rule that the balancers of a scenario cannot follow.

    Args:
        name: Its name.
        scenario: What carries the flows.
        has_program: Whether a program serves in the servers' place.

    Raises:
        ConfigError: It is not in the kernel, or needs what UDP or a program does not bring.
    """
    check_kernel_rule(name)
    if scenario.data_plane.transport == "udp" and name in REPORTED_RULES:
        allowed = "a rule that needs no servers' reports: they come with SYN-ACKs, not over UDP"
        raise ConfigError("rule", name, allowed)
    if scenario.data_plane.transport == "udp" and name in TIMED_RULES:
        allowed = "a rule that needs no response times: nothing tells the end of a flow of UDP"
        raise ConfigError("rule", name, allowed)
    if has_program and name in MESSAGE_RULES:
        allowed = "a rule without messages: a program answers no probes and tells nobody it is idle"
        raise ConfigError("rule", name, allowed)


def check_events(scenario: Scenario) -> None:
    """Refuse events that only the twin can make happen.

    Args:
        scenario: Its events.

    Raises:
        ConfigError: There is one.
    """
    for event in scenario.events:
        if event.kind in TWIN_EVENTS:
            raise ConfigError("event.kind", event.kind, "another one: only the simulation has it")


def read_program(
    spec: ServerProgram | Mapping[str, object] | str | None, scenario: Scenario
) -> ServerProgram | None:
    """Return the program that stands in for the servers, if there is one.

    Args:
        spec: The program, or what `ServerProgram.read` takes.
        scenario: What happens to its servers.

    Raises:
        ConfigError: A field is not allowed, or an event changes what a program cannot.
    """
    if spec is None:
        return None
    program = spec if isinstance(spec, ServerProgram) else ServerProgram.read(spec)
    if scenario.data_plane.transport == "udp":
        raise ConfigError("scenario.transport", "udp", "tcp with a program in the servers' place")
    for event in scenario.events:
        if event.kind in (*CAPACITY_EVENTS, *SERVER_FAULTS):
            raise ConfigError("event.kind", event.kind, "none that changes how fast a program is")
    return program
