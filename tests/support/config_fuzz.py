"""Configurations with values of every wrong kind, and what each of them may end in."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import dcgym
from dcgym.cli.sweep import read_sweep
from dcgym.errors import ConfigError, DcgymError
from dcgym.tasks.balancing.presets import make_scenario
from dcgym.traffic.http import make_requests
from tests.support.wrong_values import NAMES, ODD_KEYS, WRONG

Path = tuple[Any, ...]


CONFIGS: dict[str, dict[str, Any]] = {
    "congestion": {
        "env": "CongestionControl-v2",
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
    },
    "graph": {
        "env": "CongestionControl-v2",
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
        "env": "Joint-v2",
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
        "env": "PathBalancing-v2",
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
        "path_rule": "letflow",
        "flow_table": 1024,
        "flowlet_gap": "1ms",
        "observe": "all",
    },
    "mix": {
        "env": "CongestionControl-v2",
        "topology": "dumbbell",
        "traffic": {"mix": [{"name": "pairs"}, {"name": "incast", "size": "10KB"}]},
    },
    "apps": {
        "env": "CongestionControl-v2",
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
    "drawn": {
        "env": "LoadBalancing-v1",
        "scenario": {"preset": "yao-sim-8", "load": 0.5, "balancers": 2},
        "randomise": {"scenario.load": {"uniform": [0.5, 0.9]}, "scenario.balancers": [2, 4]},
        "lead_in": 0,
        "drain": "2s",
        "paths": "shared",
    },
    "flow control": {
        "env": "FlowControl-v1",
        "topology": {"name": "dumbbell", "hosts": 4},
        "action": "rate",
        "flows": 1,
        "features": ["rate", "loss"],
        "history": 2,
        "lease": "1s",
        "reward": {"orca": 1.0, "loss": 0.5},
    },
    "assignment": {
        "env": "JobAssignment-v0",
        "scenario": {"preset": "park-10", "load": 0.8},
        "jobs": 10,
        "observation": "work",
        "action": "scores",
        "reward": ["sojourn"],
        "rule": "sed",
        "record_limit": 10,
    },
    "vips": {
        "env": "VipPlacement-v0",
        "data_centre": {"preset": "fat-tree-8", "mux_rate": "10Gbit", "reserve": 0.1},
        "vips": {"vips": 40, "total": "40Gbit", "internet": 0.2},
        "candidates": 4,
        "reward": {"placed": 1.0, "mru": 0.1},
    },
    "dips": {
        "env": "DipPlacement-v0",
        "data_centre": "fat-tree-8",
        "vips": {"vips": 20, "total": "40Gbit"},
        "dips": {"headroom": 2.0, "load": 0.8, "vms_per_server": 8, "moves": 0.02},
        "candidates": 4,
    },
    "migration": {
        "env": "VipMigration-v0",
        "vips": {"vips": 40, "total": "40Gbit", "churn": 1.0},
        "epochs": 3,
        "action": "vips",
        "candidates": 4,
        "reward": {"switches": 1.0, "moved": 0.2},
    },
    "accelerators": {
        "env": "AcceleratorBalancing-v0",
        "scenario": {
            "preset": "p4wise-64",
            "demand": "exponential",
            "events": [{"at_ns": 10**9, "kind": "device-speed", "device": 1, "value": 0.5}],
        },
        "agents": {"kind": "event", "threshold_ns": 10**6, "release": 0.5, "loss": 0.1},
        "interval": "10s",
        "settle": "1s",
        "loads": [0.2, 0.8],
        "server_rule": "lsq",
        "weights": [6, 1],
        "most_weight": 6,
        "reward": {"p4wise": 1.0},
        "utilisation_threshold": 0.6,
    },
}

HTTP: dict[str, Any] = {
    "name": "wiki",
    "requests_per_s": 10,
    "duration": "2s",
    "start": "1s",
    "arrivals": {"name": "poisson"},
    "bytes_per_cpu_s": 1e6,
}
SWEEP: dict[str, Any] = {
    "env": "LoadBalancing-v1",
    "config": {"scenario": {"preset": "yao-sim-8", "load": 0.5}},
    "set": {"interval": ["250ms", "500ms"], "scenario.load": {"uniform": [0.5, 0.9]}},
    "sample": 2,
    "sampler": "sobol",
    "until": "fct_us_mean=5%",
    "policies": ["sed", "lsq"],
    "seeds": 2,
    "jobs": 1,
    "seconds": 10,
    "warmup": 1,
    "train_seconds": 60,
    "trainings": 2,
    "run_deadline": "5min",
    "memory_limit": "4GiB",
    "require_fidelity": "ok",
    "out": "runs/fuzz",
}


def read_http(content: Any) -> object:
    """Draw a plan of requests."""
    return make_requests(content, ["h1"], [("10.0.0.2", 80)])


def read_sweep_file(content: Any) -> object:
    """Read what a sweep's file holds."""
    return read_sweep(None, content)


