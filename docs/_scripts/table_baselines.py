"""Which baselines of each environment its page shows, and what they are there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from table_cells import policy_rows

from dcgym.suites import Case, Suite
from dcgym.suites.results import load_records

__all__ = ["BASELINES", "Baselines"]


@dataclass(frozen=True)
class Baselines:
    """What is measured of an environment at its defaults.

    Attributes:
        env: Its id.
        policies: Name of each policy, and what it is here.
        seeds: Number of seeds.
        seconds: Length of a run.
        warmup: Seconds at its start that the metrics leave out.
        remark: What a reader must know of the table.
        arguments: Arguments of the environment, where they choose its form of one agent.
    """

    env: str
    policies: Mapping[str, str]
    seeds: int = 3
    seconds: float = 12.0
    warmup: float = 2.0
    remark: str = ""
    arguments: Mapping[str, object] = field(default_factory=dict)

    def suite(self) -> Suite:
        """Return the runs."""
        cases = (Case({"env": self.env, **self.arguments}),)
        names = tuple(self.policies)
        return Suite("baselines", "", cases, names, self.seeds, self.seconds, self.warmup, 1, True)

    def write(self, folder: Path) -> str:
        """Return the table of the results in a folder.

        Args:
            folder: The folder.
        """
        length = f"At the defaults, {self.seconds:g} s a run"
        if self.warmup:
            length += f", the first {self.warmup:g} s left out"
        said = f"{length}; intervals are 95 %, over the seeds."
        table = policy_rows(load_records(folder), self.policies)
        return f"{table}\n\n{' '.join(filter(None, [said, self.remark]))}"


_POOL: Mapping[str, str] = {
    "random": "random",
    "ecmp": "naive",
    "sed": "what most would configure",
    "sed-half": "",
    "hlb": "best without knowledge of flows",
    "earliest-finish": "oracle: knows sizes and what servers do",
}
BASELINES: Mapping[str, Baselines] = {
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
    "load_balancing": Baselines(
        "dcgym/LoadBalancing-v1",
        _POOL,
        10,
        240.0,
        0.0,
        "One balancer follows the policy, and the others their rule, as in `gym.make`.",
        {"balancer": 0},
    ),
    "central_load_balancing": Baselines("dcgym/CentralLoadBalancing-v1", _POOL, 10, 240.0, 0.0),
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
"""By the name of the page."""
