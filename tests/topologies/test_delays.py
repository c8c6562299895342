"""How links delay and lose: what a person writes, and what a link says of it."""

from __future__ import annotations

import pytest

from dcgym.errors import ConfigError
from dcgym.topologies import Topology, dumbbell, make_topology, parse_delay

MS = 1_000_000


def test_a_number_alone_is_a_delay() -> None:
    expected = {"delay_ns": 20 * MS, "jitter_ns": 0, "loss_probability": 0.0}
    assert parse_delay("20ms", "delay") == parse_delay({"time": "20ms"}, "delay") == expected
    assert parse_delay(0.02, "delay") == expected


def test_a_mapping_has_jitter_and_loss() -> None:
    found = parse_delay({"time": "20ms", "jitter": "2ms", "loss": 0.01}, "delay")
    assert found == {"delay_ns": 20 * MS, "jitter_ns": 2 * MS, "loss_probability": 0.01}


@pytest.mark.parametrize(
    ("delay", "line"),
    [
        ({"jitter": "1ms"}, "delay: value .* a mapping with the field 'time'"),
        ({"time": "1ms", "loss": 1.5}, r"delay\.loss: value 1\.5"),
        ({"time": "1ms", "loss": float("nan")}, r"delay\.loss: value nan"),
        ({"time": "1ms", "jitter": "-1ms"}, r"delay\.jitter: value"),
        ({"time": "1ms", "jiter": 0}, "delay.*jiter"),
        ("fast", "delay: value"),
    ],
)
def test_what_is_wrong_is_one_line(delay: object, line: str) -> None:
    with pytest.raises(ConfigError, match=line) as caught:
        make_topology({"name": "dumbbell", "delay": delay})
    assert "\n" not in str(caught.value)


def test_plain_data_has_jitter_and_loss_where_there_are_any() -> None:
    plain = dumbbell(delay="1ms").links[0].to_dict()
    assert plain["delay_ns"] == MS and not {"jitter_ns", "loss_probability"} & plain.keys()
    tiers = {"core": {"delay": {"time": "1ms", "jitter": "2ms", "loss": 0.25}}}
    topology = dumbbell(tiers=tiers)
    core = topology.links[-1]
    assert (core.delay_ns, core.jitter_ns, core.loss_probability) == (MS, 2 * MS, 0.25)
    assert Topology.from_dict(topology.to_dict()) == topology
    assert Topology.from_networkx(topology.to_networkx()) == topology


def test_a_file_may_state_a_delay_as_a_mapping() -> None:
    links = [
        {"a": "h1", "b": "s1", "delay": {"time": "1ms", "loss": 0.5}},
        {"a": "h2", "b": "s1", "loss_probability": 0.125},
    ]
    content = {
        "defaults": {"rate": "1Gbit", "queue": "4MB", "mark": None},
        "nodes": [
            *({"name": name, "role": "host"} for name in ("h1", "h2")),
            {"name": "s1", "role": "switch"},
        ],
        "links": links,
    }
    first, second = Topology.from_dict(content).links
    assert (first.delay_ns, first.loss_probability) == (MS, 0.5)
    assert (second.delay_ns, second.loss_probability) == (0, 0.125)
