"""Names of traffic: what another package adds, and names that mean something else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.topologies import dumbbell
from dcgym.traffic import FAMILIES, KINDS, PATTERNS, PLANS, Family, TrafficKind, make_plan
from dcgym.traffic.arrivals.gaps import ARRIVALS, ArrivalKind
from dcgym.traffic.http import APPLICATIONS, Application, ApplicationKind, Stage, make_requests
from dcgym.traffic.plans.library import load_family
from dcgym.traffic.plans.options import Spec, make_records, read_time
from dcgym.traffic.sizes import SIZES, SizeKind, exponential, published
from dcgym.traffic.sizes.cdfs import Cdf
from dcgym.traffic.sizes.samplers import Constant, Uniform

if TYPE_CHECKING:
    from dcgym.registry import Registry
    from dcgym.topologies import Topology
    from dcgym.traffic.plans.patterns import Pairs
    from dcgym.traffic.plans.records import Records
    from dcgym.traffic.sizes import Draws

NETWORK = dumbbell(4)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """Take away what a test adds."""
    registries: tuple[Registry[object], ...] = (
        KINDS,
        PATTERNS,
        PLANS,
        FAMILIES,
        SIZES,
        ARRIVALS,
        APPLICATIONS,
    )  # type: ignore[assignment]
    before = [list(one) for one in registries]
    yield
    for one, names in zip(registries, before, strict=True):
        for name in list(one):
            if name not in names:
                one.remove(name)


def to_the_first(topology: Topology, _draws: Draws) -> Pairs:
    """All others send to the first host."""
    others = np.arange(1, len(topology.hosts))
    return np.stack([others, np.zeros_like(others)], axis=1)


def backups(spec: Spec, topology: Topology, draws: Draws) -> Records:
    """Each host sends to the first one, after another pause each."""
    records = make_records(to_the_first(topology, draws))
    records["size_bytes"] = 1000
    records["start_ns"] = read_time(spec, "every", "1s") * (1 + np.arange(len(records)))
    return records


def test_another_package_adds_a_kind_and_a_named_plan() -> None:
    KINDS.add("backups", TrafficKind(backups, ("every",)))
    PLANS.add("nightly", {"name": "backups", "every": "24h"})
    plan = make_plan({"name": "backups", "every": "2s"}, NETWORK)
    assert [flow.start_ns for flow in plan.flows] == [2 * 10**9, 4 * 10**9, 6 * 10**9]
    assert make_plan("nightly", NETWORK).flows[0].start_ns == 24 * 3600 * 10**9
    mixed = make_plan({"mix": ["nightly", {"name": "pairs", "size": "1KB"}]}, NETWORK)
    assert len(mixed) == 5
    with pytest.raises(ConfigError, match="did you mean 'every'"):
        make_plan({"name": "backups", "evry": "2s"}, NETWORK)


def test_another_package_adds_a_pattern_and_a_family() -> None:
    PATTERNS.add("to-the-first", to_the_first)
    FAMILIES.add("to-host-N", Family(re.compile("to-host-([0-9]+)"), lambda _: to_the_first))
    for name in ("to-the-first", "to-host-3"):
        assert {flow.dst for flow in make_plan(name, NETWORK).flows} == {"h1"}
        spec = {"name": "poisson", "pairs": name, "sizes": "1KB", "flows_per_s": 9}
        assert {flow.dst for flow in make_plan(spec, NETWORK).flows} == {"h1"}


def test_another_package_adds_sizes_and_arrivals() -> None:
    SIZES.add("mice", published(Cdf("our own trace", ((100, 0.5), (200, 1.0)))))
    SIZES.add(
        "doubled", SizeKind(("value",), lambda written: Constant(2 * written.amount("value")))
    )
    FAMILIES.add("mice-LOAD", load_family("mice"))
    ARRIVALS.add("jittered", ArrivalKind((), lambda _: Uniform(0.5, 1.5)))
    plan = make_plan("mice-0.001", NETWORK)
    assert 100 <= plan.records["size_bytes"].min() <= plan.records["size_bytes"].max() <= 200
    spec = {
        "name": "poisson",
        "sizes": {"name": "doubled", "value": "1KB"},
        "flows_per_s": 10,
        "arrivals": "jittered",
        "duration": "5s",
    }
    records = make_plan(spec, NETWORK).records
    assert set(records["size_bytes"].tolist()) == {2000}
    gaps_ns = np.diff(records["start_ns"])
    assert 49e6 < gaps_ns.min() <= gaps_ns.max() < 151e6


def test_another_package_adds_an_application() -> None:
    stage = Stage("io", exponential("3ms"))
    APPLICATIONS.add(
        "blobs", ApplicationKind((), lambda _options, _where: (Application("blob", (stage,)),))
    )
    spec = {"name": "blobs", "requests_per_s": 50, "duration": "2s"}
    plan = make_requests(spec, ["h1"], [("10.0.0.2", 80)])
    assert plan.applications[0].name == "blob"
    assert plan.demand_ns("io").min() > 0


@pytest.mark.parametrize("name", [*APPLICATIONS, "hourly"])
def test_make_plan_says_which_call_takes_the_name_of_an_application(name: str) -> None:
    for spec in (name, {"name": name, "requests_per_s": 5}, {"mix": [name]}):
        with pytest.raises(ConfigError, match=r"dcgym\.traffic\.http\.make_requests") as caught:
            make_plan(spec, NETWORK)
        assert repr(name) in str(caught.value)


def test_a_plan_that_names_another_plan_is_refused_in_a_line() -> None:
    PLANS.add("alias", {"name": "nightly"})
    with pytest.raises(ConfigError, match="a plan whose mapping names a kind or a pattern"):
        make_plan("alias", NETWORK)
