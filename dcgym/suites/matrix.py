"""Run a suite: classic policies first, then the learners train, then they are scored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from dcgym.policies import LEARNERS
from dcgym.suites.config import SuiteConfig
from dcgym.suites.fidelity import is_as_good_as, require
from dcgym.suites.report import write_report
from dcgym.suites.results import (
    prepare_folder,
    read_json,
    run_folder,
    write_json,
    write_results,
)
from dcgym.suites.worker import Workers

__all__ = ["Matrix", "Run", "finished_records", "run_suite"]

TRAINING_MODULE = "dcgym.suites.training"

Record = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One cell of the matrix."""

    scenario: str
    policy: str
    seed: int

    def __str__(self) -> str:
        return f"{self.scenario} {self.policy} seed {self.seed}".strip()


def run_suite(config: SuiteConfig) -> list[Record]:
    """Run what is not finished yet, write results and report, and return all records.

    Results and report are written after a failure or Ctrl-C too, of the runs that finished.

    Raises:
        ConfigError: The folder cannot be written.
        BackendError: A run failed, or its fidelity is worse than required; the others' results are
            kept.
    """
    prepare_folder(config.out)
    write_json(config.out / "config.json", _plain(config))
    with _progress() as progress, _workers() as workers:
        bench = Matrix(config, workers, progress)
        try:
            bench.run_all()
        finally:
            complete, refused = bench.complete(), bench.refused()
            if complete:
                write_results(config.out, complete)
                write_report(config.out, complete, refused)
        require([*complete, *refused], config.require_fidelity)
    return complete


def finished_records(config: SuiteConfig) -> list[Record]:
    """Return the records of the runs that are finished, and well enough, without running any."""
    return Matrix(config, Workers(), _progress()).complete()


class Matrix:
    """One pass over the matrix; keeps no state that the folder does not hold."""

    def __init__(self, config: SuiteConfig, workers: Workers, progress: Progress) -> None:
        self._config = config
        self._workers = workers
        self._progress = progress

    def run_all(self) -> None:
        """Run the policies that need no training, train the learners, and run those."""
        self.run_episodes([run for run in self.runs() if not self._is_trained_here(run)])
        learned = [run for run in self.runs() if self._is_trained_here(run)]
        self.train_for(learned)
        self.run_episodes(learned)

    def complete(self, fidelity: str | None = None) -> list[Record]:
        """Return the records of all finished runs.

        Args:
            fidelity: Worst one to return; None for the one that the suite requires.
        """
        records = [self.finished(run, fidelity) for run in self.runs()]
        return [record for record in records if record is not None]

    def refused(self) -> list[Record]:
        """Return the records of the runs whose fidelity is worse than the suite requires."""
        required = self._config.require_fidelity
        return [r for r in self.complete("invalid") if not is_as_good_as(r, required)]

    def runs(self) -> list[Run]:
        """List the runs: all policies of a seed before the next seed."""
        config = self._config
        return [
            Run(scenario, policy, seed)
            for scenario in config.scenarios
            for seed in range(config.seeds)
            for policy in config.policies
        ]

    def finished(self, run: Run, fidelity: str | None = None) -> Record | None:
        """Return the record of a run, if it was finished with these settings, and well enough."""
        record = read_json(self._folder(run) / "summary.json")
        if record is None or record.get("key") != self.spec(run)["key"]:
            return None
        required = fidelity or self._config.require_fidelity
        return dict(record) if is_as_good_as(record, required) else None

    def run_episodes(self, runs: list[Run]) -> None:
        """Run every unfinished episode of these, several at once."""
        todo = [run for run in runs if self.finished(run) is None]
        if not todo:
            return
        total = self._progress.add_task(f"{len(todo)} runs", total=len(todo), note="")
        self._side_by_side(self._config.jobs, [partial(self._episode, run, total) for run in todo])

    def train_for(self, runs: list[Run]) -> None:
        """Train what these runs need, unless a checkpoint for these settings exists."""
        todo = {
            spec["key"]: spec
            for run in runs
            if self._training(spec := self._training_spec(run)) is None
        }
        self._side_by_side(
            self._config.training_jobs, [partial(self._train, spec) for spec in todo.values()]
        )

    @staticmethod
    def _side_by_side(jobs: int, work: list[Callable[[], None]]) -> None:
        pool = ThreadPoolExecutor(jobs)
        try:
            _wait_for_all([pool.submit(one) for one in work])
        finally:
            # After Ctrl-C the threads are still waiting for their workers.
            pool.shutdown(wait=False, cancel_futures=True)

    def _train(self, spec: Record) -> None:
        folder = Path(spec["folder"])
        task = self._progress.add_task(f"train {folder.name}", total=1.0, note="")
        self._workers.run(TRAINING_MODULE, spec, folder / "log.txt", self._follower(task))
        self._progress.update(task, completed=1.0, note="done")

    def _episode(self, run: Run, total: TaskID) -> None:
        task = self._progress.add_task(str(run), total=1.0, note="")
        log = self._folder(run) / "log.txt"
        try:
            module = self._config.episode_module
            self._workers.run(module, self.spec(run), log, self._follower(task))
            self._progress.advance(total)
        finally:
            self._progress.remove_task(task)

    def _follower(self, task: TaskID) -> Any:
        def follow(fraction: float, note: str) -> None:
            self._progress.update(task, completed=fraction, note=note)

        return follow

    def spec(self, run: Run) -> Record:
        """Return the settings of a run, with its folder and the key of the settings."""
        is_trained = self._is_trained_here(run)
        training = self._training(self._training_spec(run)) if is_trained else None
        given = self._config.checkpoint(run.policy)
        settings = {
            **self._config.episode(run.scenario, run.policy, run.seed),
            "checkpoint": training["checkpoint"] if training else given,
            "training": training,
        }
        return {**settings, "folder": str(self._folder(run)), "key": _key(settings)}

    def _is_trained_here(self, run: Run) -> bool:
        return run.policy in LEARNERS and self._config.checkpoint(run.policy) is None

    @staticmethod
    def _training(spec: Record) -> Record | None:
        summary = read_json(Path(spec["folder"]) / "training.json")
        if summary is None or summary.get("key") != spec["key"]:
            return None
        return dict(summary)

    def _training_spec(self, run: Run) -> Record:
        settings = self._config.training(run.scenario, run.policy)
        name = settings.get("name", run.policy)
        folder = self._config.out.resolve() / "training" / name
        return {**settings, "folder": str(folder), "key": _key(settings)}

    def _folder(self, run: Run) -> Path:
        return run_folder(self._config.out.resolve(), run.scenario, run.policy, run.seed)


def _wait_for_all(futures: list[Future[None]]) -> None:
    """Wait for all, and raise the first failure at the end, so that the others finish."""
    failures = []
    pending = set(futures)
    while pending:
        done, pending = wait(pending, return_when=FIRST_EXCEPTION)
        failures += [error for future in done if (error := future.exception()) is not None]
    if failures:
        raise failures[0]


@contextmanager
def _workers() -> Iterator[Workers]:
    workers = Workers()
    try:
        yield workers
    finally:
        workers.stop()


def _progress() -> Progress:
    # Standard output belongs to the table and to --json.
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
    )


def _plain(config: SuiteConfig) -> Mapping[str, Any]:
    return {name: getattr(config, name) for name in config.__dataclass_fields__}


def _key(settings: Mapping[str, Any]) -> str:
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
