"""The sweeps of the load: what they offer is what their names say, and one training serves all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dcgym.envs.factory import make_session
from dcgym.suites import SUITES, Suite, run_suite
from dcgym.suites.balancing_rates import rate_sweep_balancing
from dcgym.suites.checks import check_suite
from dcgym.suites.congestion_rates import rate_sweep_congestion
from dcgym.suites.matrix import Matrix
from dcgym.suites.progress import progress_bars
from dcgym.suites.shapes import check_shapes
from dcgym.suites.verdicts import HOLDS, judge
from dcgym.suites.workers import Workers
from dcgym.topologies import make_topology
from dcgym.traffic import make_plan

NAMES = ("rate-sweep-balancing", "rate-sweep-congestion")
MAKERS = (rate_sweep_balancing, rate_sweep_congestion)

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("name", NAMES)
def test_a_suite_can_run(name: str) -> None:
    check_suite(SUITES.find(name))


@pytest.mark.parametrize("make", MAKERS)
def test_what_runs_in_real_time_is_a_part(make: Callable[[str], Suite]) -> None:
    whole, part = make("simulation"), make("emulation")
    assert set(part.case_names) <= set(whole.case_names)
    assert set(part.policies) <= set(whole.policies)
    assert {shape.name for shape in part.shapes} < {shape.name for shape in whole.shapes}
    assert part.is_alone
    # Shapes are of cases and policies that there are.
    check_shapes(part.shapes, part.case_names, part.policies)


@pytest.mark.parametrize("load", [0.3, 1.1])
def test_pools_are_offered_their_load(load: float) -> None:
    pool = make_session(rate_sweep_balancing().case(f"load-{load:g}").env).system.task().scenario
    # Processors of the testbed: Yao's 2424.2 requests a second are a load of 1.
    assert sum(pool.rates_per_s) == pytest.approx(load * 2424.2, rel=1e-3)


@pytest.mark.parametrize("load", [0.1, 0.9])
@pytest.mark.parametrize("kind", ["web-search", "incast"])
def test_hosts_are_offered_their_load(kind: str, load: float) -> None:
    case = rate_sweep_congestion().case(f"{kind}-{load:g}")
    topology = make_topology(case.env["topology"])
    hosts = [host.name for host in topology.hosts]
    plans = [make_plan(case.env["traffic"], topology, seed).to_records(hosts) for seed in range(8)]
    offered_bps = np.mean([8 * plan["size_bytes"].sum() for plan in plans]) / case.episode_s
    # Plans have heavy tails: the mean of eight is within a fifth.
    assert offered_bps == pytest.approx(load * len(hosts) * 1e9, rel=0.2)


@pytest.mark.parametrize("make", MAKERS)
def test_the_trainings_of_a_learner_serve_all_loads(
    make: Callable[[], Suite], tmp_path: Path
) -> None:
    suite = replace(make(), policies=("ppo",))
    matrix = Matrix(suite, tmp_path, Workers(), progress_bars())
    folders = {matrix.training(run).folder for run in matrix.runs()}
    assert len(folders) == suite.training.trainings < len(suite.cases)


def test_dctcp_keeps_queues_short(tmp_path: Path) -> None:
    # Alizadeh and others, SIGCOMM 2010, figure 13.
    whole = rate_sweep_congestion(episode_s=2.0)
    name = "web-search-0.5"
    shape = next(one for one in whole.shapes if one.name == "dctcp-queue")
    small = replace(
        whole, cases=(whole.case(name),), policies=("cubic", "dctcp"), shapes=(), jobs=0
    )
    records = run_suite(small, tmp_path / "out", "invalid")
    own = tuple(check for check in shape.checks if check.left.case == name)
    assert judge(replace(shape, checks=own), records).verdict == HOLDS
