"""The runs of a suite in a folder: what is finished, and how the rest is run."""

from __future__ import annotations

import hashlib
import json
import os
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from dcgym.backends.records import FIDELITIES, Record
from dcgym.config import check_in
from dcgym.errors import DcgymError
from dcgym.policies import LEARNERS
from dcgym.suites.batch import Batch
from dcgym.suites.checks import capabilities_of, steps_in
from dcgym.suites.faults import (
    FAILURE_FILE,
    LOG_FILE,
    Failure,
    Faults,
    WorkFailed,
    forget_failure,
    is_full,
    read_failure,
    write_failure,
)
from dcgym.suites.fidelity import is_as_good_as
from dcgym.suites.progress import Bars
from dcgym.suites.results import (
    RUN_FILES,
    TRAINING_FILE,
    read_json,
    read_record,
    run_folder,
    run_name,
)
from dcgym.suites.rollout import Progress as Follow
from dcgym.suites.side_by_side import work_off
from dcgym.suites.spec import RunSpec, TrainingSpec, spec_to_dict
from dcgym.suites.suite import Case, Suite
from dcgym.suites.work import Work, perform
from dcgym.suites.workers import WorkerPool
from dcgym.writing import open_output, prepare_folder, real_path

__all__ = ["Matrix", "Results", "Run"]

TRAININGS_SIDE_BY_SIDE = 2
"""Of learners whose environments do not wait for real time."""

MOST_KEPT = 1024
# What is large in a record, and often that of the record before: it is held once.
SHARED = ("config", "fidelity", "machine", "training")

# Part of what tells one run from another. It rises where a metric of equal settings gets another
# meaning, so that a suite which goes on in a folder of before does not mix both.
METRICS_VERSION = 2

# Learners meet no traffic that they are scored on: `MOST_RUNS` seeds lie below the first, and the
# copies of a training take the seeds that follow its own.
FIRST_TRAINING_SEED = 1_000_000
SEEDS_OF_A_TRAINING = 10_000


@dataclass(frozen=True)
class Run:
    """One cell of the matrix.

    Attributes:
        case: Name of the case.
        policy: Name of the policy.
        seed: The seed.
    """

    case: str
    policy: str
    seed: int

    def __str__(self) -> str:
        return run_name(self.case, self.policy, self.seed)


class Results(NamedTuple):
    """What has come of a suite's runs.

    Attributes:
        complete: Records of the finished runs.
        refused: Records of those whose fidelity is worse than required.
        failed: A failure for each run that failed; that of its training where this failed.
    """

    complete: list[Record]
    refused: list[Record]
    failed: list[Failure]


