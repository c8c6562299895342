"""Command lines with wrong words in every place, and what each of them may end in."""

from __future__ import annotations

import contextlib
import io
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

from typer.main import get_command

from dcgym.cli import main
from dcgym.cli.app import app
from dcgym.cli.bench import add_suites
from dcgym.policies import LEARNERS
from tests.support.wrong_values import SNIPPETS, WRONG

__all__ = ["Commands", "ended_well"]

# They read no words, and act on the machine.
_LEFT_OUT = ("doctor", "clean")

_STARTS = (
    "dcgym.suites.matrix.Matrix.run_all",
    "dcgym.suites.rollout._roll_out",
    "dcgym.suites.recordings._Recording.episodes",
    "dcgym.suites.watch.Watch.begin",
    "dcgym.policies.learned.cloning.demonstrate",
)
"""What each command calls when all that it was told is checked, and before it is done."""

_NAMES = {
    "env": ("LoadBalancing-v1", "CongestionControl-v2", "dcgym/JobAssignment-v0", "Joint-v2"),
    "topology": ("dumbbell", "fat-tree", "{name: dumbbell, hosts: 6}", "good.yaml"),
    "traffic": ("pairs", "{name: poisson, load: 0.5, sizes: web-search}", "incast"),
    "plan": ("pairs", "random-bijection", "{mix: [{name: pairs}, {name: incast}]}"),
    "policy": ("sed", "cubic", "ecmp", "random"),
    "policies": ("sed,lsq", "cubic", "sed", "ppo"),
    "score": ("sed", "cubic,reno"),
    "clone-from": ("sed", "hlb"),
    "scenario": ("yao-sim-8", "{preset: yao-sim-8, load: 0.5}"),
    "config": ("env.yaml", "iroko-dumbbell"),
    "file": ("sweep.yaml", "env.yaml"),
    "backend": ("simulation",),
    "train-backend": ("simulation",),
    "algo": ("ppo", "cma-es", "reinforce"),
    "library": ("sb3", "rllib"),
    "set": ("interval=100ms,200ms", "hosts=4", "k=4", "scenario.load=0.5,0.7", "lr=0.001"),
    "shaping": ("ongoing=-1",),
    "require-fidelity": ("ok", "invalid"),
    "checkpoint": ("ppo=x", "folder"),
    "kind": ("policies", "suites"),
    "name": ("mine/pool-v0",),
    "period": ("0.5",),
    "format": ("png", "csv,tex", "minari"),
    "cases": ("incast",),
    "folder": ("folder",),
    "picture": ("new.svg", "new.png"),
    "plot": ("new.svg",),
    "save": ("new.csv", "new.parquet", "new.json"),
    "markdown": ("new.md",),
}
"""What may stand in a place."""

_NUMBERS = ("1", "2", "10", "0.5", "1e3")
_OUTPUTS = ("out", "export", "plot", "save", "markdown", "picture")
_BAD = ("loop", "folder", "fifo", "full", "\udcff", "\udcff.yaml", "d/" * 2000, "file.yaml/x")
_PLACES = (*_BAD, "x" * 300, "file.yaml", "new", "new", "new")
_FILES = (*_BAD, "good.yaml", "null.json")


def _words() -> tuple[str, ...]:
    """Return what a shell can pass on; nothing that leads out of the folder."""
    texts = (str(one) for one in WRONG if isinstance(one, str | float))
    out = ("\0", "/", "..", "~")
    own = [one for one in (*texts, *SNIPPETS) if not any(part in one for part in out)]
    spec = ("{name: x}", "{}", "{name: dumbbell, hosts: 99999999}", "{name: [}", "a=b", "=", "x=")
    return (*own, *spec, *map(str, (-1, 0, 2**31, 2**63, 2**64, 10**18, 10**400)))


