"""What the balancing experiments share: paired runs of policies as a suite, tables and plots."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl

from dcgym.backends.records import Record
from dcgym.suites import Case, Published, Suite, run_suite
from dcgym.suites.balancing import ENV_ID
from dcgym.suites.fidelity import worst_status
from dcgym.suites.intervals import bootstrap_95
from dcgym.suites.results import machine, run_folder, write_json
from dcgym.suites.statistics import FloatArray
from dcgym.tasks.balancing import Scenario, make_scenario
from dcgym.writing import prepare_folder

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Args:
    """Settings of a comparison.

    Attributes:
        seeds: Number of seeds; every policy meets the same arrivals in the same seed.
        seconds: Simulated seconds of a run.
        warmup_s: Seconds whose flows the metrics leave out.
        interval_s: Period of the slow loops.
        jobs: Runs at the same time; 0 runs them in this process.
    """

    seeds: int = 5
    seconds: float = 300.0
    warmup_s: float = 60.0
    interval_s: float = 0.5
    jobs: int = 2


@dataclass(frozen=True)
class Cell:
    """The runs of a policy in a case, one a seed.

    Attributes:
        records: Their records.
        out: Folder of the suite.
    """

    records: Sequence[Record]
    out: Path

    def __getitem__(self, metric: str) -> FloatArray:
        """Return a metric of `dcgym.tasks.balancing.metrics`, one entry a seed."""
        return np.array([record["metrics"][metric] for record in self.records])

    @property
    def fidelity(self) -> str:
        """The worst fidelity of the runs."""
        return worst_status(self.records)

    @property
    def weight_ratios(self) -> FloatArray:
        """Mean weight of the last group's servers over the first's, a row a seed, by interval."""
        return np.array([self._ratios(record, 0.0) for record in self.records])

    @property
    def weight_ratio(self) -> FloatArray:
        """The same as a mean over the measured time, one entry a seed."""
        return np.array(
            [self._ratios(record, record["config"]["warmup_s"]).mean() for record in self.records]
        )

    def _ratios(self, record: Record, from_s: float) -> FloatArray:
        folder = run_folder(self.out, record["scenario"], record["policy"], record["seed"])
        steps = pl.read_parquet(folder / "steps.parquet").filter(pl.col("time_s") > from_s)
        groups = make_scenario(record["config"]["scenario"]).pool.groups
        first, last = (steps[f"weight_{g.name}"] / g.count for g in (groups[0], groups[-1]))
        return (last / first).to_numpy()


def measure_all(
    out: Path,
    policies: Sequence[str],
    scenarios: Mapping[Key, Scenario],
    args: Args,
    published: Sequence[Published] = (),
) -> dict[Key, dict[str, Cell]]:
    """Run policies on all balancers of some pools in the twin, on the same arrivals.

    Args:
        out: Folder; finished runs in it are kept.
        policies: Names of the policies.
        scenarios: The pools by whatever tells them apart.
        args: Settings of the runs.
        published: Numbers to set beside the results.
    """
    cases = {key: case_of(key, scenario, args) for key, scenario in scenarios.items()}
    return measure_cases(out, policies, cases, args, published)


def measure_cases(
    out: Path,
    policies: Sequence[str],
    cases: Mapping[Key, Case],
    args: Args,
    published: Sequence[Published] = (),
) -> dict[Key, dict[str, Cell]]:
    """Run policies in some cases, on the same arrivals.

    Args:
        out: Folder; finished runs in it are kept.
        policies: Names of the policies.
        cases: The cases (`case_of`).
        args: Settings of the runs.
        published: Numbers to set beside the results.
    """
    suite = Suite(
        name=out.name,
        description="An experiment after Yao 2023.",
        cases=tuple(cases.values()),
        policies=tuple(policies),
        seeds=args.seeds,
        episode_s=args.seconds,
        warmup_s=args.warmup_s,
        jobs=args.jobs,
        published=tuple(published),
    )
    runs: dict[tuple[str, str], list[Record]] = {}
    for record in run_suite(suite, out):
        runs.setdefault((record["scenario"], record["policy"]), []).append(record)
    return {
        key: {policy: Cell(runs[case.name, policy], out) for policy in policies}
        for key, case in cases.items()
    }


def case_of(key: Hashable, scenario: Scenario, args: Args, **changes: Any) -> Case:
    """Return a case with one agent a balancer.

    Args:
        key: What tells it from the others.
        scenario: The pool.
        args: Settings of the runs.
        **changes: Further arguments of the environment; ``params`` are the policies' own.
    """
    params = changes.pop("params", {})
    interval = f"{args.interval_s}s"
    # The runs have a warm-up of their own.
    env = {"env": ENV_ID, "scenario": scenario.to_dict(), "interval": interval, "lead_in": 0}
    return Case({**env, **changes}, name_of(key), params=params)


def name_of(key: Hashable) -> str:
    """Return the name of a case for folders and reports.

    Args:
        key: What tells it from the others.
    """
    return "-".join(map(str, key)) if isinstance(key, tuple) else str(key)


def change(found: Mapping[str, Cell], policy: str, other: str, metric: str) -> float:
    """Return how much less (negative) or more a policy has than another, as the paired mean.

    Args:
        found: The runs by policy.
        policy: The one.
        other: The other one.
        metric: Name of the metric.
    """
    return float((found[policy][metric] / found[other][metric]).mean() - 1)


def seconds(values: FloatArray) -> str:
    """Show a metric in microseconds as seconds with the 95 % interval of its mean.

    Args:
        values: One entry a seed.
    """
    return bootstrap_95(values / 1e6).text(".3f", ".3f")


Table = Sequence[Mapping[str, Any]]


def save(out: Path, table: Table, draw: Callable[[Any], None], note: str) -> None:
    """Print the table, and write it as ``results.json`` beside the picture ``figure.png``.

    Args:
        out: Folder; made if it is missing.
        table: Rows with the same columns.
        draw: Draws into the matplotlib axes it is given.
        note: What the sources publish, for comparison.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    prepare_folder(out)
    columns = list(table[0])
    print(" | ".join(columns))
    for row in table:
        print(" | ".join(str(row[column]) for column in columns))
    print(f"published: {note}")
    write_json(out / "results.json", {"rows": table, "published": note, "machine": machine()})
    figure = Figure(figsize=(7, 4.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure.add_subplot())
    figure.savefig(out / "figure.png")
    print(out / "figure.png")


def run_script(description: str | None, name: str, main: Callable[[Path], None]) -> None:
    """Run an experiment from the command line: the only option is the folder.

    Args:
        description: Documentation of the script.
        name: Its name.
        main: Runs it, with results in a folder.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs") / "balancing" / name)
    main(parser.parse_args().out)