class Matrix:
    """One pass over the matrix; what is finished and what failed, the folder holds.

    Args:
        suite: What is compared.
        out: Folder of the results.
        workers: What runs it.
        bars: What is shown of it.
        require_fidelity: Worst fidelity of a run that counts as finished.
        faults: What is done about runs that fail.

    Raises:
        ConfigError: Unknown fidelity.
    """

    def __init__(
        self,
        suite: Suite,
        out: Path,
        workers: WorkerPool,
        bars: Bars,
        require_fidelity: str = "invalid",
        faults: Faults | None = None,
    ) -> None:
        self._suite, self._out = suite, real_path(out, "out")
        self._workers, self._batch = workers, Batch(bars)
        self._faults = Faults() if faults is None else faults
        # A run is asked for several times in a row.
        self._untrained = lru_cache(MOST_KEPT)(self._told)
        self._required = check_in("require_fidelity", require_fidelity, FIDELITIES)

    def check_room(self) -> None:
        """Refuse what no machine of a cluster can do, before anything is shown or written.

        Raises:
            ConfigError: No machine can do some of it, or one has another dcgym.
        """
        if not self._workers.is_remote:
            return
        todo = _alike(run for run in self.runs() if self.finished(run) is None)
        trained = (self.training(run) for run in todo if self._is_trained_here(run))
        if todo:
            self._workers.room(chain(map(self.spec, todo), trained), self._suite)

    def run_all(self) -> None:
        """Run what is not finished: policies as they are, then trainings and what they are for.

        What fails is kept in its folder, and the others go on. Seeds follow that the suite asks for
        once it sees the differences.

        Raises:
            ConfigError: The folder cannot be written.
            OSError: The disk has no room.
        """
        runs, done = self.runs(), 0
        if self._faults.retry_failed:
            for failure in {self.failure(run) for run in runs}:
                if failure is not None:
                    forget_failure(failure.log.parent)
        while len(runs) > done:
            self._run_all_of(runs)
            runs, done = self.runs(), len(runs)
        self._batch.close()

    def _run_all_of(self, runs: list[Run]) -> None:
        todo: list[Run] = []
        self._batch.begin(len(runs), self._ended(runs, todo))
        self._run_episodes([run for run in todo if not self._is_trained_here(run)])
        learned = [run for run in todo if self._is_trained_here(run)]
        self._train_for(learned)
        ready = [run for run in learned if self.failure(run) is None]
        self._batch.fail(len(learned) - len(ready))
        self._run_episodes(ready)

    def _ended(self, runs: list[Run], todo: list[Run]) -> Iterator[Record | None]:
        """Yield the records of finished runs, None for failed ones, and keep what is left to do."""
        for run in runs:
            record = self.finished(run)
            if record is None and self.failure(run) is None:
                todo.append(run)
            else:
                yield record

    def results(self) -> Results:
        """Read what has come of all runs."""
        results = Results([], [], [])
        last: Record = {}
        for run in self.runs():
            if (record := self.finished(run, "invalid")) is not None:
                # Equal texts, as True equals 1 and is another value.
                for name in {*SHARED} & {*last} & {*record}:
                    if repr(last[name]) == repr(record[name]):
                        record[name] = last[name]
                last = record
                is_enough = is_as_good_as(record, self._required)
                (results.complete if is_enough else results.refused).append(record)
            elif (failure := self.failure(run)) is not None:
                results.failed.append(failure)
        return results

    def failure(self, run: Run) -> Failure | None:
        """Return how a run failed with these settings; None where it did not.

        Args:
            run: The run.
        """
        if self.finished(run) is not None:
            return None
        spec: Work = self.training(run) if self._waits(run) else self.spec(run)
        return read_failure(Path(spec.folder or ""), spec.key)

    def runs(self) -> list[Run]:
        """List the runs: all policies of a seed before the next seed."""
        suite = self._suite
        return [
            Run(case.name, policy, seed)
            for case in suite.cases
            for seed in range(self._seeds_of(case))
            for policy in suite.policies
            if case.meets(policy)
        ]

    def _seeds_of(self, case: Case) -> int:
        """Return how many seeds a case has: more than at first where finished runs ask for it."""
        seeds, until = self._suite.seeds, self._suite.until
        records: list[Record] = []
        counted = 0
        while until is not None:
            for seed in range(counted, seeds):
                for policy in self._suite.policies:
                    if case.meets(policy):
                        record = self.finished(Run(case.name, policy, seed))
                        if record is None:
                            return seeds
                        records.append(record)
            counted, seeds = seeds, until.seeds(records, seeds)
            if seeds == counted:
                break
        return seeds

    def finished(self, run: Run, fidelity: str | None = None) -> Record | None:
        """Return the record of a run, if it was finished with these settings, and well enough.

        Args:
            run: The run.
            fidelity: Worst one to return; None for the required one.
        """
        spec = self.spec(run)
        record = read_record(Path(spec.folder or "") / "summary.json")
        if record is None or record.get("key") != spec.key:
            return None
        return record if is_as_good_as(record, fidelity or self._required) else None

    def spec(self, run: Run) -> RunSpec:
        """Return what a run is told, with its folder and the key of its settings.

        Args:
            run: The run.
        """
        if self._is_trained_here(run):
            return self._told(run, self._trained(self.training(run)))
        return self._untrained(run)

    def _told(self, run: Run, training: Record | None = None) -> RunSpec:
        suite, case = self._suite, self._suite.case(run.case)
        given = suite.checkpoints.get(run.policy)
        episode_s = suite.episode_s if case.episode_s is None else case.episode_s
        spec = RunSpec(
            env=dict(case.env),
            policy=run.policy,
            seed=run.seed,
            steps=steps_in(episode_s, case.env),
            warmup_s=suite.warmup_s,
            scenario=case.name,
            sweep=dict(case.sweep),
            params=dict(case.params.get(run.policy, {})),
            checkpoint=training["checkpoint"] if training else given,
            training=training,
        )
        folder = run_folder(self._out, run.case, run.policy, run.seed)
        settings = {**spec_to_dict(spec), "metrics": METRICS_VERSION}
        return replace(spec, folder=str(folder), key=_key(settings))

    def training(self, run: Run) -> TrainingSpec:
        """Return what the training of a run's learner is told.

        Args:
            run: The run.
        """
        case, budget = self._suite.case(run.case), self._suite.training
        name = case.name if case.train_name is None else case.train_name
        number = run.seed % budget.trainings
        parts = (run.policy, name, f"seed{number}" if number else "")
        folder = self._out / "training" / "-".join(filter(None, parts))
        spec = TrainingSpec(
            env=dict(case.env if case.train_env is None else case.train_env),
            policy=run.policy,
            seed=FIRST_TRAINING_SEED + number * SEEDS_OF_A_TRAINING,
            train_s=budget.seconds,
            envs=budget.envs,
            folder=str(folder),
        )
        # Results may move to another place.
        return replace(spec, key=_key({**spec_to_dict(spec), "folder": folder.name}))

    def _run_episodes(self, runs: list[Run]) -> None:
        if runs:
            jobs = self._workers.room(map(self.spec, _alike(runs)), self._suite)
            work_off((partial(self._episode, run) for run in runs), jobs)

    def _train_for(self, runs: list[Run]) -> None:
        """Train what these runs need, unless a checkpoint for these settings exists."""
        wanted = {spec.key: spec for spec in map(self.training, filter(self._waits, runs))}
        todo = list(wanted.values())
        if not todo:
            return
        jobs = self._workers.room(todo, self._suite)
        if not self._workers.is_remote:
            waits = any(capabilities_of(spec.env).real_time for spec in todo)
            jobs = min(jobs, 1 if waits else TRAININGS_SIDE_BY_SIDE)
        work_off((partial(self._train, spec) for spec in todo), jobs)

    def _train(self, spec: TrainingSpec) -> None:
        name = f"train {Path(spec.folder).name}"
        follow = self._batch.follow(name, is_run=False)
        summary = self._attempt(name, spec, follow, partial(self._trained, spec))
        follow(1.0, "failed" if summary is None else "")

    def _episode(self, run: Run) -> None:
        name, spec = str(run), self.spec(run)
        follow = self._batch.follow(name)
        record = self._attempt(name, spec, follow, partial(self.finished, run, "invalid"))
        self._batch.end(name, record)

    def _attempt(
        self, name: str, spec: Work, follow: Follow, result: Callable[[], Record | None]
    ) -> Record | None:
        """Do some work and return what came of it; None where it failed, which is kept."""
        folder = Path(spec.folder or "")
        # A machine of a cluster writes into a folder of its own first.
        left = RUN_FILES if isinstance(spec, RunSpec) else (TRAINING_FILE,)
        if os.path.lexists(folder):
            prepare_folder(folder, "out", (LOG_FILE, FAILURE_FILE, *left))
            forget_failure(folder)
            # What says "complete" is of an earlier attempt, or of other settings.
            (folder / left[-1]).unlink(missing_ok=True)
        started_s = time.monotonic()
        try:
            if self._suite.jobs == 0 and not self._workers.is_remote:
                _perform_here(spec, folder / LOG_FILE, follow)
            else:
                self._workers.run(spec, folder / LOG_FILE, follow, self._faults.limits(spec))
            if (found := result()) is None:
                raise WorkFailed("it ended without a result")
            return found
        except WorkFailed as error:
            write_failure(folder, name, error, time.monotonic() - started_s, spec.key)
            return None

    def _waits(self, run: Run) -> bool:
        """Whether a run waits for a training."""
        return self._is_trained_here(run) and self._trained(self.training(run)) is None

    def _is_trained_here(self, run: Run) -> bool:
        return run.policy in LEARNERS and run.policy not in self._suite.checkpoints

    @staticmethod
    def _trained(spec: TrainingSpec) -> Record | None:
        summary = read_json(Path(spec.folder) / TRAINING_FILE)
        return summary if summary is not None and summary.get("key") == spec.key else None


def _alike(runs: Iterable[Run]) -> list[Run]:
    """Return a run of each policy in each case: others need the same of a machine."""
    return list({(run.case, run.policy): run for run in runs}.values())


def _perform_here(spec: Work, log: Path, follow: Follow) -> None:
    """Do some work in this process; how it failed is in the log, as that of a worker."""
    with open_output(log, "out") as file:
        try:
            perform(spec, follow)
        except Exception as error:
            if is_full(error):
                raise
            file.write(traceback.format_exc().encode(errors="backslashreplace"))
            text = str(getattr(error, "fact", error))
            known = isinstance(error, DcgymError | OSError)
            line = text if known else f"{type(error).__name__}: {text}"
            raise WorkFailed(" ".join(line.split())) from error


def _key(settings: Mapping[str, object]) -> str:
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
