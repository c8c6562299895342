"""One run: the only loop there is, for every task, backend and number of agents."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np
from gymnasium.utils import seeding

from dcgym.backends.names import named_runs
from dcgym.backends.records import Record
from dcgym.envs.factory import env_id_of, find_environment, form_of, make_session
from dcgym.envs.session import Session
from dcgym.errors import BackendError
from dcgym.policies import Policy, load_policy, make_policy
from dcgym.policies.learned.acting import LearnedPolicy
from dcgym.suites.recorders import RECORDERS, Columns, Outcome, Recorder, Row, StepResult
from dcgym.suites.results import RUN_FILES, machine, run_name, write_run
from dcgym.suites.spec import RunSpec
from dcgym.writing import new_folder

__all__ = ["MakePolicy", "Progress", "bind_policy", "policy_of", "recorder_of", "run_episode"]

REPORTS = 100
"""Progress reports of a run, about."""

Progress: TypeAlias = Callable[[float, str], None]
MakePolicy: TypeAlias = Callable[[int], Policy]


@dataclass(frozen=True)
class _Run:
    """What a run consists of; its environment has not begun yet."""

    env_id: str
    config: dict[str, object]
    session: Session
    policies: list[Policy]
    recorder: type[Recorder]


def run_episode(
    spec: RunSpec, progress: Progress = lambda *_: None, make: MakePolicy | None = None
) -> Record:
    """Run one episode and return its record.

    Args:
        spec: The run.
        progress: Called with the done fraction and a note.
        make: Makes the policy of an agent from its seed; None makes what the run names.

    Raises:
        ConfigError: Something in the specification is not allowed, or its folder cannot be written.
        BackendError: The backend died.
        FeatureNotSupported: What the backend needs was not built.
    """
    started = time.monotonic()
    with nullcontext() if spec.folder is None else new_folder(spec.folder, "out", RUN_FILES):
        run = _prepare(spec, make)
        try:
            columns, outcome = _roll_out(run, spec, progress)
            backend = run.session.system.backend
            name = "" if backend is None else str(backend.name)
        except BackendError as error:
            # Whoever calls this has no environment to reset.
            error.advice = "the same call begins anew"
            raise
        finally:
            run.session.close()
        duration_s = round(time.monotonic() - started, 3)
        record = _record(spec, run, outcome) | {"backend": name, "duration_s": duration_s}
        if spec.folder is not None:
            write_run(Path(spec.folder), record, columns, outcome.flows, spec.key)
        return record


def _prepare(spec: RunSpec, make: MakePolicy | None) -> _Run:
    recorder = recorder_of(spec)
    make = make or partial(policy_of, spec)
    first = make(recorder.policy_seed(spec.seed, 0))
    config = recorder.configure(spec, first.env_overrides())
    session = make_session({**config, "max_steps": spec.steps, **recorder.recording(spec)})
    others = [
        make(recorder.policy_seed(spec.seed, number))
        for number in range(1, len(session.system.agents))
    ]
    return _Run(env_id_of(spec.env), config, session, [first, *others], recorder)


def recorder_of(spec: RunSpec) -> type[Recorder]:
    """Return what records the run of an environment.

    Args:
        spec: The run.

    Raises:
        ConfigError: There is no such environment.
    """
    return RECORDERS.find(form_of(find_environment(env_id_of(spec.env)), spec.env).recorder)


def policy_of(spec: RunSpec, seed: int) -> Policy:
    """Return a policy that a run names; it is not bound.

    Args:
        spec: The run.
        seed: Seed of the policy.

    Raises:
        ConfigError: There is no such policy or checkpoint.
    """
    if spec.checkpoint is not None:
        return load_policy(spec.checkpoint)
    family = find_environment(env_id_of(spec.env)).family
    return make_policy(spec.policy, family=family, seed=seed, **spec.params)


def bind_policy(policy: Policy, largest: object, task: object) -> Policy:
    """Bind a policy to an episode that has begun.

    Args:
        policy: The policy.
        largest: The task before the first episode. A randomised environment shows what its largest
            draw has: what networks were trained on.
        task: The task of the episode.

    Raises:
        ConfigError: The policy does not fit the task.
    """
    return policy.bind(largest if isinstance(policy, LearnedPolicy) else task)


def _roll_out(run: _Run, spec: RunSpec, progress: Progress) -> tuple[Columns, Outcome]:
    """Run the steps and return them as columns, and what the run found out."""
    session = run.session
    every = math.ceil(spec.steps / REPORTS)
    progress(0.0, "building")
    largest = session.system.task()
    with named_runs(run_name(spec.scenario, spec.policy, spec.seed)):
        session.begin([seeding.np_random(spec.seed)[0]])
    # Now: a randomised environment has drawn what the episode is about.
    recorder, task = run.recorder(session, spec), session.system.task()
    policies = [bind_policy(policy, largest, task) for policy in run.policies]
    session.advance()
    recorder.begin()
    steps = _steps(session, policies)
    rows: list[Row] = []
    for index, result in enumerate(islice(steps, spec.steps)):
        rows.append(recorder.row(result))
        if index % every == 0:
            progress((index + 1) / spec.steps, "running")
    progress(1.0, "")
    recorder.end_window()
    # Flows that a run leaves unfinished are more often the long ones.
    left = recorder.drain_steps(spec)
    while left and recorder.waits() and next(steps, None):
        left -= 1
    columns = {name: np.array([row.get(name, math.nan) for row in rows]) for name in rows[0]}
    return columns, recorder.finish(columns)


def _steps(session: Session, policies: Sequence[Policy]) -> Iterator[StepResult]:
    """Take one step after the other, until nothing is left to do."""
    agents = range(len(policies))
    infos = [session.info(0, agent) for agent in agents]
    while not session.finished()[0]:
        seen = session.observations[0]
        actions = [
            policy.act(own.copy(), info)
            for policy, own, info in zip(policies, seen, infos, strict=True)
        ]
        session.advance([actions])
        infos = [session.info(0, agent) for agent in agents]
        terms = session.system.terms.values()
        rewards = [float(sum(one.item(0, agent) for one in terms)) for agent in agents]
        yield StepResult(actions, rewards, infos)


def _record(spec: RunSpec, run: _Run, outcome: Outcome) -> Record:
    return {
        "env": run.env_id,
        "scenario": spec.scenario,
        "sweep": dict(spec.sweep),
        "policy": spec.policy,
        "seed": spec.seed,
        "metrics": dict(outcome.metrics),
        "fidelity": outcome.fidelity.to_dict(),
        **outcome.details,
        "config": {**run.config, "steps": spec.steps, "warmup_s": spec.warmup_s},
        "training": spec.training,
        "finished": datetime.now().astimezone().isoformat(timespec="seconds"),
        "machine": machine(),
    }
