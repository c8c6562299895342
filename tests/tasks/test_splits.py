"""Frozen splits: what they cover, that their parts are apart, and that nobody changed them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pytest

from dcgym.envs.factory import make_session
from dcgym.suites import SUITES, held_out_balancing
from dcgym.suites.checks import check_suite
from dcgym.suites.matrix import Matrix
from dcgym.suites.progress import progress_bars
from dcgym.suites.workers import Workers
from dcgym.tasks.balancing import splits as balancing
from dcgym.tasks.common.splits import SPLITS, Split
from dcgym.tasks.congestion import splits as congestion

BALANCING, CONGESTION = SPLITS["balancing-v1"], SPLITS["congestion-v2"]


def pools(part: Mapping[str, Any]) -> list[Any]:
    """Return the scenarios of a part, as they are bound to a backend."""
    return [make_session(env).system.task().scenario for env in part.values()]


def networks(part: Mapping[str, Any]) -> list[Any]:
    return [make_session(env).system.task().topology for env in part.values()]


def digest(split: Split) -> str:
    content = [split.train, dict(split.validation), dict(split.held_out)]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


@pytest.fixture(scope="module")
def held_out_pools() -> list[Any]:
    return pools(BALANCING.held_out)


@pytest.fixture(scope="module")
def held_out_networks() -> list[Any]:
    return networks(CONGESTION.held_out)


@pytest.mark.simulation
def test_held_out_pools_cover_what_is_claimed(held_out_pools: list[Any]) -> None:
    held_out = held_out_pools
    assert len(held_out) >= 40
    sizes = {pool.n_servers for pool in held_out}
    assert (min(sizes), max(sizes)) == (4, 64)
    loads = [pool.offered_load for pool in held_out]
    assert (min(loads), max(loads)) == pytest.approx((0.3, 0.95))
    speeds = [[group.resources[0].speed for group in pool.server_groups] for pool in held_out]
    ratios = [max(own) / min(own) for own in speeds]
    assert (min(ratios), max(ratios)) == (1.0, 10.0)
    means = {pool.applications[0].mean_ns("cpu") for pool in held_out}
    assert all(mean == pytest.approx(100e6, rel=1e-4) for mean in means)
    specs: list[Any] = [env["scenario"] for env in BALANCING.held_out.values()]
    services = {spec["service"]["name"] for spec in specs}
    assert services == {"exponential", "lognormal", "pareto", "bimodal"}
    assert {spec["weights"] for spec in specs} == {"right", "swapped", "equal"}
    for name, events in balancing.EVENTS.items():
        assert any(spec["events"] == list(events) for spec in specs), name
    kinds = {event.kind for pool in held_out for event in pool.events}
    assert {"capacity", "remove-server", "balancer-failure", "colocated-load"} <= kinds


@pytest.mark.simulation
def test_held_out_networks_cover_what_is_claimed(held_out_networks: list[Any]) -> None:
    held_out = held_out_networks
    assert len(held_out) >= 30
    sizes = {len(topology.hosts) for topology in held_out}
    assert (min(sizes), max(sizes)) == (2, 16)
    rates = {port.rate_bps / 1e6 for topology in held_out for port in topology.host_ports}
    assert (min(rates), max(rates)) == (5.0, 200.0)
    envs = CONGESTION.held_out.values()
    names = [
        next(name for name, traffic in congestion.TRAFFIC.items() if traffic == env["traffic"])
        for env in envs
    ]
    kinds = {name.rpartition("-")[0] or name for name in names}
    assert {"web-search", "incast", "mixed", "long", "permutation"} == kinds
    assert sum(bool(env["events"]) for env in envs) >= 4


@pytest.mark.simulation
def test_sizes_keep_the_parts_apart(
    held_out_pools: list[Any], held_out_networks: list[Any]
) -> None:
    of_pools = [
        {pool.n_servers for pool in part} for part in (pools(BALANCING.validation), held_out_pools)
    ]
    of_pools.append(set(balancing.TRAIN_SERVERS))
    of_networks = [
        {len(topology.hosts) for topology in part}
        for part in (networks(CONGESTION.validation), held_out_networks)
    ]
    of_networks.append(set(congestion.TRAIN_HOSTS))
    for first, second, third in (of_pools, of_networks):
        assert not first & second and not first & third and not second & third


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("balancing-v1", balancing.TRAIN_SERVERS),
        ("congestion-v2", congestion.TRAIN_HOSTS),
    ],
)
def test_draws_to_train_on_have_the_sizes_of_their_part(name: str, known: tuple[int, ...]) -> None:
    session = make_session(SPLITS[name].train)
    seen = set()
    for seed in range(12):
        session.system.begin([seed], {})
        task = session.system.task()
        seen.add(task.n_servers if name == "balancing-v1" else len(task.topology.hosts))
    assert len(seen) > 1 and seen <= set(known)
    session.close()


def test_splits_are_frozen() -> None:
    """A change of a scenario is a split of another number, with a digest of its own."""
    assert {name: digest(split) for name, split in SPLITS.items()} == {
        "balancing-v1": "ab3c6e79dd1f6dcf",
        "congestion-v2": "c65a5a4cd6b127fa",
    }


@pytest.mark.simulation
def test_the_suites_hold_every_scenario_and_learners_train_on_the_draws(tmp_path: Any) -> None:
    for name, split in (("held-out-balancing", BALANCING), ("held-out-congestion", CONGESTION)):
        suite = SUITES.find(name)
        assert set(suite.case_names) == set(split.held_out)
        assert str(len(suite.cases)) in suite.description
        check_suite(suite)
    matrix = Matrix(held_out_balancing(), tmp_path, Workers(), progress_bars())
    runs = [run for run in matrix.runs() if run.seed == 0][:24]
    trainings = {matrix.training(run).key for run in runs if run.policy == "sed"}
    assert len(trainings) == 1 and matrix.training(runs[0]).env == BALANCING.train
