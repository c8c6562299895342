"""Run every shell command and every Python block of README and the site: ``make docs-check``.

A command is run as printed, once wherever it stands, unless ``commands.yaml`` gives a small form
of it or the reason why it is not run. The Python of a page is one program. Each page has a folder
of its own, in which commands find what those before them left. Fails where anything fails, where
an entry of ``commands.yaml`` fits nothing, or where time runs out.

Run from the repository: ``python docs/_scripts/check_commands.py [PAGE ...]``, as root.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import yaml
from printed import ROOT, all_pages, commands_of, program_of

ENTRIES = Path(__file__).with_name("commands.yaml")
LANES = 2
STEP_LIMIT_S = 600.0
# What commands name by a path that begins at the root of a checkout.
SHARED = ("docs", "experiments", "topologies", "policies")


@dataclass(frozen=True)
class Step:
    """Something that a page tells its reader to run.

    Attributes:
        page: Path of the page below the root.
        line: Line of the page.
        printed: What is printed; the page's name for its Python.
        run: What is run; empty if nothing is.
        note: How it differs from what is printed, or why it is not run.
        is_python: Whether it is a program in place of a command.
    """

    page: str
    line: int
    printed: str
    run: str
    note: str = ""
    is_python: bool = False


class Check:
    """One pass over the pages, in lanes.

    Args:
        limit_s: Seconds after which nothing new begins.
    """

    def __init__(self, limit_s: float) -> None:
        self._deadline = time.monotonic() + limit_s
        self._lock = threading.Lock()
        self.failures: list[str] = []

    def run_page(self, steps: list[Step]) -> None:
        """Run the steps of a page in a folder of its own.

        Args:
            steps: The steps, in their order.
        """
        with tempfile.TemporaryDirectory(prefix="docs-check-") as name:
            folder = Path(name)
            for shared in SHARED:
                (folder / shared).symlink_to(ROOT / shared)
            for step in steps:
                self._run(step, folder)

    def _run(self, step: Step, folder: Path) -> None:
        if not step.run:
            self._say(step, "not run", step.note)
            return
        left_s = min(STEP_LIMIT_S, self._deadline - time.monotonic())
        if left_s <= 0:
            self._fail(step, "no time was left")
            return
        began = time.monotonic()
        program = ["bash", "-euc", step.run]
        if step.is_python:
            (folder / "page.py").write_text(step.run, encoding="utf-8")
            program = [sys.executable, "page.py"]
        status, output = _finish(program, folder, left_s)
        self._say(step, f"{time.monotonic() - began:5.1f} s", step.note)
        if status != 0:
            self._fail(step, f"{status}\n{output}")

    def _say(self, step: Step, what: str, note: str) -> None:
        with self._lock:
            told = f"   [{note}]" if note else ""
            print(f"{what:>8}  {step.page}:{step.line}  {step.printed}{told}", flush=True)

    def _fail(self, step: Step, why: str) -> None:
        with self._lock:
            self.failures.append(f"{step.page}:{step.line}: {step.printed}\n{why}")


def _finish(program: list[str], folder: Path, limit_s: float) -> tuple[int | str, str]:
    """Run a program to its end or to the limit, with all that it started."""
    bin_folder, path = Path(sys.executable).parent, os.environ["PATH"]
    environment = {
        **os.environ,
        "PATH": f"{bin_folder}:{path}",
        "PYTHONPATH": f"{ROOT}:{folder / 'site'}",
        "DCGYM_ROOT": str(ROOT),
        "COLUMNS": "120",
    }
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            program, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        status: int | str
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            status = f"stopped after {limit_s:.0f} s"
        log.seek(0)
        return status, "\n".join(log.read().splitlines()[-25:])


def steps_of(pages: list[Path], entries: dict[str, dict[str, str]]) -> list[list[Step]]:
    """Return the steps of each page; a command that stands in several is the first one's.

    Args:
        pages: The pages.
        entries: Small forms and reasons, by command or by the name of a page.
    """
    seen: set[str] = set()
    found = []
    for page in pages:
        name = str(page.relative_to(ROOT))
        steps = []
        for line, command in commands_of(page):
            if command not in seen:
                seen.add(command)
                steps.append(_shell_step(name, line, command, entries.get(command, {})))
        program = program_of(page)
        if program:
            steps.append(_python_step(name, program, entries.get(name, {})))
        found.append(steps)
    return found


def _shell_step(page: str, line: int, command: str, entry: dict[str, str]) -> Step:
    if "skip" in entry:
        return Step(page, line, command, "", entry["skip"])
    small = entry.get("small", "")
    note = f"as: {' '.join(small.split())}" if small else ""
    return Step(page, line, command, small or command, note)


def _python_step(page: str, program: str, entry: dict[str, str]) -> Step:
    line = next(i for i, text in enumerate(program.splitlines(), start=1) if text)
    if "skip" in entry:
        return Step(page, line, "Python", "", entry["skip"], is_python=True)
    changes = []
    for old, new in entry.items():
        if old not in program:
            sys.exit(f"{ENTRIES.name}: {page} has no Python with {old!r}")
        program = program.replace(old, new)
        changes.append(f"{old} -> {new}")
    return Step(page, line, "Python", program, "; ".join(changes), is_python=True)


def read_entries(pages: list[Path]) -> dict[str, dict[str, str]]:
    """Return the entries of ``commands.yaml``; ends if one of them fits nothing.

    Args:
        pages: All pages.
    """
    entries: dict[str, dict[str, str]] = yaml.safe_load(ENTRIES.read_text(encoding="utf-8"))
    printed = {command for page in pages for _, command in commands_of(page)}
    printed |= {str(page.relative_to(ROOT)) for page in pages if program_of(page)}
    stale = [name for name in entries if name not in printed]
    if stale:
        sys.exit(f"{ENTRIES.name}: no page prints {stale}")
    return entries


def main() -> None:
    """Run what the pages print, or some of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("pages", nargs="*", type=Path, help="all if none is named")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for all of it")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("docs-check emulates: run it as root")
    pages = all_pages()
    entries = read_entries(pages)
    chosen = [page.resolve() for page in arguments.pages] or pages
    check, began = Check(arguments.limit), time.monotonic()
    with ThreadPoolExecutor(LANES) as lanes:
        list(lanes.map(check.run_page, steps_of(chosen, entries)))
    print(f"{time.monotonic() - began:.0f} s, {len(check.failures)} failures")
    if check.failures:
        sys.exit("\n\n".join(check.failures))


if __name__ == "__main__":
    main()
