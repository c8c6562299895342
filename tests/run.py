"""Run tests in parts, and repeat some: ``make test``, ``make test-timing`` and ``make collect``.

The kernel and Ray depend on when the machine serves them, so that one of their tests which fails is
repeated up to twice after all others, alone. If it passes then, it is unsteady: the run passes, and
names it. Pure and simulated tests are never repeated.

Timing tests run one at a time. One that is not judged, since the machine did not keep up, is
repeated once; one that fails is not.

``collect`` imports every module and collects every test, and runs none.

Run from the repository: ``python -m tests.run [collect | timing]``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.support.machine import MACHINE
from tests.support.windows import NOT_JUDGED

# Most tests wait for the kernel or for time to pass: four at a time fill two processors.
SIDE_BY_SIDE = ("-n", "4", "--dist", "worksteal")
SHORT = "not timing and not docs and not soak"
# A library that starts a thread for each processor takes them from the other processes.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
# Ray, which has processes of its own, is last and has the machine for itself.
PARTS = {
    "functions": (f"not ray and {SHORT}", *SIDE_BY_SIDE, "--cache-clear"),
    "ray": (f"ray and {SHORT}",),
}
TIMING = "timing and not soak"
REPEATED = (
    f"(emulation or native or ray) and {SHORT}",
    *("--last-failed", "--last-failed-no-failures", "none"),
)
UNSTEADY_AT_MOST = 5
# A tree in which more fails is broken: repeating all of it would only take time.
REPEATED_AT_MOST = 20
# Without bytecode it takes 40 s on a quiet machine.
COLLECT_S = 600.0
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
    reason: str


def run(title: str, expression: str, *options: str) -> tuple[int, float, list[Case]]:
    """Run one part: pytest's status, the minutes it took, and how each test ended."""
    print(f"tests: {title}", flush=True)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "junit.xml"
        report = (f"--junitxml={table}", "-o", "junit_family=xunit1")
        command = (sys.executable, "-m", "pytest", "-m", expression, *report, *options)
        status = subprocess.run(command, check=False, env=ONE_THREAD | os.environ).returncode
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
        left_out = row.find("skipped")
        reason = "" if left_out is None else left_out.get("message", "")
        outcome = "failed" if broken else "passed" if left_out is None else "skipped"
        if reason.startswith(NOT_JUDGED):
            outcome = "not judged"
        yield Case(name, outcome, float(row.get("time", 0)), is_crash, reason)


def names(cases: list[Case], outcome: str) -> set[str]:
    """Return the tests that ended so, and in no worse way."""
    worse = set() if outcome == "failed" else names(cases, "failed")
    return {case.name for case in cases if case.outcome == outcome} - worse


def main(kind: str = "functions") -> int:
    """Run tests of a kind, and return the status of the whole: 0 if it passes."""
    return {"functions": check_functions, "timing": time_it, "collect": collect}[kind]()


def collect() -> int:
    """Import every module and collect every test, in three processes; print what failed."""
    files = sorted(str(path) for path in Path("tests").rglob("test_*.py"))
    halves = files[: len(files) // 2], files[len(files) // 2 :]
    commands = [("-m", "pytest", "-qq", "--collect-only", *half) for half in halves]
    processes = [
        subprocess.Popen(
            (sys.executable, *command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for command in [("-m", "tests.support.imports"), *commands]
    ]
    status = 0
    try:
        for process in processes:
            output, _ = process.communicate(timeout=COLLECT_S)
            if process.returncode:
                status = 1
                print(output, flush=True)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return status


def time_it() -> int:
    """Run the timing tests, which fail only where the machine kept up."""
    reasons = MACHINE.begin()
    print(f"tests: the machine: {'; '.join(reasons) or 'ok'}")
    status, taken, cases = run("timing", TIMING)
    minutes = {"timing": taken}
    lost = names(cases, "not judged")
    if lost and not MACHINE.begin():
        again, minutes["repeated"], found = run("not judged before", TIMING, *sorted(lost))
        status = max(status, again)
        cases = [case for case in cases if case.name not in lost] + found
    for case in cases:
        if case.outcome == "not judged":
            print(f"tests: {case.reason}: {case.name}")
    say_how_it_ended(cases, names(cases, "failed"), set(), minutes)
    return status


def check_functions() -> int:
    """Run what does not depend on the machine's speed."""
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
    counts = {
        "passed": passed,
        "failed": len(failed),
        "skipped": skipped,
        "unsteady": len(unsteady),
        "not judged": len(names(cases, "not judged")),
    }
    print("tests: " + ", ".join(f"{count} {name}" for name, count in counts.items()), flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
