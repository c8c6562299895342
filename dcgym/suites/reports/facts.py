"""How results were made: the command, when, where, with which versions and settings, how long."""

from __future__ import annotations

import html
from pathlib import Path

from dcgym.json_text import json_text
from dcgym.suites.reports.cells import Cell, Defined, Number
from dcgym.suites.reports.html import facts, table
from dcgym.suites.reports.layout import policies_of, resolved_config, runs_of, scenarios_of
from dcgym.suites.results import SUITE_FILE, Records, read_json

__all__ = ["facts_section"]

DIRTY = "-dirty"
# Of the machine's description, in this order and in these words.
TITLES = {
    "dcgym": "dcgym",
    "git_commit": "commit",
    "processor": "CPU",
    "cores": "CPU cores",
    "memory_gib": "memory, GiB",
    "machine": "architecture",
    "kernel": "kernel",
    "python": "Python",
    "packages": "libraries",
}


def facts_section(folder: Path, records: Records) -> str:
    """Return the section that says how the results of a folder were made.

    Args:
        folder: Folder of the results.
        records: Records of the runs.
    """
    command = (read_json(folder / SUITE_FILE) or {}).get("command", "not recorded")
    finished = sorted(str(record["finished"]) for record in records if record.get("finished"))
    rows = {"command": str(command)}
    if finished:
        rows["first and last run ended"] = " and ".join((finished[0], finished[-1]))
    for key, title in TITLES.items():
        values = (record.get("machine", {}).get(key) for record in records)
        # Runs may have been resumed with another version, or elsewhere.
        texts = dict.fromkeys(_text(key, value) for value in values if value is not None)
        if texts:
            rows[title] = "; ".join(texts)
    parts = ["<h2>How this was made</h2>", facts(rows)]
    parts.append(f"<h3>Durations</h3>{_durations(records)}")
    for scenario, runs in scenarios_of(records).items():
        name = f" of {scenario}" if scenario else ""
        config = json_text(resolved_config(runs[0]), indent=1)
        summary = html.escape(f"All settings{name}, of its first run")
        parts.append(
            f"<details><summary>{summary}</summary><pre>{html.escape(config)}</pre></details>"
        )
    return "\n".join(parts)


def _text(key: str, value: object) -> str:
    if key == "packages" and isinstance(value, dict):
        return ", ".join(f"{name} {version}" for name, version in value.items())
    if key == "git_commit":
        commit = str(value)
        dirty = commit.endswith(DIRTY)
        return commit.removesuffix(DIRTY) + (" with changes not committed" if dirty else " (clean)")
    return str(value)


def _durations(records: Records) -> str:
    rows: list[list[Cell]] = []
    for policy in policies_of(records):
        runs = runs_of(records, policy)
        took_s = [float(run.get("duration_s", 0.0)) for run in runs]
        trainings = {
            str(run["training"]["checkpoint"]): float(run["training"]["seconds"])
            for run in runs
            if run.get("training")
        }
        mean_s, trained_s = sum(took_s) / len(took_s), sum(trainings.values())
        cells = [
            Number(str(len(runs)), "", {"": len(runs)}),
            Number(f"{mean_s:.1f}", "", {"": mean_s}),
            Number(f"{sum(took_s):.0f}", "", {"": sum(took_s)}),
            Number(f"{trained_s:.0f}" if trainings else "", "", {"": trained_s}),
        ]
        rows.append([policy, *cells])
    titles = [
        Defined("a run, s", "run_s"),
        Defined("all runs, s", "runs_s"),
        Defined("all trainings, s", "trainings_s"),
    ]
    return table(["policy", "runs", *titles], rows, "durations")
