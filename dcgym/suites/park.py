"""The suite of Park's load balancing: its jobs and servers, and the classic rules, job by job."""

from __future__ import annotations

from dcgym.config import check_int
from dcgym.suites.suite import SUITES, Case, Published, Suite
from dcgym.tasks.balancing.presets import PARK_GAP_MS

__all__ = ["PARK_POLICIES", "park"]

PARK_POLICIES = (
    *("random-server", "round-robin", "wcmp", "sed2", "br", "lsq", "sed", "sed-half"),
    *("shortest-processing-time", "least-work", "least-time", "earliest-finish"),
)
SEEDS = 24
# A user's figures, of unknown seeds: https://github.com/park-project/park/issues/17.
PUBLISHED = (Published("Park, issue 17", "return", "least-work", -7e5),)


def park(jobs: int = 1000) -> Suite:
    """Return the suite of Park's numbers in the twin, without learners.

    Args:
        jobs: Jobs of an episode.

    Raises:
        ConfigError: The number is not allowed.
    """
    jobs = check_int("jobs", jobs, 1)
    return Suite(
        name="park",
        description="Park's load balancing: a server for each of 1000 jobs, the classic rules.",
        cases=(Case({"env": "dcgym/JobAssignment-v0", "jobs": jobs}),),
        policies=PARK_POLICIES,
        seeds=SEEDS,
        # A run takes less time than the start of a process.
        jobs=0,
        episode_s=jobs * PARK_GAP_MS / 1e3,
        warmup_s=0.0,
        published=PUBLISHED,
    )


_SUITE = park()
SUITES.add(_SUITE.name, _SUITE, _SUITE.description)
