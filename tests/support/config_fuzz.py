"""Configurations with values of every wrong kind, and what each of them may end in."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

import dcgym
from dcgym.errors import DcgymError

Path = tuple[Any, ...]


def deep(levels: int, kind: str = "list") -> object:
    """Return a value that is nested so many levels."""
    value: object = 1
    for _ in range(levels):
        value = [value] if kind == "list" else {"name": value}
    return value


def endless() -> object:
    """Return a list that holds itself."""
    value: list[object] = []
    value.append(value)
    return value


WRONG: tuple[object, ...] = (
    *(None, True, False, 0, 1, 2, -1, 0.5, -0.5, 1.5, 1e308, 5e-324, 1e-9, 64, 1000),
    *(2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**12, 10**400, -(10**400), 10**5000),
    *(float("nan"), float("inf"), float("-inf"), 1j),
    *("", " ", "x", "0", "-1", "1e400", "nan", "10Mbit", "1ns", "1h", "400KB", "a\0b", "\ud800"),
    *(
        "9" * 5000,
        "x" * 5000,
        "h1",
        "s1",
        "web-search",
        "/dev/null",
        "nowhere/x.yaml",
        ".json",
        "a.b:c",
        ":",
    ),
    *([], {}, (), [[]], [None], [1, 2], ["h1", "h1"], [0.0], [{}], {"name": None}, {"name": []}),
    *({"name": {}}, {1: 2}, {"name": "x", "": 1}, {"preset": 5}, {"at": "x"}, {None: None}),
    *(datetime.date(2001, 9, 9), datetime.datetime(2001, 9, 9), b"x", frozenset({1}), set(), ...),
    object(),
    *(deep(40), deep(3000), deep(3000, "dict"), endless()),
)
"""Values of other types, of other sizes, and such as no type has."""

CONFIGS: dict[str, dict[str, Any]] = {
    "congestion": {
        "env": "CongestionControl-v1",
        "topology": {"name": "dumbbell", "hosts": 4, "rate": "10Mbit", "queue": "100KB"},
        "traffic": {"name": "random-bijection", "size": "100KB", "repetitions": 2},
        "interval": "100ms",
        "max_steps": 5,
        "features": ["backlog", "d_backlog"],
        "reward": {"delivery": 1.0},
        "congestion_control": "cubic",
        "marking": True,
        "action": "direct",
        "events": [{"at": "1s", "action": "down", "link": ["s1", "s2"]}],
        "info": "full",
        "seed_of_traffic": 3,
    },
    "graph": {
        "env": "CongestionControl-v1",
        "topology": {
            "name": "own",
            "defaults": {"rate": "10Mbit", "queue": "100KB", "mark": "30KB"},
            "nodes": [
                {"name": "h1", "role": "host", "layer": 0},
                {"name": "h2", "role": "host"},
                {"name": "s1", "role": "switch"},
            ],
            "links": [{"a": "h1", "b": "s1"}, {"a": "h2", "b": "s1", "rate": "1Mbit"}],
        },
        "traffic": {"flows": [{"src": "h1", "dst": "h2", "size_bytes": 1000, "start_ns": 0}]},
    },
    "poisson": {
        "env": "Joint-v1",
        "topology": {"name": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 2},
        "traffic": {
            "name": "poisson",
            "sizes": "web-search",
            "load": 0.3,
            "duration": "1s",
            "pairs": "all-to-all",
        },
        "features": ["backlog", "probe_rtt"],
        "probes": [["h1", "h3"]],
    },
    "bursts": {
        "env": "PathBalancing-v1",
        "topology": {
            "name": "leaf-spine",
            "rate": "20Mbit",
            "mark": {"kind": "red", "min": "10KB", "max": "20KB", "probability": 0.1},
        },
        "traffic": {
            "name": "incast-bursts",
            "sizes": {"name": "lognormal", "mean": "20KB", "sigma": 1.0},
            "flows_per_s": 20,
            "senders": 2,
            "duration": "2s",
        },
        "congestion_control": {"h1": "cubic"},
        "action": "softmax",
    },
    "mix": {
        "env": "CongestionControl-v1",
        "topology": "dumbbell",
        "traffic": {"mix": [{"name": "pairs"}, {"name": "incast", "size": "10KB"}]},
    },
    "apps": {
        "env": "CongestionControl-v1",
        "topology": "dumbbell",
        "traffic": {"apps": {"h1": "true", "h2": {"command": "true", "start": "1s"}}},
    },
    "pool": {
        "env": "LoadBalancing-v1",
        "scenario": {"preset": "yao-sim-8", "load": 0.8, "balancers": 2},
        "interval": "250ms",
        "reward": "vbf",
        "action": "continuous",
        "rule": "sed",
        "others": "lsq",
        "balancer": 0,
        "record_limit": 10,
        "warm_up": "1s",
        "lead_in": "1s",
    },
    "central": {"env": "CentralLoadBalancing-v1", "scenario": "yao-sim-8", "reward": {"vbf": 1.0}},
}


def full_pool() -> dict[str, Any]:
    """Return an environment of balancing whose scenario states every field."""
    from dcgym.tasks.balancing.presets import make_scenario

    scenario = make_scenario("yao-sim-8").to_dict()
    return {"env": "LoadBalancing-v1", "scenario": scenario}


def bases() -> dict[str, dict[str, Any]]:
    """Return the configurations that mistakes are put into."""
    own = {name: copy.deepcopy(config) for name, config in CONFIGS.items()}
    own["congestion"].pop("seed_of_traffic")
    return own | {"full pool": full_pool()}


def places(value: object, path: Path = ()) -> Iterator[Path]:
    """Yield the path of each value inside another; of a very deep one the first few."""
    items: Any = ()
    if len(path) == 8:
        return
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def put(config: Any, path: Path, value: object) -> Any:
    """Return a configuration with another value at a place; the rest is shared with the old one."""
    if not path:
        return value
    key, *rest = path
    if isinstance(config, dict):
        return {**config, key: put(config.get(key), tuple(rest), value)}
    items = list(config)
    items[key] = put(items[key], tuple(rest), value)
    return type(config)(items)


BASES = bases()
ARGUMENTS = {
    "network": ("switch", "probes", "events", "render_mode", "info", "floor", "flat", "generator"),
    "pool": ("info", "render_mode", "backend", "max_steps"),
}


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a configuration with a mistake or two."""
    name = draw(st.sampled_from(sorted(BASES)))
    config, extra = BASES[name], "pool" if "scenario" in BASES[name] else "network"
    for _ in range(draw(st.integers(1, 2))):
        known = [*places(config)]
        parents = [path for path in known if isinstance(_at(config, path), dict)]
        more = [(name,) for name in ARGUMENTS[extra]]
        more += [(*path, key) for path in parents for key in ("x", "rate", "mix", 5)]
        place = draw(st.sampled_from(known) | st.sampled_from(more))
        config = put(config, place, WRONG[draw(st.integers(0, len(WRONG) - 1))])
    return config


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def check(call: Callable[[], object]) -> bool:
    """Return whether a call took its input; a refusal is one line, and nothing else is allowed."""
    try:
        made = call()
    except DcgymError as error:
        text = str(error)
        assert text and "\n" not in text and len(text) < 6000, text
        return False
    close = getattr(made, "close", None)
    if callable(close):
        close()
    return True


def build(config: dict[str, Any]) -> None:
    """Build an environment in each of its forms; start nothing."""
    check(lambda: dcgym.make_env(config))
    check(lambda: dcgym.parallel_env(config))
