"""Run a comparison of a twin with the emulation, and write what it found."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from dcgym.backends.records import Record
from dcgym.registry import Registry
from dcgym.suites.faults import Faults
from dcgym.suites.results import SUITE_FILE, Records, load_records, read_json, write_results
from dcgym.suites.runner import finished_records, run_matrix
from dcgym.suites.suite import Suite
from dcgym.suites.twin_error.comparison import EMULATION, TWIN, twin_errors
from dcgym.suites.twin_error.congestion import TWIN_CASES, congestion_policies, draws_actions
from dcgym.suites.twin_error.found import Comparison
from dcgym.suites.twin_error.page import write_comparison
from dcgym.suites.twin_error.quantities import ACCELERATORS, BALANCING, NETWORK
from dcgym.suites.twin_error.traces import read_trace

__all__ = [
    "COMPARISONS",
    "Compare",
    "compare_accelerators",
    "compare_balancing",
    "compare_congestion",
    "compare_folder",
    "finished_comparison",
    "run_comparison",
]

Compare: TypeAlias = Callable[[Path, Records, str], Comparison]
"""Compares the records of a folder; the text is the worst fidelity that counts."""


def run_comparison(
    suite: Suite,
    out: Path,
    required: str,
    compare: Compare,
    faults: Faults | None = None,
    address: str | None = None,
    ship: bool = False,
) -> Comparison:
    """Run what is not finished yet, write results and report, and return what was found.

    Emulated runs of worse fidelity than required are kept, but do not count, and run again with
    the next call.

    Args:
        suite: Cases on both backends.
        out: Folder of the results; finished runs in it are kept and skipped.
        required: Worst fidelity of a run that counts.
        compare: What is compared.
        faults: Limits of a run, and whether failed ones run again; the usual ones if None.
        address: Of a Ray cluster that runs it; this machine if None.
        ship: Whether the cluster's machines are given the dcgym of this one, and use no other.

    Raises:
        ConfigError: Something in the suite cannot run, the folder cannot be written, or the cluster
            does not answer.
        FailedRuns: Runs failed, now or before; the others' results are kept.
    """

    def write(folder: Path, complete: Records, refused: Records) -> None:
        records = _in_order(suite, [*complete, *refused])
        write_results(folder, records)
        if _can_compare(records):
            write_comparison(folder, compare(folder, records, required))

    complete, refused = run_matrix(suite, out, required, write, address, faults, ship)
    return compare(out, _in_order(suite, [*complete, *refused]), required)


def finished_comparison(
    suite: Suite, out: Path, required: str, compare: Compare
) -> Comparison | None:
    """Return what is known without running anything; None if one backend has finished nothing.

    Args:
        suite: Cases on both backends.
        out: Folder of the results.
        required: Worst fidelity of a run that counts.
        compare: What is compared.
    """
    records = _in_order(suite, finished_records(suite, out))
    return compare(out, records, required) if _can_compare(records) else None


def compare_congestion(folder: Path, records: Records, required: str) -> Comparison:
    """Compare the packet twin with the kernel.

    Args:
        folder: Folder of the runs.
        records: Their records.
        required: Worst fidelity of an emulated run that counts.

    Raises:
        ConfigError: No policy was run on both backends.
    """
    errors = twin_errors(records, NETWORK, required, partial(read_trace, folder), draws_actions)
    titles = {name: case.title for name, case in TWIN_CASES.items()}
    all_fit, others = congestion_policies()
    # Who has chosen policies knows that the others are not there.
    left_out = others if {run["policy"] for run in records} == set(all_fit) else ()
    return Comparison(NETWORK, errors, records, required, titles, left_out)


def compare_balancing(folder: Path, records: Records, required: str) -> Comparison:
    """Compare the balancing twin with real servers.

    Args:
        folder: Folder of the runs.
        records: Their records.
        required: Worst fidelity of an emulated run that counts.

    Raises:
        ConfigError: No policy was run on both backends.
    """
    return Comparison(BALANCING, twin_errors(records, BALANCING, required), records, required)


def compare_accelerators(folder: Path, records: Records, required: str) -> Comparison:
    """Compare the twin of servers with accelerators with real stations and agents.

    Args:
        folder: Folder of the runs.
        records: Their records.
        required: Worst fidelity of an emulated run that counts.

    Raises:
        ConfigError: No policy was run on both backends.
    """
    return Comparison(ACCELERATORS, twin_errors(records, ACCELERATORS, required), records, required)


COMPARISONS: Registry[Compare] = Registry("comparisons", "comparison")
"""What compares both backends of a suite, by the suite's name."""

COMPARISONS.add_all(
    {
        "balancing-twin-error": compare_balancing,
        "p4hauler-testbed": compare_accelerators,
        "congestion-twin-error": compare_congestion,
    }
)


def compare_folder(folder: Path) -> Comparison | None:
    """Write results and report of a comparison anew; None where a folder holds something else.

    Args:
        folder: Folder of a suite's results.

    Raises:
        ConfigError: The folder holds no finished run, or those of one backend only.
    """
    suite = read_json(folder / SUITE_FILE) or {}
    compare = COMPARISONS.get(suite.get("name", ""))
    if compare is None:
        return None
    records = load_records(folder)
    found = compare(folder, records, suite.get("require_fidelity", "invalid"))
    write_results(folder, records)
    write_comparison(folder, found)
    return found


def _can_compare(records: Records) -> bool:
    """Tell whether both backends have run something: after a failure one may not have."""
    return {TWIN, EMULATION} <= {run["backend"] for run in records}


def _in_order(suite: Suite, records: Records) -> list[Record]:
    return sorted(records, key=partial(_place, suite))


def _place(suite: Suite, record: Record) -> tuple[int, int, int]:
    names = suite.case_names
    return (
        names.index(record["scenario"]),
        suite.policies.index(record["policy"]),
        record["seed"],
    )
