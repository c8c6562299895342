"""Events of an episode: what a configuration may say, and what the environment reports."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import dcgym
from dcgym.errors import ConfigError
from dcgym.tasks.network.events import Event, EventLog, make_events
from dcgym.testing.fake_backend import FakeBackend
from dcgym.topologies import dumbbell, fat_tree

DOWN = {"at": "1s", "link": ["s1", "s9"], "action": "down"}


def test_every_action_is_read_in_base_units() -> None:
    spec = [
        {"at": "1s", "link": ["s1", "s9"], "action": "down"},
        {"at": "1500ms", "link": ["s9", "s1"], "action": "up"},
        {"at": 2, "link": ["s9", "s17"], "action": "rate", "rate": "10Mbit"},
        {"at": "2s", "link": ["h1", "s1"], "action": "loss", "probability": 0.25},
        {"at": "3s", "switch": "s17", "action": "down"},
    ]
    events = make_events(spec, fat_tree(4))
    assert events == (
        Event(1_000_000_000, "down", ("s1", "s9")),
        Event(1_500_000_000, "up", ("s9", "s1")),
        Event(2_000_000_000, "rate", ("s9", "s17"), rate_bps=10_000_000),
        Event(2_000_000_000, "loss", ("h1", "s1"), probability=0.25),
        Event(3_000_000_000, "down", ("s17",)),
    )
    assert [Event.from_dict(json.loads(json.dumps(e.to_dict()))) for e in events] == list(events)


def make(**arguments: Any) -> gym.Env[Any, Any]:
    """Make an environment with traffic on a fat tree."""
    return gym.make("dcgym/CongestionControl-v2", traffic="stride-8", **arguments)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("down", r"^events: value 'down'"),
        ([7], r"^events\[0\]: value 7"),
        ([{**DOWN, "when": 1}], r"^events\[0\] field: value 'when'"),
        ([{"link": ["s1", "s9"], "action": "down"}], r"^events\[0\]: value 'no at'"),
        ([{**DOWN, "at": "soon"}], r"^events\[0\].at: value 'soon'"),
        ([{**DOWN, "at": -1}], r"^events\[0\].at: value -1"),
        ([{**DOWN, "action": "cut"}], r"^events\[0\].action: value 'cut'.*down, up, rate, loss"),
        ([{**DOWN, "link": ["s1", "s99"]}], r"^events\[0\].link: value 's99'.*did you mean 's9'"),
        (
            [{**DOWN, "link": ["s1", "s2"]}],
            r"^events\[0\].link: value \['s1', 's2'\].*a link of s1",
        ),
        ([{**DOWN, "link": ["s1"]}], r"^events\[0\].link: value \['s1'\]"),
        ([{**DOWN, "switch": "s1"}], r"^events\[0\]: .*either a link"),
        ([{"at": 1, "switch": "h1", "action": "down"}], r"^events\[0\].switch: value 'h1'"),
        (
            [{"at": 1, "switch": "s1", "action": "loss"}],
            r"^events\[0\].action: .*allowed: down, up$",
        ),
        ([{**DOWN, "action": "loss"}], r"^events\[0\]: value 'no probability'"),
        ([{**DOWN, "probability": 0.5}], r"^events\[0\].probability: value 0.5.*nothing"),
        (
            [{"at": 1, "link": ["h1", "s1"], "action": "rate", "rate": 1}],
            r"^events\[0\].link: .*between two switches",
        ),
        (
            [DOWN, {**DOWN, "at": "0.5s", "action": "up"}],
            r"^events\[1\].at: value '0.5s'.*1s or later",
        ),
        ([{**DOWN, "action": "up"}], r"^events\[0\].action: value 'up'.*allowed: down"),
        ([DOWN, {**DOWN, "link": ["s9", "s1"]}], r"^events\[1\].action: value 'down'.*allowed: up"),
    ],
)
def test_wrong_events_are_one_clear_line_at_construction(spec: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        make(topology={"name": "fat-tree", "k": 4}, events=spec)
    assert "\n" not in str(caught.value)


def test_open_vswitch_refuses_events() -> None:
    with pytest.raises(ConfigError, match=r"^events: .* Open vSwitch's routes are static"):
        make(topology=fat_tree(4), switch="ovs", events=[DOWN])


def test_a_backend_without_events_is_refused() -> None:
    class Plain(FakeBackend):
        capabilities = replace(FakeBackend.capabilities, events=False)

    with pytest.raises(ConfigError, match=r"^events: "):
        make(backend=Plain(fat_tree(4)), events=[DOWN])


def test_records_are_fetched_only_when_an_event_is_due() -> None:
    calls = []

    def fetch() -> list[dict[str, Any]]:
        calls.append(None)
        return [{"target": "s1-s2"}]

    log = EventLog([Event(1_000, "down", ("s1", "s2"))], fetch)
    log.begin(5_000)
    assert log.records(5_999) == [] and not calls
    assert log.records(6_000) == log.records(9_000) == [{"target": "s1-s2"}]
    assert len(calls) == 1


def test_info_counts_each_event_once() -> None:
    events = [
        {"at": "120ms", "link": ["s1", "s2"], "action": "down"},
        {"at": "130ms", "link": ["s1", "s2"], "action": "up"},
    ]
    env = dcgym.make_env(backend=FakeBackend(dumbbell()), interval="50ms", events=events)
    for _ in range(2):
        _, info = env.reset(seed=0)
        seen = [info["events"]]
        for _ in range(4):
            *_, info = env.step(np.ones(4, np.float32))
            seen.append(info["events"])
        assert seen == [0, 0, 0, 2, 0]
        assert [record["action"] for record in env.unwrapped.event_records()] == ["down", "up"]
    env.close()
