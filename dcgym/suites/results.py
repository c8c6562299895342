"""Files of a benchmark: one folder a run, one Parquet file for all of them."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym._version import __version__
from dcgym.backends.records import Record
from dcgym.config import check_name
from dcgym.containers import read_parquet_bytes
from dcgym.envs.factory import find_environment, newest_id
from dcgym.errors import ConfigError, DcgymError
from dcgym.files import wrong_file
from dcgym.json_text import json_text, measured
from dcgym.reading import STEPS, TEXT, read_chunks
from dcgym.tasks.common.layout import Layout
from dcgym.writing import make_folder, write_file, write_table

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "COMMIT_FILE",
    "RUN_FILES",
    "SUITE_FILE",
    "TRAINING_FILE",
    "FlowColumns",
    "Records",
    "git_commit",
    "known_layout",
    "load_records",
    "machine",
    "read_json",
    "read_record",
    "read_table",
    "run_folder",
    "run_name",
    "write_json",
    "write_results",
    "write_run",
]

LONGEST_RUN_NAME = 240
ROWS = 1000
"""Rows that become columns at a time."""
SUITE_FILE = "suite.json"
"""What was run, in the folder of its results."""
STEPS_FILE, FLOWS_FILE, SUMMARY_FILE = "steps.parquet", "flows.parquet", "summary.json"
RUN_FILES = (STEPS_FILE, FLOWS_FILE, SUMMARY_FILE)
"""What a run leaves in its folder."""
TRAINING_FILE = "training.json"
"""What a training leaves in its folder, beside the checkpoint."""
COMMIT_FILE = "_commit"
"""Names the commit that a wheel was made of, in the folder of the package; clones have none."""
Records: TypeAlias = Sequence[Record]
"""Records of runs."""
FlowColumns: TypeAlias = "pl.DataFrame | Mapping[str, npt.NDArray[np.generic]]"
"""Flows as a table, or as one array a column."""


def run_folder(out: Path, scenario: str, policy: str, seed: int) -> Path:
    """Return the folder of a run; a suite with a single, nameless scenario leaves it out.

    Args:
        out: Folder of the suite's results.
        scenario: Name of the case.
        policy: Name of the policy.
        seed: The seed.

    Raises:
        ConfigError: No folder can have that name; records of others may say so.
    """
    return out / "runs" / check_name("run", run_name(scenario, policy, seed), LONGEST_RUN_NAME)


def known_layout(env_id: str) -> Layout:
    """Return what tables show of an environment; the plain layout where nobody knows it here.

    Args:
        env_id: Its id, as records have it.
    """
    try:
        return find_environment(newest_id(env_id)).layout
    except DcgymError:
        # Results outlive the package of their environment.
        return Layout()


def run_name(scenario: str, policy: str, seed: int) -> str:
    """Return the name of a run, by which ``dcgym top`` and ``dcgym shell`` find it too.

    Args:
        scenario: Name of the case; empty where there is one.
        policy: Name of the policy.
        seed: The seed.
    """
    return "-".join(part for part in (scenario, policy, str(seed)) if part)


def write_json(path: Path, value: object) -> None:
    """Write a file in one step: a reader finds all of it or nothing.

    Args:
        path: The file; its folder is made if it is missing.
        value: Plain data; numbers that are NaN or infinite are null, anything else is text.

    Raises:
        ConfigError: It cannot be written.
    """
    make_folder(path.parent)
    write_file(path, "out", json_text(value).encode())


def read_json(path: Path) -> Any:
    """Read a file that `write_json` made; None where there is none, or a damaged one.

    Args:
        path: The file.

    Raises:
        ConfigError: It is too large, or no regular file.
    """
    try:
        return json.loads(b"".join(read_chunks(path, "results", TEXT)))
    except ConfigError:
        raise
    except (OSError, ValueError, RecursionError):
        return None


def read_table(path: Path, wanted: Collection[str] | None = None) -> pl.DataFrame | None:
    """Read a table that `write_run` wrote; None where there is none.

    Args:
        path: The file.
        wanted: Columns to read, where the table has them; all if None.

    Raises:
        ConfigError: It is damaged, too large, or no regular file.
    """
    import polars as pl

    try:
        content = read_parquet_bytes(path, "results", STEPS)
        if wanted is None:
            return pl.read_parquet(content)
        known = [name for name in pl.read_parquet_schema(content) if name in wanted]
        return pl.read_parquet(content, columns=known)
    except ConfigError:
        raise
    except FileNotFoundError:
        return None
    except (OSError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise wrong_file("results", path, "a complete Parquet file") from None


def read_record(path: Path) -> Record | None:
    """Read the record of a run; None where there is none, or a damaged one.

    Args:
        path: Its ``summary.json``. What was not measured is null in it, NaN in the record. Older
            versions wrote NaN, which is no JSON, but is read.
    """
    record = read_json(path)
    if not isinstance(record, dict):
        return None
    if "metrics" in record:
        record["metrics"] = measured(record["metrics"])
    if "flow_sizes" in record:
        record["flow_sizes"] = [measured(row) for row in record["flow_sizes"]]
    if "figures" in record.get("fidelity", ()):
        record["fidelity"]["figures"] = measured(record["fidelity"]["figures"])
    return record


def load_records(folder: Path) -> list[Record]:
    """Read the records of all finished runs of a benchmark, in the order of its suite.

    Args:
        folder: Folder of its results.

    Raises:
        ConfigError: The folder holds no finished run.
    """
    paths = sorted(folder.glob("runs/*/summary.json"))
    records = [record for path in paths if (record := read_record(path)) is not None]
    if not records:
        raise wrong_file("folder", folder, "the folder of a benchmark with a finished run")
    suite = read_json(folder / SUITE_FILE) or {}
    cases = [case.get("name", "") for case in suite.get("cases", ())]
    policies = list(suite.get("policies", ()))
    return sorted(records, key=lambda record: _place(record, cases, policies))


def _place(record: Record, cases: list[str], policies: list[str]) -> tuple[int, int, int]:
    """Return the place of a record in its suite; what the suite does not name comes last."""
    case, policy = record.get("scenario", ""), record["policy"]
    return (
        cases.index(case) if case in cases else len(cases),
        record["seed"],
        policies.index(policy) if policy in policies else len(policies),
    )


def write_results(folder: Path, records: Records) -> Path:
    """Write ``results.parquet``, one row a run, and return its path.

    Args:
        folder: Where to write it.
        records: The records of the runs.
    """
    import polars as pl

    path = folder / "results.parquet"
    swept = _swept_columns(records)
    # Rows take ten times the memory of columns.
    tables = [
        pl.DataFrame(
            [
                {**_row(records[at]), **swept[at]}
                for at in range(start, min(start + ROWS, len(records)))
            ],
            infer_schema_length=None,
        )
        for start in range(0, len(records), ROWS)
    ]
    write_table(path, "out", pl.concat(tables, how="diagonal_relaxed"))
    return path


def write_run(
    folder: Path,
    record: Record,
    columns: Mapping[str, npt.NDArray[np.float64]],
    flows: FlowColumns,
    key: str | None,
) -> None:
    """Write steps and flows, then the summary, whose presence says that the run is complete.

    Args:
        folder: Folder of the run.
        record: The run's record.
        columns: One array per quantity, one entry per step.
        flows: The flows, as a table or as one array per column.
        key: Key of the run's settings.
    """
    import polars as pl

    make_folder(folder)
    write_table(folder / STEPS_FILE, "out", pl.DataFrame(dict(columns)))
    write_table(folder / FLOWS_FILE, "out", pl.DataFrame(flows))
    write_json(folder / SUMMARY_FILE, {**record, "key": key})


def machine() -> Record:
    """Describe where a result was made."""
    return {
        "dcgym": __version__,
        "git_commit": git_commit(),
        "processor": _processor(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "packages": _packages(),
    }


@cache
def _packages() -> dict[str, str]:
    """Return the versions of those libraries on which results may depend, where they are there."""
    found = {}
    for name in ("gymnasium", "numpy", "torch", "stable-baselines3", "ray"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


@cache
def git_commit() -> str | None:
    """Return the commit of this package, "-dirty" behind it where files differ; None if unknown."""
    root = Path(__file__).resolve().parent
    # A clone around an unpacked wheel is another project's.
    with contextlib.suppress(OSError):
        return (root.parent / COMMIT_FILE).read_text("utf-8")
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty"],
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


@cache
def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line)
    return next(names, platform.processor())


def _swept_columns(records: Records) -> list[Record]:
    """Return the swept values of each run, by path; numbers where all runs have one."""
    found: list[Record] = [dict(record.get("sweep", {})) for record in records]
    for path in {name: None for values in found for name in values}:
        column = [values.get(path, "None") for values in found]
        numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in column)
        for values, value in zip(found, column, strict=True):
            values[path] = float(value) if numeric else str(value)
    return found


def _row(record: Record) -> Record:
    training = record.get("training") or {}
    return {
        "env": record["env"],
        "scenario": record.get("scenario", ""),
        "backend": record["backend"],
        "policy": record["policy"],
        "seed": record["seed"],
        **{name: float(value) for name, value in record["metrics"].items()},
        "fidelity": record["fidelity"]["status"],
        "duration_s": float(record["duration_s"]),
        "training_seed": training.get("seed"),
        "training_steps": training.get("steps"),
        "training_s": training.get("seconds"),
        "training_shipped_bytes": training.get("shipped_bytes"),
        "config": json_text(record["config"], indent=None),
    }
