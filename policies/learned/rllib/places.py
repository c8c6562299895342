"""Runners of a training on the machines of a cluster: how many, and what each of them takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dcgym.errors import ConfigError
from dcgym.policies.clusters import EMULATION
from dcgym.policies.learned.environments import TrainingForm

__all__ = ["Places", "spread"]


@dataclass(frozen=True)
class Places:
    """Where environments run.

    Attributes:
        runners: Number of runners, a process each.
        form: What one of them steps.
        cpus: Cores that each takes.
        resources: What else each takes, by name.
    """

    runners: int
    form: TrainingForm
    cpus: int
    resources: Mapping[str, float] = field(default_factory=dict)


def spread(form: TrainingForm, address: str) -> tuple[TrainingForm, Places]:
    """Share copies of an environment out among the machines of the cluster that Ray is attached to.

    A runner takes one core, or where time is real one of the emulations that a machine was started
    for. All runners have as many copies, so that there may be more of them than were wanted.

    Args:
        form: How the copies would be stepped on this machine.
        address: Head of the cluster, for errors.

    Returns:
        The form of all copies together, and where they run.

    Raises:
        ConfigError: The machines have no room for the runners.
    """
    import ray

    is_real = form.in_real_time
    name = EMULATION if is_real else "CPU"
    nodes = ray.nodes()
    room = sum([int(node["Resources"].get(name, 0)) for node in nodes if node["Alive"]])
    wanted = form.n_copies if is_real else 1
    if room < wanted:
        allowed = f"machines with {wanted} {name} in all for these environments, and not {room}"
        raise ConfigError("address", address, allowed)
    runners = min(form.n_copies, room)
    each = math.ceil(form.n_copies / runners)
    n_agents = form.n_slots // form.n_copies
    own = replace(form, n_copies=each, n_slots=each * n_agents)
    whole = replace(form, n_copies=each * runners, n_slots=each * runners * n_agents)
    taken = {EMULATION: 1.0} if is_real else {}
    return whole, Places(runners, own, 0 if is_real else 1, taken)
