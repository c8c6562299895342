"""Which metrics tables and reports show of some runs, and how runs are grouped."""

from __future__ import annotations

import math
from dataclasses import replace

from dcgym.backends.records import Record
from dcgym.envs.factory import find_environment, newest_id
from dcgym.errors import DcgymError
from dcgym.suites.results import Records, known_layout
from dcgym.tasks.common.layout import Column, Layout

__all__ = [
    "Column",
    "Layout",
    "describe_training",
    "layout_of",
    "policies_of",
    "resolved_config",
    "runs_of",
    "scenarios_of",
]


def layout_of(records: Records) -> Layout:
    """Return the layout of the records' environment, with the columns that they have.

    Args:
        records: Records of runs in one environment. All runs of a table, since columns that are
            optional are there for all of them or for none.
    """
    layout, known = known_layout(str(records[0]["env"])), records[0]["metrics"]
    columns = tuple(
        column
        for column in layout.columns
        if column.metric in known and not (column.is_optional and _is_idle(records, column.metric))
    )
    return replace(layout, columns=columns)


def _is_idle(records: Records, metric: str) -> bool:
    """Whether no run has something else than 0 in a metric."""
    values = (float(record["metrics"].get(metric, math.nan)) for record in records)
    return all(value == 0 or math.isnan(value) for value in values)


def policies_of(records: Records) -> list[str]:
    """Return the policies in the order of their first appearance.

    Args:
        records: Records of runs.
    """
    return list(dict.fromkeys(str(record["policy"]) for record in records))


def runs_of(records: Records, policy: str) -> list[Record]:
    """Return the runs of a policy.

    Args:
        records: Records of runs.
        policy: Name of the policy.
    """
    return [record for record in records if record["policy"] == policy]


def describe_training(runs: Records) -> list[str]:
    """Say how a policy was trained, a line each: steps and time.

    Args:
        runs: Records of the policy's runs; nothing is said of one that does not learn.
    """
    trainings = {
        str(run["training"]["checkpoint"]): run["training"] for run in runs if run.get("training")
    }
    if not trainings:
        return []
    steps = [int(one["steps"]) for one in trainings.values()]
    spans = f"{min(steps)}" if min(steps) == max(steps) else f"{min(steps)} to {max(steps)}"
    longest_s = max(float(one["seconds"]) for one in trainings.values())
    return [f"{spans} steps", f"{longest_s:.0f} s"]


def resolved_config(record: Record) -> dict[str, object]:
    """Return the settings of a run, those too that it left at their defaults.

    Args:
        record: Record of the run.
    """
    try:
        environment = find_environment(newest_id(str(record["env"])))
        return environment.single.resolved(record["config"])
    except DcgymError:
        # Results outlive the package of their environment.
        return dict(record["config"])


def scenarios_of(records: Records) -> dict[str, list[Record]]:
    """Return the records of each scenario, in the order of their first appearance.

    Args:
        records: Records of runs.
    """
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(str(record.get("scenario", "")), []).append(record)
    return found
