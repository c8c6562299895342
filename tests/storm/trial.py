"""One workload from its beginning to its end, with kills on the way."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.storm.remains import Place, Remains, names_in
from tests.storm.victims import kill_one
from tests.storm.workloads import Workload

__all__ = ["Reference", "Trial", "kind_of_file", "run_reference", "run_trial"]

# A life that takes longer hangs: ten times what it took in peace, and two minutes.
PATIENCE, PATIENCE_S = 10.0, 120.0
LEAST_KILLS, MOST_KILLS = 2, 6
# Part of the usual time in which the first kill comes: some lives are faster than the reference.
SHARE = 0.8
# Lives without kills until the workload must have ended well.
LAST_LIVES = 3
LOOK_S = 0.02
CLEAN = (sys.executable, "-m", "dcgym", "clean", "--json")


@dataclass(frozen=True)
class Reference:
    """What a workload does that nobody kills.

    Attributes:
        duration_s: How long it took.
        result: What all its ends have in common.
        names: The files of its results.
        left: Kinds of the files that it leaves: trials do not report them again.
        problems: What was wrong with it.
    """

    duration_s: float
    result: object
    names: frozenset[str]
    left: frozenset[str]
    problems: tuple[str, ...]


@dataclass
class Trial:
    """What became of a workload.

    Attributes:
        kills: How many processes of which kind were killed.
        at_once: What was left after the deadline though a process or the command was gone.
        files: Files that were there when a command was gone, which could not remove them.
        later: What is left though the last command has ended well.
        problems: What else was wrong, each a line.
        release_s: The longest time until all but files was gone.
        went_on: Whether the end is that of the reference.
    """

    kills: Counter[str] = field(default_factory=Counter)
    at_once: list[str] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    later: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    release_s: float = 0.0
    went_on: bool = True


class _Lives:
    """Lives of one workload in one place."""

    def __init__(self, workload: Workload, root: Path, drawn: random.Random, usual_s: float):
        self._workload, self._drawn, self._usual_s = workload, drawn, usual_s
        self.place = Place(root)
        for name, text in workload.files.items():
            (self.place.work / name).write_text(text, encoding="utf-8")
        self.remains = Remains(self.place, frozenset(workload.files))
        self.trial = Trial()
        self._n_lives = 0

    def live(self, kills: int) -> bool:
        """Start the command and kill up to so many processes; return whether it ended well."""
        command = self._workload.command(self.place.out)
        if command is None:
            return True
        self._n_lives += 1
        before = sum(self.trial.kills.values())
        said = self.place.root / f"said-{self._n_lives}.txt"
        with (
            said.open("wb") as file,
            subprocess.Popen(
                command,
                cwd=self.place.work,
                env=self.place.environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            ) as process,
        ):
            try:
                is_killed = self._kill(process, kills)
            finally:
                process.kill()
        self._after(said, process.returncode, is_killed, sum(self.trial.kills.values()) > before)
        return process.returncode == 0

    def _kill(self, process: subprocess.Popen[bytes], kills: int) -> bool:
        """Kill processes until the command has ended; return whether it was the command itself."""
        begin_s = time.monotonic()
        next_s = begin_s + self._drawn.uniform(0.0, SHARE * self._usual_s)
        while process.poll() is None:
            now_s = time.monotonic()
            if now_s > begin_s + PATIENCE * self._usual_s + PATIENCE_S:
                self.trial.problems.append(f"hung for {now_s - begin_s:.0f} s")
                return True
            if kills and now_s >= next_s:
                kind = kill_one(self._drawn, self.remains.processes(), process.pid)
                next_s = now_s + self._drawn.uniform(0.0, self._usual_s / 3)
                if kind:
                    self.trial.kills[kind] += 1
                    kills -= 1
                if kind == "driver":
                    return True
            time.sleep(LOOK_S)
        return False

    def _after(self, said: Path, status: int, is_killed: bool, had_kills: bool) -> None:
        """Look at what a life has said and left."""
        trial, text = self.trial, said.read_text(encoding="utf-8", errors="replace")
        left, took_s = self.remains.await_release()
        trial.release_s = max(trial.release_s, took_s)
        trial.at_once += [f"{what}: {', '.join(sorted(names))}" for what, names in left.items()]
        if left:
            self.remains.end()
        if is_killed or status:
            trial.files |= set(self.remains.files(None))
            with _noted(trial.problems, f"after life {self._n_lives}"):
                self._workload.check(self.place.out)
        lines = [line for line in text.splitlines() if line.strip()] or [""]
        if not is_killed and status:
            if not had_kills:
                trial.problems.append(f"life {self._n_lives} failed with {status}: {lines[-1]}")
            if self._workload.is_command and "Traceback" in text:
                trial.problems.append(f"life {self._n_lives}: a traceback: {lines[-1]}")


@contextmanager
def _noted(problems: list[str], when: str) -> Iterator[None]:
    """Make a problem of what is raised."""
    try:
        yield
    except Exception as error:
        problems.append(f"{when}: {error}")


@contextmanager
def _living(
    workload: Workload, root: Path, drawn: random.Random, usual_s: float
) -> Iterator[_Lives]:
    lives = _Lives(workload, root, drawn, usual_s)
    try:
        yield lives
    finally:
        lives.remains.close()


def kind_of_file(name: str) -> str:
    """Return a file's name without what is drawn or a time: identifiers of runs, and digits.

    Args:
        name: As `Remains.files` has it.
    """
    return re.sub(r"\b[0-9a-f]{6}\b|(?<=-)[a-z0-9_]{8}$|[0-9]+", "*", name)


def run_reference(workload: Workload, root: Path) -> Reference:
    """Run a workload that nobody kills.

    Args:
        workload: What runs.
        root: A folder for it, which is made.
    """
    begin_s = time.monotonic()
    with _living(workload, root, random.Random(0), PATIENCE_S) as lives:
        is_well = lives.live(0)
        duration_s = time.monotonic() - begin_s
        out, problems = lives.place.out, [*lives.trial.problems, *lives.trial.at_once]
        left = frozenset(map(kind_of_file, lives.remains.files(None)))
        problems += [f"left: {kind}" for kind in sorted(left)]
        result = workload.result(out) if is_well else None
        return Reference(duration_s, result, names_in(out), left, tuple(problems))


def run_trial(
    workload: Workload, reference: Reference, root: Path, drawn: random.Random, most: int
) -> Trial:
    """Run a workload, kill what belongs to it, and let it go on to its end.

    Args:
        workload: What runs.
        reference: What it does in peace.
        root: A folder for it, which is made.
        drawn: What chooses times and processes.
        most: Kills at most.
    """
    budget = min(most, drawn.randint(LEAST_KILLS, MOST_KILLS))
    with _living(workload, root, drawn, reference.duration_s) as lives:
        trial = lives.trial
        rest = LAST_LIVES
        while not (is_done := lives.live(budget - (n_kills := sum(trial.kills.values())))):
            rest -= n_kills == sum(trial.kills.values())
            if not rest:
                break
        trial.went_on = is_done
        subprocess.run(CLEAN, env=lives.place.environment(), stdout=subprocess.DEVNULL, check=True)
        found = lives.remains.files(reference.names | workload.kept)
        trial.later += [name for name in found if kind_of_file(name) not in reference.left]
        result = None
        with _noted(trial.problems, "the result"):
            result = workload.result(lives.place.out) if trial.went_on else None
        trial.went_on &= result == reference.result
        return trial
