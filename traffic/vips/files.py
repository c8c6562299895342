"""Traces of VIPs in files: CSV or Parquet, one row for each source and each rack with DIPs.

| column | meaning |
|---|---|
| epoch | number of the epoch, from 0 on; may be missing where there is one |
| vip | name or number of the VIP |
| role | "source" or "dip"; "caller" for what another VIP sends (`read_services`) |
| rack | number of the rack; "internet" for that source; of a caller its VIP |
| amount | of a source and a caller bit/s, of DIPs their number |
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dcgym.config import check_in
from dcgym.containers import read_parquet_bytes
from dcgym.errors import ConfigError
from dcgym.files import wrong_file
from dcgym.reading import FLOWS, read_chunks, reading
from dcgym.traffic.vips.table import INTERNET, VipTable, lengths
from dcgym.units import read_number
from dcgym.writing import TABLES, write_table

if TYPE_CHECKING:
    import polars as pl

__all__ = ["read_epochs", "read_vips", "write_vips"]

COLUMNS = ("vip", "role", "rack", "amount")
ROLES = ("source", "dip")
CALLER = "caller"


def read_vips(path: str | Path) -> list[VipTable]:
    """Read a trace, an epoch each; a VIP that an epoch lacks gets no traffic there.

    DIPs are those of the last epoch that lists them. Rows of a VIP, role and rack are added up.

    Args:
        path: A .csv or .parquet file.

    Raises:
        ConfigError: It cannot be read, or a row says what cannot be.
    """
    return read_epochs(path)[0]


def read_epochs(
    path: str | Path, has_calls: bool = False
) -> tuple[list[VipTable], list[tuple[int, int, int, float]]]:
    """Read the epochs of a trace and the calls in it: number of the epoch, caller, called, bit/s.

    Args:
        path: A .csv or .parquet file.
        has_calls: Whether rows of callers are allowed.

    Raises:
        ConfigError: It cannot be read, or a row says what cannot be.
    """
    import polars as pl

    frame = _frame(Path(path), (*ROLES, CALLER) if has_calls else ROLES)
    names = frame["vip"].unique(maintain_order=True)
    number = pl.Series("number", range(len(names)), pl.Int64)
    frame = frame.join(pl.DataFrame({"vip": names, "number": number}), on="vip", how="left")
    known = dict(zip(names.cast(pl.String).to_list(), range(len(names)), strict=True))
    tables: list[VipTable] = []
    calls: list[tuple[int, int, int, float]] = []
    dips: list[dict[int, int]] = [{} for _ in range(len(names))]
    for epoch in sorted(frame["epoch"].unique().to_list()):
        rows = frame.filter(pl.col("epoch") == epoch)
        sources: list[dict[int, float]] = [{} for _ in range(len(names))]
        internet = np.zeros(len(names))
        listed = set(rows.filter(pl.col("role") == "dip")["number"].to_list())
        dips = [{} if vip in listed else own for vip, own in enumerate(dips)]
        for vip, role, rack, amount in rows.select("number", "role", "rack", "amount").iter_rows():
            if role == CALLER:
                check_in(f"caller in {path}", rack, known)
                calls.append((len(tables), known[rack], vip, amount))
            elif role == "dip":
                dips[vip][_rack(rack, path)] = dips[vip].get(_rack(rack, path), 0) + int(amount)
            elif rack == INTERNET:
                internet[vip] += amount
            else:
                own = sources[vip]
                own[_rack(rack, path)] = own.get(_rack(rack, path), 0.0) + amount
        tables.append(VipTable.of(sources, dips, internet.tolist()))
    return tables, calls


def write_vips(path: str | Path, tables: list[VipTable]) -> None:
    """Write a trace as `read_vips` reads it.

    Args:
        path: A .csv or .parquet file.
        tables: The epochs.

    Raises:
        ConfigError: The name ends otherwise, or the file cannot be written.
    """
    import polars as pl

    parts = []
    for epoch, table in enumerate(tables):
        for role, start, rack, amount in (
            ("source", table.source_start, table.source_rack, table.source_bps),
            ("dip", table.dip_start, table.dip_rack, table.dip_count),
        ):
            vip = np.repeat(np.arange(len(table)), lengths(start))
            parts.append(_part(epoch, vip, role, rack.astype(str).tolist(), amount))
        vip = np.flatnonzero(table.internet_bps)
        outside = [INTERNET] * len(vip)
        parts.append(_part(epoch, vip, "source", outside, table.internet_bps[vip]))
    write_table(path, "vips file", pl.concat(parts))


def _part(
    epoch: int,
    vip: np.ndarray[tuple[int], np.dtype[np.int64]],
    role: str,
    racks: list[str],
    amount: np.ndarray[tuple[int], np.dtype[np.generic]],
) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(
        {
            "epoch": np.full(len(vip), epoch, np.int64),
            "vip": vip.astype(np.int64),
            "role": [role] * len(vip),
            "rack": racks,
            "amount": amount.astype(np.float64),
        },
        schema={
            "epoch": pl.Int64,
            "vip": pl.Int64,
            "role": pl.String,
            "rack": pl.String,
            "amount": pl.Float64,
        },
    )


def _frame(path: Path, roles: tuple[str, ...]) -> pl.DataFrame:
    """Return the rows of a file, checked as far as columns go."""
    import polars as pl

    suffix = path.suffix.lower()
    if suffix not in TABLES:
        raise ConfigError("vips", str(path), f"a file that ends in {' or '.join(TABLES)}")
    try:
        with reading(path, "vips"):
            if suffix == ".csv":
                content = b"".join(read_chunks(path, "vips", FLOWS))
                frame = pl.read_csv(content, schema_overrides={"vip": pl.String, "rack": pl.String})
            else:
                frame = pl.read_parquet(read_parquet_bytes(path, "vips", FLOWS))
    except ConfigError:
        raise
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError):
        raise wrong_file("vips", path, f"a table of {', '.join(COLUMNS)}") from None
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise wrong_file("vips", path, f"a table of {', '.join(COLUMNS)}")
    if "epoch" not in frame.columns:
        frame = frame.with_columns(pl.lit(0).alias("epoch"))
    frame = frame.with_columns(pl.selectors.float().fill_nan(None))
    frame = frame.with_columns(pl.col("rack").cast(pl.String))
    try:
        frame = frame.with_columns(pl.col("amount").cast(pl.Float64))
    except pl.exceptions.PolarsError as error:
        raise ConfigError(f"amount in {path}", str(error).splitlines()[0], "numbers") from error
    if frame.height == 0 or frame.null_count().sum_horizontal()[0]:
        raise ConfigError("vips", str(path), "rows without missing values, one or more")
    for role in frame["role"].unique():
        check_in(f"role in {path}", role, roles)
    counts = frame.filter(pl.col("role") == "dip")["amount"]
    if counts.len() and not (counts == counts.round()).all():
        raise ConfigError(f"amount of DIPs in {path}", "a fraction", "whole numbers")
    if bool((frame["amount"] < 0).any()):
        raise ConfigError(f"amount in {path}", float(frame["amount"].min() or 0), "0 or more")  # type: ignore[arg-type]
    return frame


def _rack(text: str, path: str | Path) -> int:
    number = read_number(text)
    if number is None or number < 0 or number != int(number):
        raise ConfigError(f"rack in {path}", text, f'a number, or "{INTERNET}" for a source')
    return int(number)
