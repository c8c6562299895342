"""The runs of a suite in a folder: what is finished, and how the rest is run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rich.progress import Progress, TaskID

from dcgym.backends.records import FIDELITIES, Record
from dcgym.config import check_in
from dcgym.policies import LEARNERS
from dcgym.suites.checks import capabilities_of, steps_in
from dcgym.suites.fidelity import is_as_good_as
from dcgym.suites.results import (
    RUN_FILES,
    TRAINING_FILE,
    read_json,
    read_record,
    run_folder,
    run_name,
)
from dcgym.suites.rollout import Progress as Follow
from dcgym.suites.spec import RunSpec, TrainingSpec, spec_to_dict
from dcgym.suites.suite import Case, Suite
from dcgym.suites.work import Work, perform
from dcgym.suites.workers import WorkerPool
from dcgym.writing import prepare_folder, real_path

__all__ = ["Matrix", "Run"]

TRAININGS_SIDE_BY_SIDE = 2
"""Of learners whose environments do not wait for real time."""

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


class Matrix:
    """One pass over the matrix; keeps no state that the folder does not hold.

    Args:
        suite: What is compared.
        out: Folder of the results.
        workers: What runs it.
        progress: What is shown of it.
        require_fidelity: Worst fidelity of a run that counts as finished.

    Raises:
        ConfigError: Unknown fidelity.
    """

    def __init__(
        self,
        suite: Suite,
        out: Path,
        workers: WorkerPool,
        progress: Progress,
        require_fidelity: str = "invalid",
    ) -> None:
        self._suite, self._out = suite, real_path(out, "out")
        self._workers, self._progress = workers, progress
        self._required = check_in("require_fidelity", require_fidelity, FIDELITIES)

    def run_all(self) -> None:
        """Run the policies that need no training, train the learners, and run those."""
        done: list[Run] = []
        # Seeds are added where a suite asks for more of them than it began with.
        while len(runs := self.runs()) > len(done):
            self.run_episodes([run for run in runs if not self._is_trained_here(run)])
            learned = [run for run in runs if self._is_trained_here(run)]
            self.train_for(learned)
            self.run_episodes(learned)
            done = runs

    def complete(self, fidelity: str | None = None) -> list[Record]:
        """Return the records of all finished runs.

        Args:
            fidelity: Worst one to return; None for the required one.
        """
        records = [self.finished(run, fidelity) for run in self.runs()]
        return [record for record in records if record is not None]

    def refused(self) -> list[Record]:
        """Return the records of the runs whose fidelity is worse than required."""
        return [r for r in self.complete("invalid") if not is_as_good_as(r, self._required)]

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

    def run_episodes(self, runs: list[Run]) -> None:
        """Run every unfinished one of these, several at once.

        Args:
            runs: The runs.
        """
        todo = [run for run in runs if self.finished(run) is None]
        if not todo:
            return
        total = self._progress.add_task(f"{len(todo)} runs", total=len(todo), note="")
        jobs = self._workers.room([self.spec(run) for run in todo], self._suite)
        self._side_by_side(jobs, [partial(self._episode, run, total) for run in todo])
        self._progress.update(total, completed=len(todo))

    def train_for(self, runs: list[Run]) -> None:
        """Train what these runs need, unless a checkpoint for these settings exists.

        Args:
            runs: The runs.
        """
        wanted = {spec.key: spec for spec in map(self.training, runs)}
        todo = [spec for spec in wanted.values() if self._trained(spec) is None]
        if not todo:
            return
        jobs = self._workers.room(todo, self._suite)
        if not self._workers.is_remote:
            waits = any(capabilities_of(spec.env).real_time for spec in todo)
            jobs = min(jobs, 1 if waits else TRAININGS_SIDE_BY_SIDE)
        self._side_by_side(jobs, [partial(self._train, spec) for spec in todo])

    def spec(self, run: Run) -> RunSpec:
        """Return what a run is told, with its folder and the key of its settings.

        Args:
            run: The run.
        """
        suite, case = self._suite, self._suite.case(run.case)
        is_trained = self._is_trained_here(run)
        training = self._trained(self.training(run)) if is_trained else None
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

    def _side_by_side(self, jobs: int, work: list[Callable[[], None]]) -> None:
        if jobs == 0:
            for one in work:
                one()
            return
        pool = ThreadPoolExecutor(jobs)
        try:
            _wait_for_all([pool.submit(one) for one in work])
        finally:
            # After Ctrl-C the threads are still waiting for their workers.
            pool.shutdown(wait=False, cancel_futures=True)

    def _train(self, spec: TrainingSpec) -> None:
        folder = Path(spec.folder)
        task = self._progress.add_task(f"train {folder.name}", total=1.0, note="")

        def follow(fraction: float, note: str) -> None:
            self._progress.update(task, completed=fraction, note=note)

        self._perform(spec, folder / "log.txt", follow)
        self._progress.update(task, completed=1.0, note="")

    def _episode(self, run: Run, total: TaskID) -> None:
        task, spec = self._progress.add_task(str(run), total=1.0, note=""), self.spec(run)
        done = 0.0

        def follow(completed: float, note: str) -> None:
            nonlocal done
            self._progress.update(task, completed=completed, note=note)
            # Runs that take minutes move the bar of all of them before they end.
            self._progress.advance(total, completed - done)
            done = completed

        try:
            self._perform(spec, Path(spec.folder or "") / "log.txt", follow)
            self._progress.advance(total, 1.0 - done)
        finally:
            self._progress.remove_task(task)

    def _perform(self, spec: Work, log: Path, follow: Follow) -> None:
        # A machine of a cluster writes into a folder of its own first.
        left = RUN_FILES if isinstance(spec, RunSpec) else (TRAINING_FILE,)
        prepare_folder(log.parent, "out", (log.name, *left))
        if self._suite.jobs == 0 and not self._workers.is_remote:
            perform(spec, follow)
        else:
            self._workers.run(spec, log, follow)

    def _is_trained_here(self, run: Run) -> bool:
        return run.policy in LEARNERS and run.policy not in self._suite.checkpoints

    @staticmethod
    def _trained(spec: TrainingSpec) -> Record | None:
        summary = read_json(Path(spec.folder) / TRAINING_FILE)
        return summary if summary is not None and summary.get("key") == spec.key else None


def _wait_for_all(futures: list[Future[None]]) -> None:
    """Wait for all, and raise the first failure at the end, so that the others finish."""
    failures = []
    pending = set(futures)
    while pending:
        done, pending = wait(pending, return_when=FIRST_EXCEPTION)
        failures += [error for future in done if (error := future.exception()) is not None]
    if failures:
        raise failures[0]


def _key(settings: Mapping[str, object]) -> str:
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
