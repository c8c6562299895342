"""Marking in topologies, files and configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dcgym
from dcgym.errors import ConfigError
from dcgym.suites.recorders.network import with_overrides
from dcgym.tasks.common.presets import PRESETS
from dcgym.testing import FakeBackend
from dcgym.topologies import TOPOLOGIES, Topology, dumbbell, make_topology, with_marking
from dcgym.topologies.marking import red_weight

HIGH = {"kind": "red", "min": "3KB", "max": "2MB", "probability": 0.1}
RED = {"kind": "red", "min": "3KB", "max": 100_000, "probability": 0.1, "burst": 23}


def marks(topology: Topology) -> set[tuple[Any, ...]]:
    return {
        (link.mark_bytes, link.mark_max_bytes, link.mark_probability, link.mark_weight)
        for link in topology.links
    }


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        (None, (None, None, 1.0, 1.0)),
        ("30KB", (30_000, None, 1.0, 1.0)),
        ({"kind": "step", "min": "30KB"}, (30_000, None, 1.0, 1.0)),
        ({"kind": "step", "min": 1, "probability": 0.5}, (1, None, 0.5, 1.0)),
        (RED, (3_000, 100_000, 0.1, 2**-8)),
    ],
)
def test_a_mark_is_read(mark: Any, expected: tuple[Any, ...]) -> None:
    assert marks(dumbbell(mark=mark)) == {expected}
    assert marks(with_marking(dumbbell(), mark)) == {expected}


@pytest.mark.parametrize(("burst", "least", "exponent"), [(23, 3_000, 8), (229, 17_000, 12)])
def test_the_weight_of_a_burst_is_that_of_tc_red(burst: int, least: int, exponent: int) -> None:
    # Iroko's two settings: the largest power of two that keeps the paper's inequality.
    assert red_weight(burst, least) == 2.0**-exponent
    weight, room = red_weight(burst, least), burst + 1 - least / 1500
    assert (1 - (1 - weight) ** burst) / weight >= room
    assert (1 - (1 - 2 * weight) ** burst) / (2 * weight) < room


@pytest.mark.parametrize("suffix", [".yaml", ".json", ".graphml"])
def test_red_survives_a_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"red{suffix}"
    topology = dumbbell(mark=RED)
    topology.save(path)
    assert make_topology(path).links == topology.links


def test_a_link_of_a_file_has_its_own_marking() -> None:
    content = {
        "defaults": {"rate": "10Mbit", "queue": "400KB", "mark": RED},
        "nodes": [
            {"name": n, "role": r} for n, r in (("h1", "host"), ("s1", "switch"), ("h2", "host"))
        ],
        "links": [{"a": "h1", "b": "s1"}, {"a": "h2", "b": "s1", "mark": "30KB"}],
    }
    first, second = Topology.from_dict(content).links
    assert (first.mark_max_bytes, first.mark_weight) == (100_000, 2**-8)
    assert (second.mark_bytes, second.mark_max_bytes, second.mark_weight) == (30_000, None, 1.0)


@pytest.mark.parametrize(
    ("mark", "field"),
    [
        ({"kind": "ramp"}, r"mark\.kind"),
        ({"kind": "step", "min": 1000, "max": 2000}, "mark of kind step"),
        ({"kind": "red", "min": 1000, "max": 2000}, "mark"),
        ({**RED, "max": 3000}, "mark_max_bytes"),
        ({**RED, "probability": 1.5}, "mark_probability"),
        ({**RED, "weight": 0.5}, "mark field"),
        ({**RED, "burst": 0}, "burst"),
        ({**RED, "burst": 1}, "burst"),
        ({"kind": "red", "min": 1, "max": 2, "probability": 1, "weight": 0}, r"mark\.weight"),
    ],
)
def test_a_wrong_mark_is_one_clear_line(mark: Any, field: str) -> None:
    with pytest.raises(ConfigError, match=f"^{field}") as caught:
        dumbbell(mark=mark)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [name for name in TOPOLOGIES if name != "graph"])
def test_the_default_of_one_gives_way_to_the_other(name: str) -> None:
    (small,) = {
        (link.queue_bytes, link.mark_bytes)
        for link in make_topology({"name": name, "queue": "20KB"}).links
    }
    # Pods have no threshold by default.
    assert small in ((20_000, 10_000), (20_000, None))
    for mark, shape in (("2MB", (2_000_000, None)), (HIGH, (3_000, 2_000_000))):
        links = make_topology({"name": name, "mark": mark}).links
        assert {(one.mark_bytes, one.mark_max_bytes) for one in links} == {shape}
        assert {one.queue_bytes for one in links} == {4_000_000}


def test_a_default_that_fits_stays() -> None:
    topology = dumbbell(mark={**RED, "max": "400KB"})
    assert {link.queue_bytes for link in topology.links} == {400_000}
    assert {link.mark_bytes for link in dumbbell(queue=30_001).links} == {30_000}
    assert {link.mark_bytes for link in dumbbell(queue=30_000).links} == {15_000}


def test_defaults_give_way_tier_by_tier() -> None:
    tiers = {"core": {"queue": "20KB"}, "host": {"mark": "1MB"}}
    shapes = [(one.queue_bytes, one.mark_bytes) for one in dumbbell(2, tiers=tiers).links]
    assert shapes == [(2_000_000, 1_000_000)] * 2 + [(20_000, 10_000)]
    wide = dumbbell(2, queue="20KB", tiers={"core": {"queue": "4MB"}})
    assert [one.mark_bytes for one in wide.links] == [10_000, 10_000, 30_000]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"queue": "20KB", "mark": "30KB"}, "mark"),
        ({"queue": "400KB", "mark": "400KB"}, "mark"),
        ({"queue": "400KB", "mark": HIGH}, "mark_max_bytes of link h1-s1"),
        ({"mark": "30KB", "tiers": {"core": {"queue": "20KB"}}}, "tiers.core.mark"),
        ({"mark": "5GB"}, "mark"),
        ({"queue": "x"}, "queue"),
    ],
)
def test_what_was_asked_for_is_never_changed(params: Any, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        dumbbell(**params)
    assert caught.value.field == field


def test_a_default_queue_gives_way_to_the_marking_of_the_environment() -> None:
    env = dcgym.make_env(backend=FakeBackend, marking={"min": "500KB"}).unwrapped
    shapes = {(one.queue_bytes, one.mark_bytes) for one in env.task.topology.links}
    assert shapes == {(1_000_000, 500_000)}
    asked = {"name": "dumbbell", "queue": "400KB"}
    with pytest.raises(ConfigError, match=r"^marking\.min: value 500000 .* 400000 bytes"):
        dcgym.make_env(backend=FakeBackend, marking={"min": "500KB"}, topology=asked)


def test_the_environment_replaces_the_marking_of_the_topology() -> None:
    env = dcgym.make_env(backend=FakeBackend, marking=RED).unwrapped
    assert marks(env.task.topology) == {(3_000, 100_000, 0.1, 2**-8)}
    with pytest.raises(ConfigError, match=r"^marking: "):
        dcgym.make_env(backend=FakeBackend(), marking=RED)
    with pytest.raises(ConfigError, match=r"^marking: "):
        dcgym.make_env(backend=FakeBackend, marking="red")


@pytest.mark.parametrize(
    ("own", "asked", "expected"), [(RED, True, RED), (RED, False, False), (False, True, True)]
)
def test_a_policy_says_whether_and_the_configuration_how(
    own: Any, asked: bool, expected: Any
) -> None:
    assert with_overrides({"marking": own}, {"marking": asked})["marking"] == expected
    assert with_overrides({"marking": own}, {})["marking"] == own


@pytest.mark.parametrize(
    # The test double steers no flows.
    "name",
    [name for name, config in PRESETS.items() if "env" not in config],
)
def test_presets_are_whole(name: str) -> None:
    env = dcgym.make_env(name, backend=FakeBackend)
    ports = {"dumbbell": 6, "fat-tree": 80}[env.unwrapped.task.topology.name]
    # Two features a port and the share of each host, tables 1 and 2.
    assert env.observation_space.shape == (2 * ports + len(env.unwrapped.task.topology.hosts),)
    env.close()
