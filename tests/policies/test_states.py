"""States of trainings: whole, whenever their writers were killed."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from dcgym.errors import ConfigError
from dcgym.policies.checkpoint import CheckpointNote, read_note
from dcgym.policies.learned.states import read_state, write_state
from dcgym.policies.learned.training import TrainingClock, TrainingJob, train
from dcgym.policies.learners import Progress


class Killed(BaseException):
    """What nobody catches."""


def write_until_killed(folder: Path, steps: int, calls: int) -> bool:
    """Write a state, and end before so many changes of the file system; return whether it did."""
    left = [calls]

    def save(to: Path) -> None:
        for name in "abc":
            (to / name).write_text(str(steps))

    def counted(change: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            if not left[0]:
                raise Killed
            left[0] -= 1
            return change(*given, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("unlink", "rename", "replace", "rmdir", "mkdir"):
            patch.setattr(os, name, counted(getattr(os, name)))
        try:
            write_state(folder, Progress(steps, steps, 1.0, None), save)
        except Killed:
            return False
    return True


def test_a_state_is_whole_whenever_its_writers_were_killed(tmp_path: Path) -> None:
    first = 0
    while True:
        for second in range(30):
            folder = tmp_path / f"{first}-{second}"
            folder.mkdir()
            assert write_until_killed(folder, 1, 1000)
            has_ended = write_until_killed(folder, 2, first)
            if write_until_killed(folder, 3, second):
                break
            state, progress = read_state(folder)
            assert [(state / name).read_text() for name in "abc"] == [str(progress.steps)] * 3
        else:
            pytest.fail("a state takes more changes")
        if has_ended:
            return
        first += 1


class KilledTrainee:
    """Writes its policy, and is killed before its state."""

    def learn(self, clock: TrainingClock) -> None:
        clock.begin()
        clock.report(1, None)

    def save(self, folder: Path) -> dict[str, object]:
        return {}

    def save_state(self, folder: Path, is_last: bool) -> None:
        raise Killed


def test_a_new_training_does_not_go_on_from_the_state_of_an_older_one(tmp_path: Path) -> None:
    assert write_until_killed(tmp_path, 5, 1000)
    clock, note = TrainingClock(10, None, None), CheckpointNote("none", "none")
    with pytest.raises(Killed):
        train(lambda _: nullcontext(KilledTrainee()), TrainingJob({}, 0, 1), note, clock, tmp_path)
    assert read_note(tmp_path).training["steps"] == 1
    with pytest.raises(ConfigError, match="left its state"):
        read_state(tmp_path)
