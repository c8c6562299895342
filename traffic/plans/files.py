"""Plans in files: JSON, Parquet, CSV with one flow a line, and those of other programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dcgym.config import as_name, check_in
from dcgym.errors import ConfigError
from dcgym.files import PLAN, kind_of, read_text, wrong_file
from dcgym.reading import FLOWS
from dcgym.traffic.plans.flow import FLOW_FIELDS, column
from dcgym.traffic.plans.flow_lists import FLOW_LIST_SUFFIXES, read_flow_list
from dcgym.traffic.plans.iroko import IROKO_COLUMNS, read_iroko
from dcgym.traffic.plans.records import FLOW_DTYPE, LAST_PORT, NONE, TRANSPORTS, Records
from dcgym.traffic.plans.tables import Table, read_table
from dcgym.writing import write_table

__all__ = ["SAVED", "FileContent", "is_plan_path", "read_flows", "read_json", "write_flows"]

Where = Callable[[int], str]

# FLOW_LIST_SUFFIXES can be read besides.
SAVED = (".csv", ".json", ".parquet")
_ABSENT = {"port": 0, "repetitions": 1, "start_ns": 0, "gap_ns": 0, "group": 0}
_PLAN_COLUMNS = ("plan", "seed")


def is_plan_path(text: str) -> bool:
    """Return whether a text names a file rather than a registered plan, whose names have no "/".

    Args:
        text: What a configuration holds.
    """
    return text.lower().endswith((*SAVED, *FLOW_LIST_SUFFIXES)) or "/" in text


class FileContent(NamedTuple):
    """What a file says of a plan.

    Attributes:
        name: Its name, or that of the file.
        seed: Its seed, or the one that was given.
        hosts: Names of the hosts.
        records: The flows, of `FLOW_DTYPE`; their hosts are indexes of `hosts`.
        where: Names the row of the file that a flow came from.
    """

    name: str
    seed: int
    hosts: Sequence[str]
    records: Records
    where: Where


def read_flows(path: Path, seed: int = 0, fastest_bps: int | None = None) -> FileContent:
    """Read the flows of a file that is not JSON.

    Args:
        path: The file.
        seed: Seed of what the file leaves random, and of the plan where the file names none.
        fastest_bps: Highest rate of any host, if known (see `iroko.read_iroko`).

    Raises:
        ConfigError: The file cannot be read, or a row holds what is not allowed.
    """
    if path.suffix.lower() in FLOW_LIST_SUFFIXES and (flows := read_flow_list(path)) is not None:
        return FileContent(as_name(path.stem), seed, *flows)
    table = read_table(path)
    if set(table.columns) == set(IROKO_COLUMNS):
        hosts, records, origins = read_iroko(table, seed, fastest_bps)

        def of_row(row: int) -> str:
            return table.where(origins[row])

        return FileContent(as_name(path.stem), seed, hosts, records, of_row)
    return _own_flows(table, path, seed)


def read_json(path: Path) -> dict[str, object]:
    """Read what a JSON file holds, a plan as `Plan.to_dict` returns it.

    Args:
        path: The file.

    Raises:
        ConfigError: The file cannot be read, or holds something else.
    """
    text = read_text(path, "traffic file", "a plan in JSON", FLOWS)
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        allowed = f"a plan in JSON ({error.msg}, line {error.lineno})"
        raise wrong_file("traffic file", path, allowed) from error
    except (RecursionError, ValueError) as error:
        raise ConfigError("traffic file", str(path), f"valid JSON ({error})") from error
    if not isinstance(content, dict) or kind_of(content) not in (None, PLAN):
        raise wrong_file("traffic file", path, PLAN)
    return content


def write_flows(path: Path, name: str, seed: int, hosts: Sequence[str], records: Records) -> None:
    """Write flows to a .csv file, or a plan to a .parquet file.

    Args:
        path: Where to; the suffix decides the format.
        name: Name of the plan.
        seed: Its seed.
        hosts: Names of the hosts.
        records: The flows, of `FLOW_DTYPE`.

    Raises:
        ConfigError: The file cannot be written.
    """
    import polars as pl

    text = {"src": pl.String, "dst": pl.String, "transport": pl.String}
    frame = pl.DataFrame(
        {field: column(records, hosts, field) for field in FLOW_FIELDS},
        schema={field: text.get(field, pl.Int64) for field in FLOW_FIELDS},
    )
    if path.suffix.lower() != ".csv":
        frame = frame.with_columns(plan=pl.lit(name), seed=pl.lit(seed, pl.Int64))
    write_table(path, "plan file", frame)


def _own_flows(table: Table, path: Path, seed: int) -> FileContent:
    _check_header(table)
    ends = table.texts("src") + table.texts("dst")
    hosts = list(dict.fromkeys(ends))
    index = {name: number for number, name in enumerate(hosts)}
    records = np.empty(len(table), FLOW_DTYPE)
    records["src"] = [index[name] for name in ends[: len(table)]]
    records["dst"] = [index[name] for name in ends[len(table) :]]
    records["transport"] = _transports(table)
    for name in FLOW_FIELDS[3:]:
        absent = _ABSENT.get(name, NONE)
        values = table.integers(name, absent) if name in table.columns else absent
        if name == "port":
            _check_port_range(table, values)
        records[name] = values
    name, seed = _identity(table, as_name(path.stem), seed)
    return FileContent(name, seed, hosts, records, table.where)


def _check_header(table: Table) -> None:
    if not set(table.columns) & set(FLOW_FIELDS):
        allowed = f"columns out of {','.join(FLOW_FIELDS)}, or {','.join(IROKO_COLUMNS)}"
        raise wrong_file(table.field, table.path, f"a table with {allowed}")
    table.check_columns((*FLOW_FIELDS, *_PLAN_COLUMNS), ("src", "dst"))


def _transports(table: Table) -> list[int]:
    cells = table.columns.get("transport", [None] * len(table))
    for row, cell in enumerate(cells):
        if cell not in (None, "", *TRANSPORTS):
            check_in(f"{table.where(row)}, transport", cell, TRANSPORTS)
    return [TRANSPORTS.index(cell) if cell else 0 for cell in cells]


def _check_port_range(table: Table, ports: object) -> None:
    # A record's port has 32 bits, where a wrong one would wrap round.
    numbers = np.atleast_1d(np.asarray(ports))
    wrong = np.flatnonzero((numbers < 0) | (numbers > LAST_PORT))
    if wrong.size:
        row = int(wrong[0])
        cell = table.columns["port"][row]
        raise ConfigError(f"{table.where(row)}, port", cell, f"1 to {LAST_PORT}, or empty")


def _identity(table: Table, name: str, seed: int) -> tuple[str, int]:
    """Return the name and the seed that a Parquet file carries, or those given."""
    if not len(table):
        return name, seed
    if "plan" in table.columns:
        name = table.texts("plan")[0]
    return name, int(table.integers("seed")[0]) if "seed" in table.columns else seed
