"""What the learners share: limits, progress, and a checkpoint whatever ends the training."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from dcgym.config import check_int, check_seconds
from dcgym.errors import BackendError, ConfigError, DcgymError, TrainingError
from dcgym.policies.checkpoint import CheckpointNote, read_note, write_note
from dcgym.policies.learned.shaping import Shaping
from dcgym.policies.learned.states import forget_state, write_state
from dcgym.policies.learned.view import View
from dcgym.policies.learners import EnvConfig, Progress, ProgressCallback

if TYPE_CHECKING:
    from dcgym.policies.learned.cloning import Demonstrations

__all__ = [
    "BEST_FOLDER",
    "Trainee",
    "TrainingClock",
    "TrainingJob",
    "TrainingOpener",
    "TrainingRun",
    "train",
    "what_is_kept",
]

BEST_FOLDER = "best"
"""Folder of the policy with the highest mean reward, in the folder of the last one."""

KEEP_EVERY_S = 10.0
# A state is larger than what acts, by its critics and optimisers.
STATE_EVERY_S = 60.0
CURVE_POINTS = 200


@dataclass(frozen=True)
class TrainingJob:
    """What a library is told of a training.

    Attributes:
        env_config: Arguments of `make_env`.
        seed: Seed of the learner and of the environments.
        n_envs: Environments side by side.
        settings: Hyper-parameters by the names of the library, in place of ours.
        view: How observations are shown; None for one at a time as it is.
        state: Folder of a state to go on from; None for a new training.
        demonstrations: What the policy did that the training starts from; None for none.
        shaping: What is paid for beside the rewards; None for nothing.
        address: Head of the cluster on whose machines environments run; None for this machine.
    """

    env_config: EnvConfig
    seed: int
    n_envs: int
    settings: Mapping[str, object] = field(default_factory=dict)
    view: View | None = None
    state: Path | None = None
    demonstrations: Demonstrations | None = None
    shaping: Shaping | None = None
    address: str | None = None


class Trainee(Protocol):
    """An algorithm of a library whose environments run."""

    def learn(self, clock: TrainingClock) -> None:
        """Learn until the clock is over, and report to it.

        Args:
            clock: Counts steps and time; the trainee begins it.
        """
        ...

    def save(self, folder: Path) -> Mapping[str, object]:
        """Save what was learned so far.

        Args:
            folder: The checkpoint folder.

        Returns:
            What else the library needs to load it, as JSON can hold it.

        Raises:
            TrainingError: The network holds numbers that are not finite; no file has changed.
        """
        ...

    def save_state(self, folder: Path, is_last: bool) -> None:
        """Save what a training needs to go on later.

        Args:
            folder: A folder for it, which is empty.
            is_last: Whether the training ends: what takes long to write is written, too.
        """
        ...


TrainingOpener: TypeAlias = Callable[[TrainingJob], AbstractContextManager[Trainee]]
"""Starts a library and environments, and ends them whatever happened."""


TrainingRun: TypeAlias = Callable[
    [TrainingOpener, TrainingJob, CheckpointNote, "TrainingClock", Path], None
]
"""What `train` is: trains a job within a clock's limits, and leaves a checkpoint in a folder."""