class Commands:
    """Command lines that are drawn, in a folder of their own.

    Args:
        folder: An empty folder, which the commands are called in.
    """

    def __init__(self, folder: Path) -> None:
        add_suites()
        self._commands = [*_leaves(get_command(app), ())]
        self._words = _words()
        self._folder = folder
        (folder / "loop").symlink_to("loop")
        (folder / "folder").mkdir()
        (folder / "file.yaml").write_text("env: LoadBalancing-v1")
        (folder / "env.yaml").write_text("env: LoadBalancing-v1\ninterval: 250ms")
        (folder / "sweep.yaml").write_text("env: LoadBalancing-v1\nset: {interval: [250ms, 1s]}")
        (folder / "good.yaml").write_text("name: dumbbell\nhosts: 4")
        (folder / "null.json").write_text("null")
        (folder / "full").symlink_to("/dev/full")
        os.mkfifo(folder / "fifo")

    def draw(self, numbers: random.Random) -> list[str]:
        """Draw a command line: a few places, of which most have what may stand there."""
        # Of the commands first, as most are suites.
        first = numbers.choice(sorted({path[0] for path, _ in self._commands}))
        path, parameters = numbers.choice([one for one in self._commands if one[0][0] == first])
        line = [*path]
        needed = [one for one in parameters if one.required]
        others = [one for one in parameters if not one.required and one.name != "as_json"]
        chosen = numbers.sample(others, min(len(others), numbers.choice((0, 1, 1, 2, 3, 5))))
        for one in (*(one for one in needed if numbers.random() < 0.95), *chosen):
            option = one.opts[0]
            is_option = option.startswith("-")
            if is_option:
                line.append(option)
            if not getattr(one, "is_flag", False):
                word = self._word(option.lstrip("-"), numbers)
                # Elsewhere it would be an option itself.
                line.append(word if is_option or not word.startswith("-") else "x")
        if numbers.random() < 0.03:
            odd = numbers.choice(("--x", "-h", "--", "x", ""))
            line.insert(numbers.randrange(len(line) + 1), odd)
        return line

    def _word(self, name: str, numbers: random.Random) -> str:
        right = _NAMES.get(name, () if name in _OUTPUTS else _NUMBERS)
        if right and numbers.random() < 0.55:
            return numbers.choice(right)
        return numbers.choice(_PLACES if name in _OUTPUTS else (*self._words, *_FILES))


def _leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """Yield each command with its parameters."""
    if not hasattr(command, "commands"):
        yield path, command.params
        return
    for name, one in command.commands.items():
        if name not in _LEFT_OUT:
            yield from _leaves(one, (*path, name))


class _Started(BaseException):
    """All that was told has been checked."""


@contextlib.contextmanager
def _opening_only(learner: Any) -> Iterator[None]:
    """Let a learner that needs no process of its own begin a training, and others do nothing."""

    def run(open_training: Any, job: Any, *_: object) -> NoReturn:
        if learner.library == "dcgym":
            with open_training(job):
                pass
        raise _Started

    before = learner.run
    object.__setattr__(learner, "run", run)
    try:
        yield
    finally:
        object.__setattr__(learner, "run", before)


def ended_well(line: list[str]) -> str | None:
    """Call the command as far as it would begin to run; return what is wrong with its end."""
    out, error = io.StringIO(), io.StringIO()
    code: object = None
    with contextlib.ExitStack() as stack:
        for name in _STARTS:
            stack.enter_context(mock.patch(name, side_effect=_Started))
        for name in LEARNERS.names():
            stack.enter_context(_opening_only(LEARNERS[name]))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(error))
        try:
            main(line)
        except _Started:
            return None
        except SystemExit as end:
            code = end.code
        except Exception as escaped:
            return f"{type(escaped).__name__}: {escaped!s:.200}"
    said = error.getvalue()
    if code in (0, None):
        return None
    if code not in (1, 2) or (code == 1 and "Traceback" in said):
        return f"code {code}: {said[:200]}"
    lines = said.splitlines()
    told = [one for one in lines if one.startswith("dcgym: ")]
    if len(told) != 1 or lines[-1] != told[0]:
        return f"said {said[:300]!r}"
    return None
