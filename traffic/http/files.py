"""Plans of HTTP requests in files, CSV or Parquet, one request a line.

Columns, of which ``start_ns``, ``client``, ``address`` and ``port`` are required:

- ``start_ns``: start from the origin of the plan;
- ``client``: name of the host that sends; ``address``, ``port``: what it asks;
- ``application``, ``path``: name and URL path of the application ("work", ``/work``);
- ``bytes``: length of the response's body (0);
- ``resources``: what the stages occupy in order, such as ``gpu`` or ``cpu+io+cpu`` (empty: none);
- ``demand_1_ns``, ``demand_2_ns``, ...: time of each stage on an unshared processor or device;
- ``plan``, ``seed``, ``timeout_ns``: the same in every line; of the whole plan.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from dcgym.config import as_name
from dcgym.errors import ConfigError
from dcgym.traffic.http.applications import MAX_STAGES
from dcgym.traffic.http.plan import (
    REQUEST_DTYPE,
    TIMEOUT_NS,
    TRANSPORTS,
    RequestKind,
    RequestPlan,
)
from dcgym.traffic.plans.tables import Table, read_table
from dcgym.writing import write_table

__all__ = ["load_requests", "save_requests"]

_REQUIRED = ("start_ns", "client", "address", "port")
_TEXTS = ("application", "path", "resources")
_PLAN = ("plan", "seed", "timeout_ns")
_DEMANDS = tuple(f"demand_{i + 1}_ns" for i in range(MAX_STAGES))
_LAST_PORT = 65_535


def save_requests(plan: RequestPlan, path: str | Path) -> None:
    """Write a plan to a .csv or .parquet file.

    Args:
        plan: The plan.
        path: Where to; the suffix decides the format.

    Raises:
        ConfigError: Unknown suffix, or the file cannot be written.
    """
    import polars as pl

    requests, kinds = plan.requests, plan.applications
    texts = {
        "client": _take(plan.clients, requests["client"]),
        "address": _take([ip for ip, _ in plan.targets], requests["target"]),
        "application": _take([kind.name for kind in kinds], requests["application"]),
        "path": _take([kind.path for kind in kinds], requests["application"]),
        "resources": _take(["+".join(kind.resources) for kind in kinds], requests["application"]),
    }
    ports = np.array([port for _, port in plan.targets], np.int64)
    numbers = {
        "start_ns": requests["start_ns"],
        "port": ports[requests["target"]] if len(plan) else ports[:0],
        "bytes": requests["bytes"],
        **{_DEMANDS[i]: plan.demands_ns[:, i] for i in range(plan.demands_ns.shape[1])},
    }
    frame = pl.DataFrame(numbers | texts, schema_overrides=dict.fromkeys(texts, pl.String))
    own = (plan.name, plan.seed, plan.timeout_ns)
    frame = frame.with_columns(**{n: pl.lit(v) for n, v in zip(_PLAN, own, strict=True)})
    if plan.transport != TRANSPORTS[0]:
        frame = frame.with_columns(transport=pl.lit(plan.transport))
    write_table(path, "requests file", frame)


def load_requests(path: Path, seed: int = 0) -> RequestPlan:
    """Read a plan that `save_requests` or somebody else wrote.

    Args:
        path: A .csv or .parquet file with the columns above.
        seed: Seed of the plan where the file names none.

    Raises:
        ConfigError: The file cannot be read, or a row holds what is not allowed.
    """
    table = read_table(path, "requests file")
    known = (*_REQUIRED, *_TEXTS, "bytes", "transport", *_DEMANDS, *_PLAN)
    table.check_columns(known, _REQUIRED)
    requests = np.zeros(len(table), REQUEST_DTYPE)
    requests["start_ns"] = table.integers("start_ns")
    requests["bytes"] = _integers(table, "bytes", 0)
    clients, requests["client"] = _distinct(table.texts("client"))
    targets, requests["target"] = _targets(table)
    kinds, requests["application"] = _kinds(table)
    columns = [_integers(table, name, 0) for name in _DEMANDS if name in table.columns]
    demands_ns = np.stack(columns, axis=1) if columns else np.zeros((len(table), 0), np.int64)
    name = table.texts("plan")[0] if "plan" in table.columns and len(table) else as_name(path.stem)
    if len(table):
        seed = int(_integers(table, "seed", seed)[0])
    timeout_ns = int(_integers(table, "timeout_ns", TIMEOUT_NS)[0]) if len(table) else TIMEOUT_NS
    own = (name or "requests", seed, clients, targets, kinds, requests, demands_ns, timeout_ns)
    given = table.texts("transport") if "transport" in table.columns else []
    return RequestPlan(*own, transport=given[0] if given else TRANSPORTS[0])


def _take(names: list[str] | tuple[str, ...], numbers: npt.NDArray[np.uint32]) -> list[str]:
    return [names[i] for i in numbers.tolist()]


def _integers(table: Table, name: str, absent: int) -> npt.NDArray[np.int64]:
    if name not in table.columns:
        return np.full(len(table), absent, np.int64)
    return table.integers(name, absent)


def _distinct(cells: list[str]) -> tuple[list[str], list[int]]:
    number = {cell: i for i, cell in enumerate(dict.fromkeys(cells))}
    return list(number), [number[cell] for cell in cells]


def _targets(table: Table) -> tuple[list[tuple[str, int]], list[int]]:
    ports = table.integers("port")
    wrong = np.flatnonzero((ports < 1) | (ports > _LAST_PORT))
    if wrong.size:
        row = int(wrong[0])
        raise ConfigError(f"{table.where(row)}, port", int(ports[row]), f"1 to {_LAST_PORT}")
    pairs = list(zip(table.texts("address"), ports.tolist(), strict=True))
    number = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
    return list(number), [number[pair] for pair in pairs]


def _kinds(table: Table) -> tuple[list[RequestKind], list[int]]:
    defaults = {"application": "work", "path": "/work", "resources": ""}
    columns = [
        [cell or absent for cell in table.columns.get(name, [absent] * len(table))]
        for name, absent in defaults.items()
    ]
    rows = list(zip(*columns, strict=True))
    number = {row: i for i, row in enumerate(dict.fromkeys(rows))}
    kinds = []
    for name, path, resources in number:
        where = table.where(rows.index((name, path, resources)))
        try:
            kinds.append(RequestKind(name, tuple(filter(None, resources.split("+"))), path))
        except ConfigError as error:
            field = f"{where}, {error.field}"
            raise ConfigError(field, error.value, error.allowed, error.hint) from None
    return kinds, [number[row] for row in rows]
