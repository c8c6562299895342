"""``make test``: run the tests in parts, and repeat what failed in the kernel or with Ray.

The kernel and Ray depend on when the machine serves them, so that one of their tests which fails is
repeated up to twice after all others, alone. If it passes then, it is unsteady: the run passes, and
names it. Pure and simulated tests are never repeated.

Run from the repository: ``python -m tests.run``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

# Most tests wait for the kernel or for time to pass: four at a time fill two processors.
SIDE_BY_SIDE = ("-n", "4", "--dist", "worksteal")
SHORT = "not docs and not soak"
# What measures times and rates comes apart from trainings and simulations. Ray, which has processes
# of its own, is last and has the machine for itself.
PARTS = {
    "functions": (f"not alone and not ray and {SHORT}", *SIDE_BY_SIDE, "--cache-clear"),
    "alone": ("alone", *SIDE_BY_SIDE),
    "ray": (f"ray and {SHORT}",),
}
REPEATED = (
    f"(emulation or native or ray) and {SHORT}",
    *("--last-failed", "--last-failed-no-failures", "none"),
)
UNSTEADY_AT_MOST = 5
# A tree in which more fails is broken: repeating all of it would only take time.
REPEATED_AT_MOST = 20
# Statuses of pytest. Another one is a run that broke off, as at a file that cannot be imported.
ALL_PASSED, SOME_FAILED = 0, 1
SLOWEST = 10


@dataclass(frozen=True)
class Case:
    """How one test ended."""

    name: str
    outcome: str
    duration_s: float
    is_crash: bool


def run(title: str, expression: str, *options: str) -> tuple[int, float, list[Case]]:
    """Run one part: pytest's status, the minutes it took, and how each test ended."""
    print(f"tests: {title}", flush=True)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "junit.xml"
        report = (f"--junitxml={table}", "-o", "junit_family=xunit1")
        command = (sys.executable, "-m", "pytest", "-m", expression, *report, *options)
        status = subprocess.run(command, check=False).returncode
        cases = list(read(table)) if table.exists() else []
    return status, (time.monotonic() - begin) / 60, cases


def read(table: Path) -> Iterator[Case]:
    """Read a table in JUnit's form. A test whose teardown fails too stands there twice."""
    for row in ElementTree.parse(table).iter("testcase"):
        file = row.get("file", "")
        inner = row.get("classname", "").removeprefix(file.removesuffix(".py").replace("/", "."))
        name = f"{file}{inner.replace('.', '::')}::{row.get('name', '')}"
        broken = [*row.iter("failure"), *row.iter("error")]
        is_crash = any("crashed while running" in one.get("message", "") for one in broken)
        outcome = "failed" if broken else "passed" if row.find("skipped") is None else "skipped"
        yield Case(name, outcome, float(row.get("time", 0)), is_crash)


def names(cases: list[Case], outcome: str) -> set[str]:
    """Return the tests that ended so, and in no worse way."""
    worse = set() if outcome == "failed" else names(cases, "failed")
    return {case.name for case in cases if case.outcome == outcome} - worse


def main() -> int:
    """Run all parts, and return the status of the whole: 0 if it passes."""
    cases: list[Case] = []
    minutes: dict[str, float] = {}
    is_whole = True
    for title, (expression, *options) in PARTS.items():
        status, minutes[title], found = run(title, expression, *options)
        is_whole &= status in (ALL_PASSED, SOME_FAILED)
        cases += found
    first_failed = names(cases, "failed")
    # A worker that dies takes the memory of all its tests along: never for a slow machine.
    failed = set(first_failed)
    crashed = {case.name for case in cases if case.is_crash}
    if 0 < len(failed) <= REPEATED_AT_MOST:
        minutes["repeated"] = 0.0
        for turn in ("repeated", "repeated again"):
            status, taken, found = run(turn, *REPEATED)
            minutes["repeated"] += taken
            failed -= names(found, "passed") - crashed
            if status != SOME_FAILED:
                break
    unsteady = first_failed - failed
    say_how_it_ended(cases, failed, unsteady, minutes)
    if not is_whole:
        print("tests: a part was not run to its end")
    return int(not is_whole or bool(failed) or len(unsteady) > UNSTEADY_AT_MOST)


def say_how_it_ended(
    cases: list[Case], failed: set[str], unsteady: set[str], minutes: dict[str, float]
) -> None:
    """Print the closing lines."""
    print("tests: the slowest")
    for case in sorted(cases, key=lambda case: case.duration_s)[: -SLOWEST - 1 : -1]:
        print(f"  {case.duration_s:6.1f} s  {case.name}")
    for name in sorted(failed):
        print(f"tests: failed {name}")
    for name in sorted(unsteady):
        print(f"tests: unsteady {name}")
    if len(unsteady) > UNSTEADY_AT_MOST:
        print(f"tests: more than {UNSTEADY_AT_MOST} unsteady tests are a failure")
    print("tests: " + ", ".join(f"{title} {taken:.1f} min" for title, taken in minutes.items()))
    passed = len(names(cases, "passed") | unsteady)
    skipped = len(names(cases, "skipped"))
    print(f"tests: {len(unsteady)} unsteady")
    print(f"tests: {passed} passed, {len(failed)} failed, {skipped} skipped", flush=True)


if __name__ == "__main__":
    sys.exit(main())
