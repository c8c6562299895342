"""What a machine of a Ray cluster does for a suite: it says what it is, and does pieces of work."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

from dcgym._version import __version__
from dcgym.errors import DcgymError, FeatureNotSupported
from dcgym.native import MODULES, PROGRAMS, build_digest, not_loadable, program_path
from dcgym.places import temporary_place
from dcgym.reading import ARCHIVE, read_bytes
from dcgym.suites.faults import CRASHED, LOG_FILE, Limits, WorkFailed
from dcgym.suites.results import TRAINING_FILE, git_commit
from dcgym.suites.spec import RunSpec
from dcgym.suites.work import Work
from dcgym.suites.worker import end_with_parent
from dcgym.suites.workers import Workers
from dcgym.writing import write_files

__all__ = [
    "CANCEL",
    "DO",
    "DOCTOR_S",
    "LAST_FILES",
    "MACHINES",
    "Delivery",
    "Files",
    "Installation",
    "Machine",
    "Problem",
    "Wanted",
    "do_work",
    "examine_here",
    "examiner",
    "files_of",
    "installation",
    "work_here",
]

DOCTOR_S = 120.0
"""Within this time ``dcgym doctor`` ends."""

DO, MACHINES, CANCEL = "do", "machines", "cancel"
"""Kinds of questions: do a piece of work; list the machines; end all work."""

# What a training goes on from is large, and suites train in one go.
LEFT_OUT = "state"
LAST_FILES = ("summary.json", TRAINING_FILE)
"""What says that a folder of results is complete."""

Files: TypeAlias = dict[str, bytes]
Wanted: TypeAlias = tuple[str, str | None, str, str]
"""An `Installation` for machines that may not have this class."""
Problem: TypeAlias = tuple[str, bool]
"""Why a machine cannot work for another one, and whether that one's dcgym would mend it."""


@dataclass(frozen=True)
class Machine:
    """A machine of the cluster.

    Attributes:
        name: Its address.
        resources: What it offers, by name.
        problem: Why it cannot work for this one; None where it can.
    """

    name: str
    resources: dict[str, float]
    problem: Problem | None


class Installation(NamedTuple):
    """What of dcgym a machine has.

    Attributes:
        dcgym: Its version.
        commit: Its commit; None where it is no clone.
        python: Version of Python, without the third number.
        native: Digest of the build of its compiled parts.
    """

    dcgym: str
    commit: str | None
    python: str
    native: str

    def differences(self, wanted: Installation) -> str:
        """Say what differs from what another machine has; nothing for what one does not know.

        Args:
            wanted: What the other has.
        """
        names = ("dcgym", "commit", "Python", "native parts")
        return ", ".join(
            f"{name} {own} and not {other}"
            for name, own, other in zip(names, self, wanted, strict=True)
            if own != other and None not in (own, other)
        )


def installation() -> Installation:
    """Return what of dcgym this machine has."""
    python = ".".join(platform.python_version_tuple()[:2])
    # Whether files differ from it changes while somebody works on them.
    commit = git_commit()
    known = None if commit is None else commit.removesuffix("-dirty")
    return Installation(__version__, known, python, build_digest()[:12])


@dataclass(frozen=True)
class Delivery:
    """What a machine of the cluster returns.

    Attributes:
        node: Name of the machine.
        files: Content of the folder's files by their relative path.
        failure: What went wrong, in one line; None where nothing did.
        kind: Kind of a failure of the work; None where it never began.
    """

    node: str
    files: Files
    failure: str | None
    kind: str | None = None


def examiner(needed: Sequence[str] = ()) -> Callable[[Wanted, bool], Problem | None]:
    """Return `examine_here` as a function that a machine without this package can call too.

    Args:
        needed: Packages that the machine must have, because it was given dcgym alone; none where
            its own dcgym is meant.
    """

    # Ray sends what is defined within a function as it is, and not by its name.
    def examine(wanted: Wanted, emulates: bool) -> Problem | None:
        from importlib import metadata

        missing = []
        for name in needed:
            try:
                metadata.distribution(name)
            except metadata.PackageNotFoundError:
                missing.append(name)
        if missing:
            return f"misses {', '.join(missing)}, which dcgym needs", False
        try:
            from dcgym.suites.cluster_work import Installation, examine_here
        except ImportError as error:
            if needed:
                return f"cannot import the dcgym that it was given ({error})", False
            return f"has no dcgym of this version ({error})", True
        return examine_here(Installation(*wanted), emulates)

    return examine


