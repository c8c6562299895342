"""What a suite asks for, held against what its environments and backends can do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dcgym.backends.base import Capabilities
from dcgym.config import check_in, check_keys
from dcgym.envs.backends import stated_capabilities
from dcgym.envs.factory import (
    default_of,
    env_id_of,
    find_environment,
    form_of,
    interval_of,
    make_session,
)
from dcgym.errors import ConfigError, suggest
from dcgym.policies import CHECKPOINT_FILE, LEARNERS, make_policy, policy_names
from dcgym.policies.base import Overrides
from dcgym.policies.trained import folder_of
from dcgym.suites.results import run_folder
from dcgym.suites.shapes import check_shapes
from dcgym.suites.spec import Arguments
from dcgym.suites.suite import Case, Suite
from dcgym.tasks.network.controls import CONGESTION_CONTROLS
from dcgym.units import parse_duration

__all__ = [
    "capabilities_of",
    "check_suite",
    "fit_policies",
    "fit_suite",
    "interval_s",
    "needs_of",
    "steps_in",
]


def check_suite(suite: Suite) -> None:
    """Refuse what cannot run, before anything is started.

    Args:
        suite: The suite.

    Raises:
        ConfigError: A name is unknown, or something cannot run where it is asked for.
    """
    _check_policies(suite)
    if suite.until is not None and suite.cases:
        layout = find_environment(env_id_of(suite.cases[0].env)).layout
        check_in("until", suite.until.metric, [*layout.ends])
    check_shapes(suite.shapes, suite.case_names, sorted(policy_names(suite.family)))
    _check_checkpoints(suite)
    if not suite.cases:
        raise ConfigError("cases", (), "one case or more")
    _check_names(suite)
    trained: list[Arguments] = []
    for case in suite.cases:
        interval_s(case.env)
        # Environments check their arguments when they are made, and start nothing.
        make_session(case.env).close()
        # Cases may train in the same environment, which takes longer to make if it is drawn.
        if case.train_env is not None and case.train_env not in trained:
            make_session(case.train_env).close()
            trained.append(case.train_env)
        _check_capabilities(suite, case)


def steps_in(seconds: float, env: Arguments) -> int:
    """Return how many control intervals a run lasts, one or more.

    Args:
        seconds: Its length.
        env: Arguments of the environment.

    Raises:
        ConfigError: There is no such argument, or it runs freely, without seconds.
    """
    return max(1, round(seconds / interval_s(env)))


def capabilities_of(env: Arguments) -> Capabilities:
    """Return what the backend of an environment can do; nothing is started.

    Args:
        env: Arguments of the environment.

    Raises:
        ConfigError: An argument is not allowed.
    """
    env_id = env_id_of(env)
    form = form_of(find_environment(env_id), env)
    backend = env.get("backend", default_of(env_id, "backend"))
    if (stated := stated_capabilities(backend, form.makers)) is not None:
        return stated
    session = make_session(env)
    try:
        return session.system.capabilities
    finally:
        session.close()


def fit_policies(policies: tuple[str, ...], env: Arguments) -> tuple[str, ...]:
    """Return the policies whose rule and congestion control the backend of an environment has.

    Args:
        policies: Names of policies.
        env: Arguments of the environment.

    Raises:
        ConfigError: A name is unknown.
    """
    family, can = find_environment(env_id_of(env)).family, capabilities_of(env)
    return tuple(name for name in policies if _fits(_asked_by(name, family), can))


def fit_suite(suite: Suite) -> Suite:
    """Return a suite without the policies that the backend of one of its cases lacks.

    Args:
        suite: The suite.
    """
    policies = suite.policies
    for case in suite.cases:
        fit = fit_policies(policies, case.env)
        policies = tuple(name for name in policies if name in fit or not case.meets(name))
    return replace(suite, policies=policies)


def needs_of(suite: Suite) -> str:
    """Say what a suite needs to run, for listings.

    Args:
        suite: The suite.
    """
    is_real_time = any(capabilities_of(case.env).real_time for case in suite.cases)
    return "root and real time" if is_real_time else "neither root nor real time"


def interval_s(env: Arguments) -> float:
    """Return the seconds of a control interval.

    Args:
        env: Arguments of the environment.

    Raises:
        ConfigError: There is no such argument, or it runs freely, without seconds.
    """
    value = interval_of(env)
    parsed = parse_duration(value, "interval") / 1e9
    if parsed <= 0:
        raise ConfigError("interval", value, "more than 0 s for a timed run")
    return parsed


def _asked_by(policy: str, family: str) -> Overrides:
    """Return what a policy asks of its environment."""
    return {} if policy in LEARNERS else make_policy(policy, family=family).env_overrides()


def _fits(asked: Overrides, can: Capabilities) -> bool:
    rule, transport = asked.get("rule"), asked.get("congestion_control")
    has_rule = rule is None or rule in can.rules
    has_rule &= asked.get("path_rule", "ecmp") in can.path_rules
    if transport is None or can.linux_modules:
        return has_rule
    return has_rule and CONGESTION_CONTROLS.find(transport).is_in_twin


def _check_policies(suite: Suite) -> None:
    known = sorted(policy_names(suite.family))
    if not suite.policies:
        raise ConfigError("policies", "", known)
    for name in suite.policies:
        if name not in known:
            raise ConfigError("policies", name, known, suggest(name, known))
    if len(set(suite.policies)) != len(suite.policies):
        raise ConfigError("policies", ",".join(suite.policies), "each name once")


def _check_names(suite: Suite) -> None:
    """Refuse runs that would share a folder, and folders that no file system takes."""
    found: set[str] = set()
    for case in suite.cases:
        for policy in filter(case.meets, suite.policies):
            name = run_folder(Path(), case.name, policy, suite.seeds - 1).name
            if name in found:
                raise ConfigError("run", name, "cases and policies whose names differ together")
            found.add(name)


def _check_checkpoints(suite: Suite) -> None:
    check_keys(suite.checkpoints, sorted(LEARNERS), "checkpoint")
    for folder in suite.checkpoints.values():
        if not (folder_of(folder) / CHECKPOINT_FILE).is_file():
            raise ConfigError("checkpoint", str(folder), f"a folder with {CHECKPOINT_FILE}")


def _check_capabilities(suite: Suite, case: Case) -> None:
    fit = fit_policies(suite.policies, case.env)
    for name in suite.policies:
        if case.meets(name) and name not in fit:
            backend = case.env.get("backend", "this backend")
            raise ConfigError("policies", name, f"with {backend} one of {list(fit)}")
