"""Traffic by name: fixed names, and families of names with numbers in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from dcgym.errors import ConfigError, suggest
from dcgym.traffic.plans import patterns
from dcgym.traffic.plans.patterns import Pattern
from dcgym.traffic.sizes.cdfs import CDFS

__all__ = ["FAMILIES", "GENERATORS", "PLANS", "expand", "find_pattern"]

GENERATORS = ("poisson", "closed-loop", "incast-bursts", "recorded")
"""Kinds of traffic that need options; see the modules `open_loop`, `closed_loop`, `recorded`."""

_PATTERNS: dict[str, Pattern] = {
    "pairs": patterns.pairs,
    "pairs-udp": patterns.pairs,
    "incast": patterns.incast(),
    "all-to-all": patterns.all_to_all,
    "random": patterns.random(1),
    "random-bijection": patterns.random_bijection,
    "permutation": patterns.random_bijection,
    "hotspot": patterns.hotspot(1),
    "idle": patterns.idle,
}

_NUMBER = r"([1-9][0-9]{0,8})"
_SHARE = r"(0|1|0?\.[0-9]{1,6}|1\.0{1,6})"

_FAMILIES: dict[str, tuple[re.Pattern[str], Callable[..., Pattern]]] = {
    "stride-N": (re.compile(f"stride-{_NUMBER}"), lambda n: patterns.stride(int(n))),
    "incast-N": (re.compile(f"incast-{_NUMBER}"), lambda n: patterns.incast(int(n))),
    "random-N": (re.compile(f"random-{_NUMBER}"), lambda n: patterns.random(int(n))),
    "hotspot-N": (re.compile(f"hotspot-{_NUMBER}"), lambda n: patterns.hotspot(int(n))),
    "staggered-E-P": (
        re.compile(f"staggered-{_SHARE}-{_SHARE}"),
        lambda edge, pod: patterns.staggered(float(edge), float(pod)),
    ),
}

_LOADED = re.compile(f"({'|'.join(CDFS)})-([0-9]{{1,3}}(?:\\.[0-9]{{1,6}})?)")

FAMILIES = (*_FAMILIES, *(f"{name}-LOAD" for name in CDFS))
"""Families of names, with N a number, E and P probabilities, LOAD the load of the bottleneck."""

PLANS: dict[str, Mapping[str, Any]] = {
    **{name: {"name": name} for name in _PATTERNS},
    "stride-1": {"name": "stride-1"},
    "incast-2": {"name": "incast-2"},
    "staggered-0.5-0.3": {"name": "staggered-0.5-0.3"},
    **{f"{name}-0.6": {"name": "poisson", "sizes": name, "load": 0.6} for name in CDFS},
    "hadoop-closed-loop": {"name": "closed-loop", "sizes": "hadoop", "pairs": "random-bijection"},
    "incast-bursts-0.3": {"name": "incast-bursts", "sizes": "32KB", "load": 0.3},
    "web-search-incast": {
        "mix": [
            {"name": "web-search-0.4", "duration": "10s"},
            {"name": "incast-bursts", "sizes": "32KB", "load": 0.1, "duration": "10s"},
        ]
    },
}
"""Traffic by name, as the mapping that it stands for; every name of `FAMILIES` is known too."""


def expand(name: object) -> dict[str, Any]:
    """Return the mapping that a name stands for.

    Raises:
        ConfigError: No traffic has that name.
    """
    if isinstance(name, str):
        if "name" in PLANS.get(name, {}):
            return dict(PLANS[name])
        if name in GENERATORS or find_pattern(name) is not None:
            return {"name": name}
        match = _LOADED.fullmatch(name)
        if match is not None:
            return {"name": "poisson", "sizes": match[1], "load": float(match[2])}
        if name in PLANS:
            raise ConfigError("traffic", name, "no options beside the name of a mix")
    known = [*PLANS, *GENERATORS]
    shown = [*(n for n in known if not re.search(r"-[0-9]", n)), *FAMILIES, "a file"]
    raise ConfigError("traffic", name, shown, suggest(name, known))


def find_pattern(name: object) -> Pattern | None:
    """Return the pattern of that name, or None."""
    if not isinstance(name, str):
        return None
    for expression, make in _FAMILIES.values():
        match = expression.fullmatch(name)
        if match is not None:
            return make(*match.groups())
    return _PATTERNS.get(name)
