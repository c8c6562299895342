"""Measure the baselines of each environment at its defaults, for its page.

A table each goes to `docs/_scripts/baselines`, from where `environment_pages.py` takes it.

How to run (as root, on a machine that does nothing else; a quarter of an hour):
    .venv/bin/python docs/_scripts/baseline_tables.py
    make docs
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from table_cells import policy_rows

import dcgym

TABLES = Path(__file__).parent / "baselines"


@dataclass(frozen=True)
class Baselines:
    """What is measured of an environment.

    Attributes:
        env: Its id.
        policies: Name of each policy, and what it is here.
        seeds: Number of seeds.
        seconds: Length of a run.
        warmup: Seconds at its start that the metrics leave out.
        remark: What a reader must know of the table.
    """

    env: str
    policies: dict[str, str]
    seeds: int = 3
    seconds: float = 12.0
    warmup: float = 2.0
    remark: str = ""


BALANCING = {
    "random": "random",
    "ecmp": "naive",
    "sed": "what most would configure",
    "sed-half": "",
    "hlb": "best without knowledge of flows",
    "earliest-finish": "oracle: knows sizes and what servers do",
}
ALL = {
    "congestion_control": Baselines(
        "dcgym/CongestionControl-v2",
        {
            "random": "random",
            "cubic": "naive: no limits",
            "dctcp": "best classic",
            "fair-share": "oracle: knows the plan",
        },
    ),
    "path_balancing": Baselines(
        "dcgym/PathBalancing-v2",
        {"random": "random", "ecmp": "naive", "wcmp": "best classic", "least-loaded": ""},
        remark="Nobody knows the best paths of flows to come: there is no oracle.",
    ),
    "joint": Baselines(
        "dcgym/Joint-v2",
        {
            "random+random": "random",
            "cubic+ecmp": "naive; no classic one does better",
            "cubic+wcmp": "",
            "dctcp+wcmp": "",
            "dctcp+least-loaded": "",
            "fair-share+ecmp": "oracle of the rates: knows the plan",
        },
    ),
    "load_balancing": Baselines("dcgym/LoadBalancing-v1", BALANCING, 10, 240.0, 0.0),
    "central_load_balancing": Baselines("dcgym/CentralLoadBalancing-v1", BALANCING, 10, 240.0, 0.0),
    "job_assignment": Baselines(
        "dcgym/JobAssignment-v0",
        {
            "random-server": "naive",
            "round-robin": "naive",
            "wcmp": "at random by speed",
            "br": "two candidates by speed, fewer jobs",
            "sed2": "",
            "shortest-processing-time": "Genet's",
            "lsq": "join the shortest queue",
            "sed": "",
            "sed-half": "",
            "least-work": "Park's greedy rule: knows sizes",
            "least-time": "knows sizes",
            "earliest-finish": "knows sizes",
        },
        24,
        54.5,
        0.0,
        "A run is 1000 jobs. Sizes have an infinite variance, so that seeds differ by a factor of "
        "five and more: compare rules on the same seeds. `dcgym bench park` repeats the table.",
    ),
}


def table_of(baselines: Baselines) -> str:
    """Return the table, in Markdown.

    Args:
        baselines: What to measure.
    """
    found = dcgym.compare(
        baselines.env,
        list(baselines.policies),
        baselines.seeds,
        seconds=baselines.seconds,
        warmup=baselines.warmup,
    )
    bad = {str(run["fidelity"]["status"]) for run in found.records} - {"ok"}
    if bad:
        sys.exit(f"{baselines.env}: fidelity {', '.join(sorted(bad))}; let the machine be quiet")
    length = f"{baselines.seconds:g} s a run"
    if baselines.warmup:
        length += f", the first {baselines.warmup:g} s left out"
    said = (
        f"At the defaults, {baselines.seeds} seeds, {length}; intervals are 95 %, over the seeds."
    )
    table = policy_rows(found.records, baselines.policies)
    return f"{table}\n\n{' '.join(filter(None, [said, baselines.remark]))}\n"


def main() -> None:
    """Write the tables named on the command line, or all."""
    TABLES.mkdir(exist_ok=True)
    for name in sys.argv[1:] or ALL:
        (TABLES / f"{name}.md").write_text(table_of(ALL[name]), encoding="utf-8")
        print(f"{name}: done", flush=True)


if __name__ == "__main__":
    main()
