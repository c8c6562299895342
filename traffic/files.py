"""Plans in files: JSON, CSV with one flow a line, and the 11 columns of Iroko's flow matrices."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from dcgym.config import check_in
from dcgym.errors import ConfigError
from dcgym.traffic.plan import Flow, Plan
from dcgym.units import parse_duration

__all__ = ["IROKO_COLUMNS", "load_plan", "save_plan"]

IROKO_COLUMNS = [
    "src",
    "dst",
    "port",
    "seed",
    "start_time",
    "stop_time",
    "flow_size",
    "flow_size_pattern",
    "reps",
    "flow_gap",
    "random_gap",
]

FLOW_COLUMNS = [field.name for field in fields(Flow)]

_TEXT_COLUMNS = ("src", "dst", "transport")
# Iroko writes the largest 32-bit number for a flow without a size.
_IROKO_UNLIMITED_BYTES = 2**31 - 1


def save_plan(plan: Plan, path: Path) -> None:
    """Write a plan to a .json file, or its flows to a .csv file."""
    check_in("plan file type", path.suffix, (".json", ".csv"))
    try:
        if path.suffix == ".json":
            path.write_text(json.dumps(plan.to_dict(), indent=2) + "\n", encoding="utf-8")
        else:
            _write_csv(plan, path)
    except OSError as error:
        raise ConfigError("plan file", str(path), f"a writable path ({error.strerror})") from error


def load_plan(path: Path, seed: int = 0) -> Plan:
    """Read a plan; a .csv file is named after itself and takes the seed given."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ConfigError("traffic file", str(path), f"a readable file ({reason})") from error
    if path.suffix == ".json":
        return _read_json(text, path)
    return Plan(path.stem, seed, _read_csv(text, path))


def _read_json(text: str, path: Path) -> Plan:
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        allowed = f"valid JSON ({error.msg}, line {error.lineno})"
        raise ConfigError("traffic file", str(path), allowed) from error
    return Plan.from_dict(content)


def _write_csv(plan: Plan, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FLOW_COLUMNS)
        writer.writeheader()
        writer.writerows(asdict(flow) for flow in plan.flows)


def _read_csv(text: str, path: Path) -> tuple[Flow, ...]:
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.startswith("#")
    ]
    rows = csv.reader(line for _, line in lines)
    header = [name.strip() for name in next(rows, [])]
    read_flow = _row_reader(header, path)
    flows = []
    for (number, _), cells in zip(lines[1:], rows, strict=True):
        where = f"{path.name}, line {number}"
        if len(cells) != len(header):
            raise ConfigError(where, len(cells), f"{len(header)} columns")
        flows.append(read_flow(dict(zip(header, map(str.strip, cells), strict=True)), where))
    return tuple(flows)


def _row_reader(header: list[str], path: Path) -> Callable[[Mapping[str, str], str], Flow]:
    if header == IROKO_COLUMNS:
        return _iroko_flow
    if {"src", "dst"} <= set(header) <= set(FLOW_COLUMNS):
        return _own_flow
    allowed = f"columns out of {','.join(FLOW_COLUMNS)}, or {','.join(IROKO_COLUMNS)}"
    raise ConfigError(f"{path.name}, header", ",".join(header), allowed)


def _own_flow(row: Mapping[str, str], where: str) -> Flow:
    # An empty cell keeps the default.
    values: dict[str, Any] = {
        name: text if name in _TEXT_COLUMNS else _integer(text, name, where)
        for name, text in row.items()
        if text != ""
    }
    for name in ("src", "dst"):
        if name not in values:
            raise ConfigError(f"{where}, {name}", "", "the name of a host")
    return Flow(**values)


def _iroko_flow(row: Mapping[str, str], where: str) -> Flow:
    # Patterns other than "exact" would need a distribution that the files never state.
    for name in ("flow_size_pattern", "random_gap"):
        check_in(f"{where}, {name}", row[name], ("exact",))
    start_ns = parse_duration(row["start_time"], f"{where}, start_time")
    stop_ns = parse_duration(row["stop_time"], f"{where}, stop_time")
    if stop_ns <= start_ns:
        raise ConfigError(f"{where}, stop_time", row["stop_time"], "a time after start_time")
    size_bytes = _integer(row["flow_size"], "flow_size", where)
    repetitions = _integer(row["reps"], "reps", where)
    return Flow(
        row["src"],
        row["dst"],
        start_ns=start_ns,
        size_bytes=None if size_bytes >= _IROKO_UNLIMITED_BYTES else size_bytes,
        duration_ns=stop_ns - start_ns,
        repetitions=0 if repetitions == -1 else repetitions,
        gap_ns=parse_duration(row["flow_gap"], f"{where}, flow_gap"),
        port=_integer(row["port"], "port", where),
    )


def _integer(text: str, name: str, where: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{where}, {name}", text, "a whole number") from None
