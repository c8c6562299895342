"""Kill processes of all that runs, at random times, and look at what is left: ``make kills``.

``python -m tests.storm [WORKLOAD ...]``: all of them without a name. DCGYM_KILLS is the number of
kills (500), DCGYM_KILLS_SEED draws times and processes. Folders of trials in which something was
wrong are kept in build/kills, with what the commands said.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from dcgym.places import temporary_place
from tests.storm.remains import DEADLINE_S
from tests.storm.trial import Reference, Trial, kind_of_file, run_reference, run_trial
from tests.storm.workloads import WORKLOADS, Workload

KILLS = int(os.environ.get("DCGYM_KILLS", 500))
SEED = int(os.environ.get("DCGYM_KILLS_SEED", secrets.randbelow(10**6)))

FOUND = Path(__file__).parents[2] / "build" / "kills"


class Storm:
    """Trials of workloads, one after the other, and what became of them."""

    def __init__(self, workloads: tuple[Workload, ...], root: Path) -> None:
        self._workloads, self._root = workloads, root
        self._references: dict[str, Reference] = {}
        self._trials: dict[str, list[Trial]] = {one.name: [] for one in workloads}

    @property
    def n_kills(self) -> int:
        """How many processes were killed so far."""
        trials = [one for each in self._trials.values() for one in each]
        return sum(sum(one.kills.values()) for one in trials)

    def run(self, kills: int) -> None:
        """Take the workloads in turn until so many are killed; for none, all once."""
        number = 0
        while self.n_kills < kills or number < len(self._workloads) * (not kills):
            workload = self._workloads[number % len(self._workloads)]
            if workload.name not in self._references:
                self._run_in_peace(workload, number)
            if kills:
                drawn = random.Random(f"{SEED} {number}")
                self._run_one(workload, number, drawn, kills - self.n_kills)
            number += 1

    def _run_in_peace(self, workload: Workload, number: int) -> None:
        reference = run_reference(workload, self._root / f"{number}r")
        self._references[workload.name] = reference
        _say(f"{workload.name} in peace: {reference.duration_s:.1f} s", reference.problems)

    def _run_one(self, workload: Workload, number: int, drawn: random.Random, most: int) -> None:
        place, begin_s = self._root / str(number), time.monotonic()
        trial = run_trial(workload, self._references[workload.name], place, drawn, most)
        self._trials[workload.name].append(trial)
        wrong = [f"at once: {one}" for one in trial.at_once]
        wrong += [f"later: {one}" for one in trial.later]
        wrong += [] if trial.went_on else ["it did not go on as promised"]
        wrong += trial.problems
        title = f"{number} {workload.name}: {_counted(trial.kills)}"
        _say(f"{title}, {time.monotonic() - begin_s:.1f} s, {self.n_kills} kills", tuple(wrong))
        if wrong:
            kept = FOUND / str(number)
            shutil.rmtree(kept, ignore_errors=True)
            # Sockets of Ray's cannot be copied.
            with contextlib.suppress(shutil.Error):
                shutil.copytree(place, kept, symlinks=True)
        shutil.rmtree(place, ignore_errors=True)

    def report(self) -> bool:
        """Print the table; return whether nothing was left and all went on."""
        print(
            f"\n| workload | kills | of | at once ({DEADLINE_S:.0f} s) | files then | later | on |"
        )
        print("|---|---|---|---|---|---|---|")
        is_well = True
        for workload in self._workloads:
            trials, reference = self._trials[workload.name], self._references.get(workload.name)
            if reference is None:
                continue
            kills = sum((one.kills for one in trials), Counter[str]())
            at_once = [one for trial in trials for one in trial.at_once]
            files = Counter(kind_of_file(one) for trial in trials for one in trial.files)
            later = [one for trial in trials for one in trial.later]
            on = sum(one.went_on for one in trials)
            slowest = max((one.release_s for one in trials), default=0.0)
            cells = (
                workload.name,
                str(kills.total()),
                _counted(kills),
                "; ".join(at_once) or f"nothing after {slowest:.1f} s",
                _counted(files),
                _counted(Counter(map(kind_of_file, later))),
                f"{on} of {len(trials)}: {workload.promise}",
            )
            print(f"| {' | '.join(cells)} |")
            problems = [*reference.problems, *(one for trial in trials for one in trial.problems)]
            is_well &= not (at_once or later or problems or on < len(trials))
        return is_well


def _counted(found: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in found.most_common()) or "nothing"


def _say(title: str, wrong: tuple[str, ...]) -> None:
    print(title, *(f"  {one}" for one in wrong), sep="\n", flush=True)


def _stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def main(names: list[str]) -> int:
    """Run the storm over workloads of these names; return 1 where anything was left."""
    unknown = set(names) - {one.name for one in WORKLOADS}
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(o.name for o in WORKLOADS)}")
    signal.signal(signal.SIGTERM, _stop)
    print(f"DCGYM_KILLS={KILLS} DCGYM_KILLS_SEED={SEED}", flush=True)
    with temporary_place("work") as root:
        storm = Storm(tuple(one for one in WORKLOADS if not names or one.name in names), root)
        begin_s = time.monotonic()
        try:
            storm.run(KILLS)
        except KeyboardInterrupt:
            print("stopped")
        is_well = storm.report() and storm.n_kills >= KILLS
        each_s = (time.monotonic() - begin_s) / max(storm.n_kills, 1)
        print(f"\n{storm.n_kills} kills, {each_s:.1f} s each; {'well' if is_well else 'NOT well'}")
        return int(not is_well)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
