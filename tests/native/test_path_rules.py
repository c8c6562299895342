"""Spray and DRILL of the BPF switch: the packet twin's choices, shares, and ports that are gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dcgym.errors import ConfigError
from dcgym.native import bpf_object, require
from tests.native.test_fabric_groups import CHI_SQUARE_999, EVEN, SALT, packet

pytestmark = [pytest.mark.native, pytest.mark.simulation]

Play = Callable[..., list[Any]]
SEED = 2026
COUNT = 400
ONE_FLOW = [packet(1000)] * COUNT
# Bytes that wait at real ports; 8 kbit/s lets one of these packets out in a second.
QUEUES = {"b": 2000, "c": 5000, "d": 9000, "e": 0}


@pytest.fixture
def play(run_scenario: Callable[[str, dict[str, Any]], dict[str, Any]]) -> Play:
    """Play steps under a rule, and return their results; nothing is dropped."""

    def call(path_rule: str, *steps: tuple[Any, ...]) -> list[Any]:
        request = {"flow_entries": 0, "path_rule": path_rule, "steps": list(steps)}
        result = run_scenario("groups", request)
        assert not any(result["drops"].values()), result["drops"]
        return list(result["out"])

    return call


def begin(queues: dict[str, int]) -> list[tuple[Any, ...]]:
    """Return the steps that lead host 3's packets to a group of b, c, d and e."""
    return [("queues", queues), ("group", 0, "bcde", EVEN, SALT), ("route", 0, 3, 0)]


def compare(play: Play, path_rule: str, queues: dict[str, int], tables: Sequence[Any]) -> Any:
    """Let the program and the twin choose by the same seed, weights and queues; return both.

    Before it has a route, the host has no port.
    """
    made = begin(queues)
    steps: list[tuple[Any, ...]] = [*made[:-1], ("select", ONE_FLOW[:1]), made[-1]]
    for weights in tables:
        steps += [("weights", 0, "bcde", weights), ("seed", SEED), ("select", ONE_FLOW)]
    out = play(path_rule, *steps)
    assert out[2] == [None]
    lengths = [queues.get(name, 0) for name in "bcde"]
    twins = [
        require("_packets").choose_paths(path_rule, weights, lengths, SEED, COUNT)
        for weights in tables
    ]
    return out[6::3], [["bcde"[port] for port in chosen] for chosen in twins]


def test_spray_draws_for_each_packet_what_the_twin_draws(play: Play) -> None:
    tables = [EVEN, [4.0, 3.0, 2.0, 1.0], [0.0, 1.0, 0.0, 3.0], [0.0] * 4]
    switch, twin = compare(play, "spray", {}, tables)
    assert switch == twin
    # A port of weight 0 gets nothing; where all have none they share evenly.
    assert [set(chosen) for chosen in switch] == [set("bcde"), set("bcde"), set("ce"), set("bcde")]
    assert switch[3] == switch[0]
    counts = Counter(switch[1])
    expected = dict(zip("bcde", (160, 120, 80, 40), strict=True))
    assert sum((counts[name] - n) ** 2 / n for name, n in expected.items()) < CHI_SQUARE_999[3]


def test_drill_takes_the_queues_that_the_twin_takes(play: Play) -> None:
    queues = {"b": 3000, "c": 6000, "d": 0, "e": 0}
    tables = [EVEN, [4.0, 3.0, 2.0, 1.0], [1.0, 1.0, 1.0, 0.0], [1.0, 3.0, 0.0, 0.0], [0.0] * 4]
    switch, twin = compare(play, "drill", queues, tables)
    assert switch == twin
    # What is remembered is a shortest queue of those with a weight, once one was drawn.
    last = ["".join(sorted(set(chosen[-100:]))) for chosen in switch]
    assert last == ["de", "de", "d", "b", "de"]


def test_drill_forgets_a_port_that_weights_or_routes_take_away(play: Play) -> None:
    out = play(
        "drill",
        *begin(QUEUES),
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
    assert set(two) <= set("cd") and two[-1] == "c"
    assert set(one) == {"d"}


def test_drill_avoids_a_port_whose_link_is_down(play: Play) -> None:
    """Its queue is empty, as nobody fills it: the shortest one, until routes follow."""
    out = play(
        "drill",
        *begin(QUEUES),
        ("select", ONE_FLOW),
        ("link", "e", "down"),
        ("select", ONE_FLOW),
        ("link", "e", "up"),
        ("select", ONE_FLOW),
    )
    before, down, after = out[-5::2]
    assert before[-1] == after[-1] == "e"
    assert "e" not in down and down[-1] == "b"


def test_an_unknown_rule_is_refused() -> None:
    sizes = {"n_switches": 1, "n_hosts": 1, "n_ports": 1, "n_groups": 1}
    with pytest.raises(ConfigError, match=r"path_rule.*one of ecmp, letflow, spray, drill"):
        require().Fabric(str(bpf_object("fabric")), **sizes, path_rule="conga")
