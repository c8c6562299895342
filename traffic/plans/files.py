"""Plans in files: JSON, Parquet, CSV with one flow a line, and those of other programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dcgym.config import as_name, check_in
from dcgym.errors import ConfigError
from dcgym.files import PLAN, kind_of, read_text, wrong_file
from dcgym.json_text import json_text
from dcgym.reading import FLOWS
from dcgym.traffic.plans.flow import FLOW_FIELDS, column
from dcgym.traffic.plans.flow_lists import FLOW_LIST_SUFFIXES, read_flow_list
from dcgym.traffic.plans.iroko import IROKO_COLUMNS, read_iroko
from dcgym.traffic.plans.plan import Plan
from dcgym.traffic.plans.records import FLOW_DTYPE, LAST_PORT, NONE, TRANSPORTS
from dcgym.traffic.plans.tables import Table, read_table
from dcgym.writing import check_output, write_file, write_table

__all__ = ["SAVED", "is_plan_path", "load_plan", "read_plan", "save_plan"]

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


def save_plan(plan: Plan, path: str | Path) -> None:
    """Write a plan to a .json or .parquet file, or its flows to a .csv file.

    Args:
        plan: The plan.
        path: Where to; the suffix decides the format.

    Raises:
        ConfigError: Unknown suffix, or the file cannot be written.
    """
    path = check_output(path, "plan file", SAVED)
    if path.suffix.lower() == ".json":
        write_file(path, "plan file", (json_text(plan.to_dict()) + "\n").encode())
    else:
        _write_table(plan, path)


def load_plan(path: Path, seed: int = 0) -> Plan:
    """Read a plan; a file without a name and a seed in it is named after itself and takes the seed.

    Args:
        path: The file.
        seed: Seed of what the file leaves random, and of the plan where the file names none.

    Raises:
        ConfigError: The file cannot be read, or a row holds what is not allowed.
    """
    return read_plan(path, seed)[0]


def read_plan(path: Path, seed: int = 0, fastest_bps: int | None = None) -> tuple[Plan, Where]:
    """Read a plan, and a function that names the row of the file that a flow came from.

    Args:
        path: The file.
        seed: Seed of what the file leaves random, and of the plan where the file names none.
        fastest_bps: Highest rate of any host, if known (see `iroko.read_iroko`).
    """
    if path.suffix.lower() == ".json":
        return _read_json(path)
    if path.suffix.lower() in FLOW_LIST_SUFFIXES and (flows := read_flow_list(path)) is not None:
        hosts, records, where = flows
        return Plan.from_records(as_name(path.stem), seed, hosts, records, where), where
    table = read_table(path)
    if set(table.columns) == set(IROKO_COLUMNS):
        hosts, records, origins = read_iroko(table, seed, fastest_bps)

        def of_row(row: int) -> str:
            return table.where(origins[row])

        return Plan.from_records(as_name(path.stem), seed, hosts, records, of_row), of_row
    return _own_plan(table, path, seed), table.where


def _read_json(path: Path) -> tuple[Plan, Where]:
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
    return Plan.from_dict(content), lambda row: f"{path.name}, flows[{row}]"


def _write_table(plan: Plan, path: Path) -> None:
    import polars as pl

    text = {"src": pl.String, "dst": pl.String, "transport": pl.String}
    frame = pl.DataFrame(
        {name: column(plan.records, plan.hosts, name) for name in FLOW_FIELDS},
        schema={name: text.get(name, pl.Int64) for name in FLOW_FIELDS},
    )
    if path.suffix.lower() != ".csv":
        own = {"plan": pl.lit(plan.name), "seed": pl.lit(plan.seed, pl.Int64)}
        frame = frame.with_columns(**own)
    write_table(path, "plan file", frame)


def _own_plan(table: Table, path: Path, seed: int) -> Plan:
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
    return Plan.from_records(name, seed, hosts, records, table.where)


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