def bases() -> dict[str, dict[str, Any]]:
    """Return the inputs that mistakes are put into."""
    # A scenario that states every field.
    full = {"env": "LoadBalancing-v1", "scenario": make_scenario("yao-sim-8").to_dict()}
    return {**CONFIGS, "full pool": full, "http": HTTP, "sweep": SWEEP}


BASES = bases()
READERS = {"http": read_http, "sweep": read_sweep_file}
"""What reads an input that is no environment's configuration."""

ARGUMENTS = {
    "topology": ("switch", "probes", "events", "render_mode", "info", "floor", "flat", "generator"),
    "env": ("info", "render_mode", "backend", "max_steps"),
}
"""Arguments that may be added to an input that has the key."""

NAMED_INSTEAD = {
    # What contradicts another field.
    "traffic.flows_per_s": ("rate", "sizes", "mean"),
    "traffic.duration": ("sizes",),
    "seconds": ("warmup",),
    "settle": ("interval",),
    "drain": ("max_steps",),
    "interval": ("time", "mean_ns"),
    "lead_in": ("time", "mean_ns"),
    "scenario.load": ("rate_per_s",),
    "headroom": ("load",),
    "plan.flows[0], repetitions": ("size",),
    "scenario.probe_delay_ns": ("probe_interval_ns",),
    "group.weight": ("speed",),
    "link end": ("name",),
    "probes": ("features",),
    "probes[0]": ("hosts_per_leaf",),
    "randomise": ("scenario",),
    "set": ("scenario",),
    # The field of a mapping that is not where its reader looks for it.
    "name": ("groups", "resources", "vips", "applications"),
    "config field": ("set", "env"),
    # The thing that is read, where its class does not know in which field it stands.
    "pool field": ("scenario",),
    "pool.groups": ("scenario",),
    "distribution field": ("demand",),
    "distribution.kind": ("demand",),
    # The file that a text is the path of.
    "null, header": ("traffic", "file"),
}
"""Fields that a refusal may name in the place of the one that holds the mistake."""


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


def places_for_more(config: Any) -> list[Path]:
    """Return places that a configuration does not have."""
    added = [(name,) for key, names in ARGUMENTS.items() if key in config for name in names]
    parents = [path for path in ((), *places(config)) if isinstance(_at(config, path), dict)]
    return added + [(*path, key) for path in parents for key in (*NAMES, *ODD_KEYS)]


class Case(NamedTuple):
    """An input with mistakes, each of which is a place and the number of what is put there."""

    name: str
    content: Any
    mistakes: tuple[tuple[Path, int], ...]

    def __repr__(self) -> str:
        """Leave the content out: some values refuse to be shown."""
        return f"{self.name} with {self.mistakes}"


def draw(numbers: random.Random, count: int = 1) -> Case:
    """Draw an input with so many mistakes."""
    case = Case((name := numbers.choice(sorted(BASES))), BASES[name], ())
    for _ in range(count):
        known, more = [*places(case.content)], places_for_more(case.content)
        # A list in which a mistake stands for the only mapping has no place for more.
        place = numbers.choice(known if not more or numbers.random() < 0.5 else more)
        wrong = numbers.randrange(len(WRONG))
        # What a function of the user's raises is its own.
        while place[-1] == "backend" and callable(WRONG[wrong]):
            wrong = numbers.randrange(len(WRONG))
        content = put(case.content, place, WRONG[wrong])
        case = Case(name, content, (*case.mistakes, (place, wrong)))
    return case


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def refusal_of(call: Callable[[], object]) -> DcgymError | None:
    """Return why a call refuses its input, in one line; nothing else is allowed."""
    try:
        made = call()
    except DcgymError as error:
        text = str(error)
        assert text and "\n" not in text and len(text) < 6000, text
        return error
    close = getattr(made, "close", None)
    if callable(close):
        close()
    return None


def read(name: str, content: Any) -> DcgymError | None:
    """Read an input of a name; an environment's in each of its forms. Start nothing."""
    reader = READERS.get(name)
    if reader is not None:
        return refusal_of(lambda: reader(content))
    refusal_of(lambda: dcgym.parallel_env(content))
    return refusal_of(lambda: dcgym.make_env(content))


def names(error: DcgymError, path: Path) -> bool:
    """Tell whether a refusal names the field in which the only mistake is, or the one around it."""
    if not isinstance(error, ConfigError):
        return False
    # A name that nobody knows is itself what is refused.
    if error.value is path[-1]:
        return True
    keys = [key.rpartition(".")[2] for key in path if isinstance(key, str)]
    # A text is taken for the path of a file.
    if error.field.startswith("suffix of "):
        return True
    # What defaults leave out is missing at the first link.
    if error.field.startswith("link ") and "defaults" in path:
        return True
    # Of a list's items errors speak in the singular: `group` is one of `groups`.
    if any(key.removesuffix("s") in error.field for key in keys[-2:]):
        return True
    return any(key in NAMED_INSTEAD.get(error.field, ()) for key in keys)
