"""Spray and DRILL of the BPF switch: the packet twin's choices, shares, and ports that are gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from dcgym.native import require_packets
from tests.native.test_fabric_groups import CHI_SQUARE_999, EVEN, FLOWS, SALT, packet

pytestmark = [pytest.mark.native, pytest.mark.simulation]

Scenario = Callable[[str, dict[str, Any]], dict[str, Any]]
SEED = 2026
COUNT = 400
ONE_FLOW = [packet(1000)] * COUNT
# Bytes that wait at real ports; 8 kbit/s lets one of these packets out in a second.
QUEUES = {"b": 2000, "c": 5000, "d": 9000, "e": 0}


@pytest.fixture
def play(run_scenario: Scenario) -> Callable[..., tuple[list[Any], dict[str, int]]]:
    """Play steps under a rule; return their results, and the drops."""

    def call(path_rule: str, *steps: tuple[Any, ...]) -> tuple[list[Any], dict[str, int]]:
        request = {"flow_entries": 0, "path_rule": path_rule, "steps": list(steps)}
        result = run_scenario("groups", request)
        return result["out"], result["drops"]

    return call


def begin(weights: list[float], queues: dict[str, int] | None = None) -> list[tuple[Any, ...]]:
    """Return the steps that lead host 3's packets to a group of b, c, d and e."""
    made: list[tuple[Any, ...]] = [("queues", queues)] if queues else []
    return [
        *made,
        ("group", 0, "bcde", EVEN, SALT),
        ("weights", 0, "bcde", weights),
        ("route", 0, 3, 0),
        ("seed", SEED),
    ]


@pytest.mark.parametrize("weights", [EVEN, [4.0, 3.0, 2.0, 1.0], [0.0, 1.0, 0.0, 3.0]])
def test_spray_draws_for_each_packet_what_the_twin_draws(play: Any, weights: list[float]) -> None:
    out, _ = play("spray", *begin(weights), ("select", ONE_FLOW))
    twins = require_packets().choose_paths("spray", weights, [0] * 4, SEED, COUNT)
    assert out[-1] == ["bcde"[port] for port in twins]
    assert set(out[-1]) == {name for name, weight in zip("bcde", weights, strict=True) if weight}


def test_sprayed_packets_follow_the_weights(play: Any) -> None:
    out, _ = play("spray", *begin([4.0, 3.0, 2.0, 1.0]), ("select", ONE_FLOW * 10))
    counts = Counter(out[-1])
    expected = dict(zip("bcde", (1600, 1200, 800, 400), strict=True))
    assert sum((counts[name] - n) ** 2 / n for name, n in expected.items()) < CHI_SQUARE_999[3]


@pytest.mark.parametrize(
    ("weights", "shortest"),
    [
        (EVEN, "de"),
        ([4.0, 3.0, 2.0, 1.0], "de"),
        ([1.0, 1.0, 1.0, 0.0], "d"),
        ([1.0, 3.0, 0, 0], "b"),
    ],
)
def test_drill_takes_the_queues_that_the_twin_takes(
    play: Any, weights: list[float], shortest: str
) -> None:
    queues = {"b": 3000, "c": 6000, "d": 0, "e": 0}
    out, _ = play("drill", *begin(weights, queues), ("select", ONE_FLOW))
    twins = require_packets().choose_paths("drill", weights, list(queues.values()), SEED, COUNT)
    assert out[-1] == ["bcde"[port] for port in twins]
    # What is remembered is a shortest queue of those with a weight, once one was drawn.
    assert set(out[-1][-100:]) == set(shortest)


def test_drill_forgets_a_port_that_weights_or_routes_take_away(play: Any) -> None:
    out, drops = play(
        "drill",
        *begin(EVEN, QUEUES),
        ("select", ONE_FLOW),
        ("weights", 0, "bcde", [1.0, 1.0, 1.0, 0.0]),
        ("select", ONE_FLOW),
        ("group", 0, "cd", [1.0, 1.0], SALT),
        ("select", ONE_FLOW),
        ("group", 0, "d", [1.0], SALT),
        ("select", ONE_FLOW),
    )
    first, weighed, two, one = out[-7::2]
    assert first[-1] == "e"
    assert set(weighed) <= set("bcd") and weighed[-1] == "b"
    assert set(two) == {"c"} or (set(two) == set("cd") and two[-1] == "c")
    assert set(one) == {"d"}
    assert not any(drops.values())


def test_drill_avoids_a_port_whose_link_is_down(play: Any) -> None:
    """Its queue is empty, as nobody fills it: the shortest one, until routes follow."""
    out, _ = play(
        "drill",
        *begin(EVEN, QUEUES),
        ("select", ONE_FLOW),
        ("link", "e", "down"),
        ("select", ONE_FLOW),
        ("link", "e", "up"),
        ("select", ONE_FLOW),
    )
    before, down, after = out[-5::2]
    assert before[-1] == after[-1] == "e"
    assert "e" not in down and down[-1] == "b"


@pytest.mark.parametrize("path_rule", ["letflow", "spray", "drill"])
def test_weights_of_zero_count_as_equal(play: Any, path_rule: str) -> None:
    out, _ = play(path_rule, *begin([0.0] * 4, dict.fromkeys("bcde", 0)), ("select", FLOWS))
    assert set(out[-1]) == set("bcde")


@pytest.mark.parametrize("path_rule", ["spray", "drill"])
def test_a_host_without_a_route_is_a_counted_drop(play: Any, path_rule: str) -> None:
    out, drops = play(path_rule, ("select", ONE_FLOW))
    assert set(out[-1]) == {None}
    # The select program decides and drops nothing.
    assert not any(drops.values())


def test_an_unknown_rule_is_refused(run_scenario: Scenario) -> None:
    with pytest.raises(AssertionError, match=r"path_rule.*one of ecmp, letflow, spray, drill"):
        run_scenario("groups", {"flow_entries": 0, "path_rule": "conga", "steps": []})