def examine_here(wanted: Installation, emulates: bool) -> Problem | None:
    """Return why this machine cannot work for another one; None where it can.

    Args:
        wanted: What the other machine has.
        emulates: Whether it is to run emulations.
    """
    own = installation()
    if differs := own.differences(wanted):
        return f"has {differs}", own.python == wanted.python
    # Nothing but emulation needs libbpf and libmnl.
    if reason := not_loadable(one for one in MODULES if emulates or one != "_native"):
        return f"cannot load {reason}", False
    _make_executable()
    reason = _missing_for_emulation() if emulates else None
    return None if reason is None else (f"offers emulations, but {reason}", False)


@cache
def _examine_once(wanted: Installation) -> Problem | None:
    # What this process has imported, it keeps.
    return examine_here(wanted, False)


def _make_executable() -> None:
    """Make programs what they were: older versions of Ray (2.44) unpack them as plain files."""
    for name in PROGRAMS:
        with contextlib.suppress(FeatureNotSupported):
            path = program_path(name)
            if not os.access(path, os.X_OK):
                path.chmod(0o755)


def _missing_for_emulation() -> str | None:
    try:
        done = subprocess.run(
            [sys.executable, "-m", "dcgym", "doctor", "--json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DOCTOR_S,
            check=False,
        )
        found = json.loads(done.stdout)
        missing = [one["name"] for one in found["checks"] if one["required"] and not one["ok"]]
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        return f"its 'dcgym doctor' fails ({type(error).__name__})"
    return f"its 'dcgym doctor' misses {', '.join(missing)}" if missing else None


def work_here(spec: Work, checkpoint: Files, wanted: Wanted, limits: Limits) -> Delivery:
    """Do a piece of work as a task of Ray's; its arguments are those of `do_work`."""
    # Ray's process that has a task outlives the node when the head is lost, and with it the work.
    end_with_parent(os.getppid())
    return do_work(spec, checkpoint, wanted, limits, _lasting_workers())


@cache
def _lasting_workers() -> Workers:
    """Return what starts the workers of all tasks that this process has; it ends with it."""
    return Workers()


def do_work(
    spec: Work, checkpoint: Files, wanted: Wanted, limits: Limits, workers: Workers
) -> Delivery:
    """Do a piece of work on this machine, and return its files.

    Args:
        spec: A run or a training.
        checkpoint: Files of the policy that acts; empty where it was not trained.
        wanted: What of dcgym the machine has that asks for it.
        limits: What it may take.
        workers: What starts a worker.
    """
    node = socket.gethostname()
    # It may have joined after the others were examined.
    if problem := _examine_once(Installation(*wanted)):
        return Delivery(node, {}, problem[0])
    try:
        with temporary_place("work") as place:
            return Delivery(node, *_work_in(place, spec, checkpoint, limits, workers))
    except OSError as error:
        return Delivery(node, {}, str(error), CRASHED)


def _work_in(
    place: Path, spec: Work, checkpoint: Files, limits: Limits, workers: Workers
) -> tuple[Files, str | None, str | None]:
    """Do a piece of work in a folder; return its files, and what went wrong with its kind."""
    folder = place / Path(spec.folder or "").name
    if isinstance(spec, RunSpec) and checkpoint:
        write_files(place / "policy", "out", checkpoint, ())
        spec = replace(spec, checkpoint=str(place / "policy"))
    failure, kind = None, None
    try:
        work = replace(spec, folder=str(folder))
        workers.run(work, folder / LOG_FILE, lambda *_: None, limits)
    except WorkFailed as error:
        failure, kind = error.fact, error.kind
    except (DcgymError, OSError) as error:
        failure, kind = str(error), CRASHED
    return files_of(folder), failure, kind


def files_of(folder: Path) -> Files:
    """Return the content of a folder's files, without the state of a training.

    Args:
        folder: The folder.
    """
    paths = {path: path.relative_to(folder) for path in sorted(folder.rglob("*"))}
    return {
        str(name): read_bytes(path, "results", ARCHIVE)
        for path, name in paths.items()
        if path.is_file() and LEFT_OUT not in name.parts[:-1]
    }
