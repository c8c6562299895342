"""What a report shows, written as files for papers and programs, numbered as on the page."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from dcgym._version import __version__
from dcgym.config import check_in
from dcgym.errors import ConfigError
from dcgym.json_text import json_text
from dcgym.suites.reports.cells import Table
from dcgym.suites.reports.table_files import as_csv, as_latex
from dcgym.suites.results import read_json
from dcgym.writing import new_folder, write_file

__all__ = [
    "EXPORT_FORMATS",
    "MADE_FILE",
    "each_section",
    "exporting",
    "save_facts",
    "save_figure",
    "save_table",
]

TABLE_FORMATS = ("csv", "tex")
FIGURE_FORMATS = ("png", "pdf", "svg")
EXPORT_FORMATS = (*TABLE_FORMATS, *FIGURE_FORMATS)
"""Endings of the files of an export."""

MADE_FILE = "made.json"
"""File of an export that says how its results were made, and what each file shows."""

# Letters of a file's name: of the section, and of what the file shows.
NAME_LETTERS = 40
_OWN_NAME = re.compile(r"\d{3,}-[a-z0-9-]*\.[a-z]{3}")

Group = TypeVar("Group")


@dataclass
class _Export:
    """Files of an export until the report is whole.

    Attributes:
        forms: Their formats.
        section: Section of the page that is being made; "" outside of sections.
        tables: Tables by the name of their files, without the ending.
        files: Contents of figures, by the name of the file.
        shown: Title and section of each table and figure, by the name of its files.
        facts: How the results were made.
    """

    forms: Sequence[str]
    section: str = ""
    tables: dict[str, Table] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    shown: dict[str, tuple[str, str]] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)

    def name(self, title: str) -> str:
        """Return the name of the files of the next table or figure."""
        words = filter(None, map(_slug, (self.section, title)))
        name = "-".join((f"{len(self.shown) + 1:03d}", *words))
        self.shown[name] = title, self.section
        return name

    def write(self, folder: Path, results: str) -> None:
        """Write all files, and remove those of an earlier export that are none of them."""
        contents = dict(self.files)
        source = ", ".join(f"{key}: {value}" for key, value in self.facts.items() if key in SOURCE)
        for (name, table), form in itertools.product(self.tables.items(), self.forms):
            if form in TABLE_FORMATS:
                about = (*filter(None, self.shown[name]), source)
                text = as_csv(table) if form == "csv" else as_latex(table, about)
                contents[f"{name}.{form}"] = text.encode("utf-8", "replace")
        old = _files_of(folder)
        made = {
            "results": results,
            "exported_by": f"dcgym {__version__}",
            "made": self.facts,
            "files": {
                file: dict(zip(("title", "section"), self.shown[Path(file).stem], strict=True))
                for file in sorted(contents)
            },
        }
        contents[MADE_FILE] = json_text(made).encode("utf-8", "replace")
        _write_all(folder, contents)
        for file in old - contents.keys():
            # One that is gone, or a folder now, is no file of ours.
            with suppress(OSError):
                (folder / file).unlink()


SOURCE = ("command", "dcgym", "commit")
_EXPORT: ContextVar[_Export | None] = ContextVar("export", default=None)


@contextmanager
def exporting(
    folder: Path, results: Path, forms: Sequence[str] = EXPORT_FORMATS[:-1]
) -> Iterator[None]:
    """Write each table and figure of the report that is made meanwhile, after it is whole.

    Files are numbered in the order of the page: ``001-case-goodput-mbit-s.pdf``. Equal results make
    equal files. An earlier export in the folder is replaced.

    Args:
        folder: Where to write them; made if it is missing.
        results: Folder of the results.
        forms: Some of ``csv``, ``tex``, ``png`` (300 dots an inch), ``pdf`` and ``svg``.

    Raises:
        ConfigError: Unknown form, or the folder cannot be written.
    """
    if not forms:
        raise ConfigError("format", "", EXPORT_FORMATS)
    for form in forms:
        check_in("format", form, EXPORT_FORMATS)
    with new_folder(folder, "export", (MADE_FILE,)) as target:
        export = _Export(forms)
        token = _EXPORT.set(export)
        try:
            yield
        finally:
            _EXPORT.reset(token)
        export.write(target, results.name)


def save_table(table: Table) -> None:
    """Take a table into the export, if there is one.

    Args:
        table: The table.
    """
    if (export := _EXPORT.get()) is not None:
        export.tables[export.name(table.name)] = table


def save_figure(title: str, render: Callable[[str], bytes]) -> None:
    """Take a figure into the export, if there is one.

    Args:
        title: Its title.
        render: Returns the content of its file in a format: "png", "pdf" or "svg".
    """
    if (export := _EXPORT.get()) is not None:
        name = export.name(title)
        for form in export.forms:
            if form in FIGURE_FORMATS:
                export.files[f"{name}.{form}"] = render(form)


def save_facts(facts: Mapping[str, str]) -> None:
    """Take how the results were made into the export, if there is one.

    Args:
        facts: Each fact by what it is of.
    """
    if (export := _EXPORT.get()) is not None:
        export.facts.update(facts)


def each_section(groups: Iterable[tuple[str, Group]]) -> Iterator[tuple[str, Group]]:
    """Yield groups; what is exported until the next one has the name of its own.

    Args:
        groups: Name and content of each section of a page.
    """
    export = _EXPORT.get()
    for name, group in groups:
        if export is not None:
            export.section = name
        yield name, group
    if export is not None:
        export.section = ""


def _slug(text: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return slug[:NAME_LETTERS].strip("-")


def _files_of(folder: Path) -> set[str]:
    """Return the names of the files of an earlier export."""
    made = read_json(folder / MADE_FILE)
    files = made.get("files") if isinstance(made, dict) else None
    return {file for file in files or () if isinstance(file, str) and _OWN_NAME.fullmatch(file)}


def _write_all(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files, or none that was not there before."""
    new = [folder / file for file in contents if not (folder / file).exists()]
    try:
        for file, content in contents.items():
            write_file(folder / file, "export", content)
    except BaseException:
        for path in new:
            path.unlink(missing_ok=True)
        raise
