"""Measure what the tables of pages show, and write them there.

A table stands between two comments, the first of which names it. `table_runs.py` says which runs
a table is made of, and `table_columns.py` what it shows of them. The same command resumes.

How to run (as root, on a machine that does nothing else, for those that emulate):
    .venv/bin/python docs/_scripts/page_tables.py modern-balancing
    .venv/bin/python docs/_scripts/page_tables.py             # all: hours
    .venv/bin/python docs/_scripts/page_tables.py --check     # tables and pages know each other
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from printed import ROOT, all_pages
from table_columns import TABLES
from table_runs import SOURCES, Source

from dcgym.errors import BackendError

BEGIN = re.compile(r"^<!-- table ([\w-]+) -->$", re.MULTILINE)
BEGUN, END = "<!-- table {} -->", "<!-- end of table -->"


def places() -> dict[str, list[Path]]:
    """Return the pages that show each table."""
    found: dict[str, list[Path]] = {}
    for page in all_pages():
        for name in BEGIN.findall(page.read_text(encoding="utf-8")):
            found.setdefault(name, []).append(page)
    return found


def put(page: Path, name: str, text: str) -> None:
    """Put a table between its comments.

    Args:
        page: The page.
        name: Name of the table.
        text: The table.
    """
    begun = BEGUN.format(name)
    before, rest = page.read_text(encoding="utf-8").split(begun, 1)
    _, after = rest.split(END, 1)
    page.write_text(f"{before}{begun}\n\n{text.strip()}\n\n{END}{after}", encoding="utf-8")


def kept(page: Path, name: str) -> str:
    """Return a table as it stands between its comments, with these; empty ones for a new table.

    Args:
        page: The page.
        name: Name of the table.
    """
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    begun = BEGUN.format(name)
    inside = text.partition(begun)[2].partition(END)[0]
    return begun + (inside or "\n\n") + END


def measure(name: str, source: Source, runs: Path, shown: Mapping[str, list[Path]]) -> None:
    """Run a source, and write its tables.

    Args:
        name: Name of the source.
        source: The source.
        runs: Folder of all results.
        shown: The pages of each table.
    """
    folder = runs / name
    folder.mkdir(parents=True, exist_ok=True)
    said = source.run(name, folder)
    for table, (of, write) in TABLES.items():
        if of != name:
            continue
        # Once, at the table that is called like its source, or at each where none is.
        told = said if table == name or name not in TABLES else ""
        for page in shown[table]:
            put(page, table, "\n\n".join(filter(None, [write(folder), told])))
            print(f"{table}: {page.relative_to(ROOT)}", flush=True)


def main() -> None:
    """Measure the sources that are named, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sources", nargs="*", help=", ".join(SOURCES))
    parser.add_argument("--runs", type=Path, default=Path("runs") / "tables", help="their results")
    parser.add_argument("--check", action="store_true", help="measure nothing")
    arguments = parser.parse_args()
    shown = places()
    if strange := sorted((shown.keys() ^ TABLES.keys()) | (set(arguments.sources) - set(SOURCES))):
        sys.exit(f"in pages alone, or in docs/_scripts/table_columns.py alone: {strange}")
    for name in () if arguments.check else arguments.sources or SOURCES:
        try:
            measure(name, SOURCES[name], arguments.runs, shown)
        except BackendError as error:
            sys.exit(f"{name}: {error}")


if __name__ == "__main__":
    main()
