"""Write the table of docs/guides/trust.md from what a test tries: ``make docs``.

With ``--check`` nothing is written, and the exit code says whether the table is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import yaml
from printed import ROOT

PAGE = ROOT / "docs" / "guides" / "trust.md"
ROWS = ROOT / "tests" / "backends" / "emulation" / "reached.yaml"
ACCESSES = ("limited", "read-only", "full")
BEGIN, END = "<!-- rows of reached.yaml -->", "<!-- end of rows -->"
HEAD = f"| what | {' | '.join(f'`{access}`' for access in ACCESSES)} | tried as |"
RULE = "|---|---|---|---|---|"


def main() -> None:
    """Write or check the table."""
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    rows = yaml.safe_load(ROWS.read_text(encoding="utf-8"))
    table = "\n".join([HEAD, RULE, *map(_line, rows)])
    text = f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"
    if text == page:
        return
    if "--check" in sys.argv:
        sys.exit("out of date, run 'make docs': guides/trust.md")
    PAGE.write_text(text, encoding="utf-8")


def _line(row: Mapping[str, str]) -> str:
    cells = [row[access] for access in ACCESSES]
    if "first" in row:
        cells[-1] += f", after `{row['first']}`"
    tried = f"not tried: {row['untried']}" if "untried" in row else f"`{row['id']}`"
    return f"| {' | '.join([row['what'], *cells, tried])} |"


if __name__ == "__main__":
    main()
