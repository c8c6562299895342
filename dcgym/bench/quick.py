"""The quick benchmark: classic policies first, then the learners train, then they are scored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from dcgym.bench.config import QuickConfig
from dcgym.bench.report import write_report
from dcgym.bench.results import prepare_folder, read_json, write_json, write_results
from dcgym.bench.worker import Workers
from dcgym.policies import LEARNERS

__all__ = ["run_quick"]

EPISODE_MODULE = "dcgym.bench.episode"
TRAINING_MODULE = "dcgym.bench.training"

Record = dict[str, Any]


def run_quick(config: QuickConfig) -> list[Record]:
    """Run what is not finished yet, write results and report, and return all records.

    Results and report are written after a failure or Ctrl-C too, of the runs that finished.

    Raises:
        ConfigError: The folder cannot be written.
        BackendError: A run failed; the others' results are kept.
    """
    prepare_folder(config.out)
    write_json(config.out / "config.json", _plain(config))
    with _progress() as progress, _workers() as workers:
        bench = _Bench(config, workers, progress)
        try:
            bench.run_all()
        finally:
            complete = bench.complete()
            if complete:
                write_results(config.out, complete)
                write_report(config.out, complete)
    return complete


class _Bench:
    """One pass over the matrix; keeps no state that the folder does not hold."""

    def __init__(self, config: QuickConfig, workers: Workers, progress: Progress) -> None:
        self._config = config
        self._workers = workers
        self._progress = progress

    def run_all(self) -> None:
        """Run the policies that need no training, train the learners, and run those."""
        policies = self._config.policies
        self.run_episodes([name for name in policies if name not in LEARNERS])
        for name in policies:
            if name in LEARNERS:
                self.train(name)
        self.run_episodes([name for name in policies if name in LEARNERS])

    def complete(self) -> list[Record]:
        """Return the records of all finished runs."""
        records = [self.finished(*run) for run in self.matrix(self._config.policies)]
        return [record for record in records if record is not None]

    def matrix(self, policies: tuple[str, ...] | list[str]) -> list[tuple[str, int]]:
        """List the runs, all policies of a seed before the next seed."""
        return [(name, seed) for seed in range(self._config.seeds) for name in policies]

    def finished(self, policy: str, seed: int) -> Record | None:
        """Return the record of a run, if it was finished with these settings."""
        record = read_json(self._folder(policy, seed) / "summary.json")
        if record is None or record.get("key") != self._spec(policy, seed)["key"]:
            return None
        return dict(record)

    def run_episodes(self, policies: list[str]) -> None:
        """Run every unfinished episode of these policies, several at once."""
        todo = [run for run in self.matrix(policies) if self.finished(*run) is None]
        if not todo:
            return
        total = self._progress.add_task(f"{len(todo)} runs", total=len(todo), note="")
        pool = ThreadPoolExecutor(self._config.jobs)
        try:
            futures = [pool.submit(self._episode, *run, total) for run in todo]
            _wait_for_all(futures)
        finally:
            # After Ctrl-C the threads are still waiting for their workers.
            pool.shutdown(wait=False, cancel_futures=True)

    def train(self, policy: str) -> None:
        """Train a learner, unless its checkpoint for these settings exists."""
        spec = self._training_spec(policy)
        folder = self._training_folder(policy)
        if self._training(policy) is not None:
            return
        task = self._progress.add_task(f"train {policy}", total=1.0, note="")
        self._workers.run(TRAINING_MODULE, spec, folder / "log.txt", self._follower(task))
        self._progress.update(task, completed=1.0, note="done")

    def _episode(self, policy: str, seed: int, total: TaskID) -> None:
        task = self._progress.add_task(f"{policy} seed {seed}", total=1.0, note="")
        folder = self._folder(policy, seed)
        spec = self._spec(policy, seed)
        try:
            self._workers.run(EPISODE_MODULE, spec, folder / "log.txt", self._follower(task))
            self._progress.advance(total)
        finally:
            self._progress.remove_task(task)

    def _follower(self, task: TaskID) -> Any:
        def follow(fraction: float, note: str) -> None:
            self._progress.update(task, completed=fraction, note=note)

        return follow

    def _spec(self, policy: str, seed: int) -> Record:
        training = self._training(policy) if policy in LEARNERS else None
        settings = {
            "env": dict(self._config.env),
            "policy": policy,
            "seed": seed,
            "steps": self._config.steps,
            "interval_s": self._config.interval_s,
            "warmup_s": self._config.warmup_s,
            "checkpoint": training["checkpoint"] if training else None,
            "training": training,
        }
        return {**settings, "folder": str(self._folder(policy, seed)), "key": _key(settings)}

    def _training(self, policy: str) -> Record | None:
        summary = read_json(self._training_folder(policy) / "training.json")
        if summary is None or summary.get("key") != self._training_spec(policy)["key"]:
            return None
        return dict(summary)

    def _training_spec(self, policy: str) -> Record:
        settings = {
            "env": dict(self._config.env),
            "policy": policy,
            "seed": 0,
            "train_s": self._config.train_s,
            "envs": self._config.train_envs,
        }
        return {**settings, "folder": str(self._training_folder(policy)), "key": _key(settings)}

    def _folder(self, policy: str, seed: int) -> Path:
        return self._config.out.resolve() / "runs" / f"{policy}-{seed}"

    def _training_folder(self, policy: str) -> Path:
        return self._config.out.resolve() / "training" / policy


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


def _plain(config: QuickConfig) -> Mapping[str, Any]:
    return {name: getattr(config, name) for name in config.__dataclass_fields__}


def _key(settings: Mapping[str, Any]) -> str:
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
