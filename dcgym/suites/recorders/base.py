"""What every run records, whatever its task and its backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.backends.records import Fidelity, Record
from dcgym.envs.bindings.episodes import EpisodeBinding
from dcgym.envs.drawn import own_system
from dcgym.envs.session import Session
from dcgym.envs.system import System
from dcgym.suites.results import FlowColumns
from dcgym.suites.spec import RunSpec
from dcgym.suites.statistics import FloatArray, mean_of, over_time, steady_part

__all__ = ["Columns", "Outcome", "Recorder", "Row", "StepResult", "episode_of", "narrowed"]

Row: TypeAlias = dict[str, float]
Columns: TypeAlias = Mapping[str, FloatArray]
# Of every step: its length, and the time before it that belongs to none.
STEP_TIMES = ("interval_us", "gap_us")
TIMES = ("time_s", *STEP_TIMES)
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class StepResult:
    """What a step led to, of each agent in order.

    Attributes:
        actions: What the policies decided.
        rewards: Rewards of the interval.
        infos: What the agents are told beside their observations.
    """

    actions: Sequence[object]
    rewards: Sequence[float]
    infos: Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """What a run found out.

    Attributes:
        metrics: Its metrics by name.
        flows: The flows, one array a column, or a table.
        fidelity: How far it can be believed.
        details: Further fields of its record.
    """

    metrics: Mapping[str, float]
    flows: FlowColumns
    fidelity: Fidelity
    details: Record = field(default_factory=dict)


class Recorder:
    """Records the steps of a run, and works out its metrics; one object a run.

    This one knows nothing of the task but what every `System` has. A task of another protocol has
    a subclass of its own in `RECORDERS`.

    Args:
        session: The copy that runs.
        spec: The run.
    """

    def __init__(self, session: Session, spec: RunSpec) -> None:
        self.session, self.spec = session, spec

    @property
    def system(self) -> System:
        """The task on its backend; of what is drawn, that of the episode."""
        return own_system(self.session.system)

    @classmethod
    def policy_seed(cls, seed: int, number: int) -> int:
        """Return the seed of an agent's policy: agents that draw must not draw the same.

        Args:
            seed: Seed of the run.
            number: Number of the agent.
        """
        return seed * 1000 + number

    @classmethod
    def configure(cls, spec: RunSpec, overrides: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments of the environment, as the record shows them.

        Args:
            spec: The run.
            overrides: Arguments that the policy asks for.
        """
        return {**spec.env, **overrides}

    @classmethod
    def recording(cls, spec: RunSpec) -> dict[str, object]:
        """Return arguments that are there only so that the run can be recorded.

        Args:
            spec: The run.
        """
        return {}

    @classmethod
    def drain_steps(cls, spec: RunSpec) -> int:
        """Return the steps after the run in which what it began may end, at most.

        Args:
            spec: The run.
        """
        return 0

    def begin(self) -> None:
        """Look at the state before the first step."""

    def end_window(self) -> None:
        """Look at the state after the last step; what comes now only lets its flows end."""

    def waits(self) -> bool:
        """Tell whether something that the run began has not ended."""
        return False

    def row(self, result: StepResult) -> Row:
        """Return what is recorded of a step.

        Args:
            result: What it led to.
        """
        return self.common_row(result) | {
            name: float(values[0]) for name, values in self.system.metrics().items()
        }

    def common_row(self, result: StepResult) -> Row:
        """Return the columns that all tasks have.

        Args:
            result: What the step led to.
        """
        reward, info = float(np.mean(result.rewards)), result.infos[0]
        times = {name: float(info[name]) for name in STEP_TIMES}
        return {"time_s": self.session.time_s(0), **times, "reward": reward}

    def finish(self, columns: Columns) -> Outcome:
        """Return what the run found out, while its backend still stands.

        Args:
            columns: The steps, one array a quantity.
        """
        steady = steady_part(columns, self.spec.warmup_s)
        metrics = {"reward_mean": mean_of(steady.pop("reward"))}
        metrics |= {name: over_time(steady, name) for name in steady if name not in TIMES}
        flows = split_columns(self.system.flow_records(0))
        return Outcome(metrics, flows, self.session.fidelity(0))


def split_columns(records: npt.NDArray[np.void]) -> dict[str, npt.NDArray[np.generic]]:
    """Return one array a field of structured records; none where they have no fields.

    Args:
        records: The records.
    """
    return {name: np.ascontiguousarray(records[name]) for name in records.dtype.names or ()}


def episode_of(system: System, kind: type[Kind]) -> Kind:
    """Return where the episode of a placement task is.

    Args:
        system: The task on its model.
        kind: What its episodes are.
    """
    return narrowed(narrowed(system.binding, EpisodeBinding).episode(0), kind)


def narrowed(found: object, kind: type[Kind]) -> Kind:
    """Return something as what the settings say that it is.

    Args:
        found: Such as a binding.
        kind: Its class.
    """
    assert isinstance(found, kind)
    return found