class TrainingClock:
    """Counts steps and seconds against their limits, from the first sample on.

    Attributes:
        steps: Environment steps to train.
        total_steps: These, and those before the training was resumed.
        budget_s: Seconds after which training ends early, or None.
        before: How far the training was when it was resumed; None for a new one.
        last: What was reported last.
        curve: Seconds, steps and mean reward of each report that knows one.
        keep: Writes a checkpoint; called at the first report, and now and then.
    """

    def __init__(
        self,
        steps: int,
        budget_s: float | None,
        progress: ProgressCallback | None,
        before: Progress | None = None,
    ) -> None:
        """Set the limits; time counts from `begin`.

        Args:
            steps: Environment steps to train.
            budget_s: Wall-clock seconds of sampling and learning after which training ends early,
                or None.
            progress: Called at every report.
            before: How far the training was, which is resumed.
        """
        self.steps = check_int("steps", steps, 1)
        self.budget_s = None if budget_s is None else check_seconds("budget_s", budget_s)
        self.before = before
        self._progress = progress
        self._begin_s: float | None = None
        begun = Progress(0, 0, 0.0, None) if before is None else before
        self.total_steps = begun.steps + steps
        self.last = replace(begun, total_steps=self.total_steps)
        self.curve: list[tuple[float, int, float]] = []
        self.keep: Callable[[], None] = lambda: None
        self._kept_s = -math.inf

    def begin(self) -> None:
        """Start counting: every environment runs, and the first step is about to be taken."""
        self._begin_s = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since `begin`, and those before the training was resumed."""
        return self._elapsed_s + (0.0 if self.before is None else self.before.seconds)

    @property
    def has_begun(self) -> bool:
        """Whether `begin` was called."""
        return self._begin_s is not None

    @property
    def _elapsed_s(self) -> float:
        return 0.0 if self._begin_s is None else time.monotonic() - self._begin_s

    @property
    def is_over(self) -> bool:
        """Whether the steps are done or the budget is spent."""
        is_spent = self.budget_s is not None and self._elapsed_s >= self.budget_s
        return is_spent or self.last.steps >= self.total_steps

    @property
    def share(self) -> float:
        """How much of the training is over, 0 to 1, by steps or by seconds."""
        spent = 0.0 if self.budget_s is None else self._elapsed_s / self.budget_s
        return min(max(spent, self.last.steps / self.total_steps), 1.0)

    def report(self, steps: int, reward_mean: float | None) -> None:
        """Note the state of the training and tell the callback.

        Args:
            steps: Environment steps so far.
            reward_mean: Mean reward per step of recent episodes, if one ended.
        """
        # Libraries say NaN for "no episode ended"; JSON has no word for that but null.
        is_known = reward_mean is not None and math.isfinite(reward_mean)
        mean = float(reward_mean) if reward_mean is not None and is_known else self.last.reward_mean
        now_s = self.seconds
        self.last = Progress(steps, self.total_steps, now_s, mean)
        if is_known and mean is not None:
            self.curve.append((round(now_s, 3), int(steps), mean))
        if steps and now_s - self._kept_s >= KEEP_EVERY_S:
            self._kept_s = now_s
            self.keep()
        self.follow(self.last)

    def follow(self, progress: Progress) -> None:
        """Note what another clock reported and tell the callback.

        Args:
            progress: The state of the training.
        """
        self.last = progress
        if self._progress is not None:
            self._progress(progress)

    def check_trained(self) -> None:
        """Refuse an untrained network, which would be scored like a trained one.

        Raises:
            DcgymError: Not one step was sampled.
        """
        if self.last.steps == (0 if self.before is None else self.before.steps):
            raise DcgymError(f"training ended after {self.seconds:.0f} s without a single step")


def what_is_kept(n_steps: object) -> str:
    """Say what is left of a training that broke.

    Args:
        n_steps: Steps that its checkpoint has; 0 where there is none.
    """
    kept = f"the checkpoint has {n_steps} steps, from which the training can be resumed"
    return kept if n_steps else "it has learned nothing yet"


class _Keeper:
    """Writes the checkpoint of a training: the last policy, the best one, and the state.

    Attributes:
        n_steps: Steps that the checkpoint has; 0 where there is none.
    """

    def __init__(
        self, trainee: Trainee, note: CheckpointNote, clock: TrainingClock, folder: Path
    ) -> None:
        self._trainee, self._note, self._clock, self._folder = trainee, note, clock, folder
        self._best = -math.inf if clock.before is None else _best_of(folder)
        self._has_other_state = clock.before is None
        self._state_s = -math.inf
        self.n_steps = 0

    def keep(self, is_last: bool = False) -> None:
        """Write what there is.

        Args:
            is_last: Whether the training ends.

        Raises:
            TrainingError: The network holds numbers that are not finite; the last checkpoint is
                left as it was.
        """
        if self._has_other_state:
            # That of another training, from which this one shall not go on.
            forget_state(self._folder)
            self._has_other_state = False
        self._write(self._folder)
        mean, now_s = self._clock.last.reward_mean, self._clock.seconds
        if mean is not None and mean > self._best:
            self._best = mean
            best = self._folder / BEST_FOLDER
            best.mkdir(exist_ok=True)
            self._write(best)
        if is_last or now_s - self._state_s >= STATE_EVERY_S:
            self._state_s = now_s
            last = self._clock.last
            write_state(self._folder, last, lambda to: self._trainee.save_state(to, is_last))

    def _write(self, folder: Path) -> None:
        last, curve = self._clock.last, self._clock.curve
        details = self._trainee.save(folder)
        thin = curve[:: math.ceil(len(curve) / CURVE_POINTS) or 1]
        earlier = [*self._note.curve, *thin]
        note = replace(self._note, training=asdict(last), details=details, curve=earlier)
        write_note(folder, note)
        self.n_steps = last.steps


def train(
    open_training: TrainingOpener,
    job: TrainingJob,
    note: CheckpointNote,
    clock: TrainingClock,
    folder: Path,
) -> None:
    """Train and save, also what was learned before an interrupt.

    Args:
        open_training: Starts the library.
        job: What to train.
        note: What the checkpoint says of its learner.
        clock: The limits of the training.
        folder: The checkpoint folder, which exists.

    Raises:
        DcgymError: Not one step was sampled.
        BackendError: The environments or the library broke; a checkpoint is there if one step was
            sampled.
        TrainingError: The network holds numbers that are not finite; the last checkpoint before
            that is there.
    """
    with open_training(job) as trainee:
        keeper = _Keeper(trainee, note, clock, folder)
        # Nobody may have the time to do so when the process is killed.
        clock.keep = keeper.keep
        try:
            trainee.learn(clock)
            _keep_last(keeper, clock)
        except TrainingError as error:
            # What was kept last was good.
            raise TrainingError(_ended(error, keeper)) from error
        except BaseException as error:
            # Such as Ctrl-C: what was learned so far is kept.
            with contextlib.suppress(TrainingError):
                _keep_last(keeper, clock)
            if isinstance(error, BackendError):
                raise BackendError(_ended(error, keeper)) from error
            raise
        clock.check_trained()


def _ended(error: DcgymError, keeper: _Keeper) -> str:
    fact = error.fact if isinstance(error, BackendError) else error
    return f"training ended early: {fact}; {what_is_kept(keeper.n_steps)}"


def _best_of(folder: Path) -> float:
    """Return the mean reward of the best policy of a training that is resumed."""
    try:
        mean = read_note(folder / BEST_FOLDER).training.get("reward_mean")
    except ConfigError:
        return -math.inf
    return float(mean) if isinstance(mean, int | float) else -math.inf


def _keep_last(keeper: _Keeper, clock: TrainingClock) -> None:
    if clock.last.steps:
        keeper.keep(is_last=True)
