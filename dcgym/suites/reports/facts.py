"""How results were made: the command, when, where, with which versions and settings, how long."""

from __future__ import annotations

import html
from pathlib import Path

from dcgym.json_text import json_text
from dcgym.suites.reports.html import table
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
    rows = [["command", str(command)]]
    if finished:
        rows.append(["first and last run ended", " and ".join((finished[0], finished[-1]))])
    for key, title in TITLES.items():
        values = (record.get("machine", {}).get(key) for record in records)
        # Runs may have been resumed with another version, or elsewhere.
        texts = dict.fromkeys(_text(key, value) for value in values if value is not None)
        if texts:
            rows.append([title, "; ".join(texts)])
    parts = ["<h2>How this was made</h2>", table(["what", "value"], rows, "facts")]
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
    rows = []
    for policy in policies_of(records):
        runs = runs_of(records, policy)
        took_s = [float(run.get("duration_s", 0.0)) for run in runs]
        trainings = {
            str(run["training"]["checkpoint"]): float(run["training"]["seconds"])
            for run in runs
            if run.get("training")
        }
        mean_s = f"{sum(took_s) / len(took_s):.1f}"
        trained_s = f"{sum(trainings.values()):.0f}" if trainings else ""
        rows.append([policy, str(len(runs)), mean_s, f"{sum(took_s):.0f}", trained_s])
    return table(["policy", "runs", "a run, s", "all runs, s", "all trainings, s"], rows)
