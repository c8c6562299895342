"""The page of a report, and pieces of HTML that all tables share."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dcgym.suites.reports.cells import Cell, Defined, Marked, Table, text_of
from dcgym.suites.reports.exports import save_facts, save_table
from dcgym.tasks.common.layout import Column
from dcgym.writing import write_file

__all__ = [
    "defined",
    "definitions",
    "facts",
    "heading",
    "page",
    "printable",
    "table",
    "write_page",
]

STYLE = """
:root{color-scheme:light dark;--ink:#222;--paper:#fff;--line:#ddd;--note:#666;--best:#d9f2e3;
--link:#0a58ca}
@media (prefers-color-scheme:dark){:root{--ink:#ddd;--paper:#181818;--line:#444;--note:#999;
--best:#1d4a33;--link:#8ab4f8}figure svg,.legend svg{filter:invert(1) hue-rotate(180deg)}}
body{font-family:sans-serif;max-width:1200px;margin:2em auto;padding:0 1em;color:var(--ink);
background:var(--paper)}
h1{overflow-wrap:anywhere;font-size:clamp(1.1em,5vw,2em)}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9em}
td,th{padding:.3em .5em;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
td:first-child,th:first-child{text-align:left;position:sticky;left:0;background:var(--paper)}
.facts td{text-align:left;white-space:normal;overflow-wrap:anywhere}
.facts td:first-child{white-space:nowrap;vertical-align:top}.facts th{display:none}
.best{font-weight:bold;background:var(--best)}.tied{text-decoration:underline dotted}
.note{color:var(--note)}.ok{background:#2a92}.own{background:#db02}
.beyond{background:#d332;font-weight:bold}.missing{color:var(--note)}
a{color:inherit;text-decoration:underline dotted var(--note)}
a:hover,a:focus{color:var(--link)}dt{font-weight:bold;margin-top:.6em}:target{color:var(--link)}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(300px,1fr));gap:.5em}
figure{margin:0}figure .note{margin:0;font-size:.9em}
figure text{font-family:sans-serif}figure svg{width:100%;height:auto}
figcaption{font-size:.9em;font-weight:bold}
.wide figure{max-width:760px}.legend span{margin-right:1.2em;white-space:nowrap}
.legend{position:sticky;top:0;background:var(--paper);padding:.3em 0}
pre{overflow-x:auto;font-size:.85em}
"""


_NOT_PRINTABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def page(title: str, *parts: str) -> str:
    """Return a page that loads nothing.

    Args:
        title: Its title, without markup.
        *parts: What it shows, as HTML.
    """
    whole = "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>",
            *parts,
            "</body></html>",
        )
    )
    return printable(whole)


def printable(text: str) -> str:
    """Return a text without the characters that neither XML nor HTML has, which a field may hold.

    Args:
        text: The text.
    """
    return _NOT_PRINTABLE.sub("\ufffd", text)


def write_page(folder: Path, content: str, name: str = "report") -> Path:
    """Write ``report.html`` in one step and return its path.

    Args:
        folder: Where to write it.
        content: The page.
        name: Name of the file without its ending.
    """
    path = folder / f"{name}.html"
    write_file(path, "out", content.encode())
    return path


def defined(column: Column) -> Defined:
    """Return the title of a metric.

    Args:
        column: The metric.
    """
    return Defined(column.title, column.metric, column.meaning or "")


def definitions(columns: Iterable[Column]) -> str:
    """Return the list to which titles lead; nothing where nothing is defined.

    Args:
        columns: The metrics; of several with one name the first is defined.
    """
    better = {"high": " Higher is better.", "low": " Lower is better."}
    found: dict[str, str] = {}
    for one in columns:
        title = f'<dt id="m-{html.escape(one.metric)}">{html.escape(one.title)}</dt>'
        meaning = f"{html.escape(one.meaning or '')}{better.get(one.better or '', '')}"
        if one.meaning:
            found.setdefault(one.metric, f"{title}<dd>{meaning}</dd>")
    return f"<h2>Definitions</h2><dl>{''.join(found.values())}</dl>" if found else ""


def table(titles: Sequence[Cell], rows: Iterable[Sequence[Cell]], name: str = "table") -> str:
    """Return a table, which an export writes too.

    Args:
        titles: Title of each column.
        rows: Cells of each row; `Number` where programs shall read what is behind the text.
        name: What it shows, in a few words: its file's name in an export.
    """
    made = Table(name, titles, list(rows))
    save_table(made)
    return _table(made, "numbers")


def facts(rows: Mapping[str, str]) -> str:
    """Return a table of how results were made, which an export writes beside its files.

    Args:
        rows: Each fact by what it is of.
    """
    save_facts(rows)
    return _table(Table("facts", ["what", "value"], [*rows.items()]), "facts")


def heading(text: str) -> str:
    """Return a heading; nothing for no text.

    Args:
        text: The text.
    """
    return f"<h2>{html.escape(text)}</h2>" if text else ""


def _table(made: Table, kind: str) -> str:
    lines = [_row("th", made.titles), *(_row("td", row) for row in made.rows)]
    return f'<div class="scroll"><table class="{kind}">{"".join(lines)}</table></div>'


def _row(tag: str, cells: Sequence[Cell]) -> str:
    return "<tr>" + "".join(_cell(tag, cell) for cell in cells) + "</tr>"


def _cell(tag: str, cell: Cell) -> str:
    if isinstance(cell, Marked) and cell.kind:
        return f'<{tag} class="{cell.kind}">{html.escape(cell.text)}</{tag}>'
    shown = str(cell) if isinstance(cell, Defined) else html.escape(text_of(cell))
    return f"<{tag}>{shown}</{tag}>"
