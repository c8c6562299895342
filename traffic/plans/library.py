"""Traffic by name: kinds of generators of plans, patterns, named plans and families of names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dcgym.config import check_text
from dcgym.errors import ConfigError, suggest
from dcgym.registry import Registry, load_plugins
from dcgym.traffic.plans import patterns
from dcgym.traffic.plans.options import Spec
from dcgym.traffic.plans.patterns import Pattern
from dcgym.traffic.plans.records import Records
from dcgym.traffic.sizes.cdfs import CDFS
from dcgym.traffic.sizes.draws import Draws

if TYPE_CHECKING:
    from dcgym.topologies import Topology

__all__ = [
    "FAMILIES",
    "KINDS",
    "PATTERNS",
    "PLANS",
    "Family",
    "TrafficKind",
    "expand",
    "find_pattern",
    "load_family",
    "load_unknown",
    "read_pairs",
]


@dataclass(frozen=True)
class TrafficKind:
    """A kind of generator of plans.

    Attributes:
        compile: Makes the flows of a mapping with these options.
        options: Keys that the mapping may have besides ``name``.
    """

    compile: Callable[[Spec, Topology, Draws], Records]
    options: tuple[str, ...]


@dataclass(frozen=True)
class Family:
    """Names with numbers in them.

    Attributes:
        expression: What the names look like.
        make: From the groups of a match, the pattern that a name stands for, or its mapping.
    """

    expression: re.Pattern[str]
    make: Callable[..., Pattern | Spec]


KINDS: Registry[TrafficKind] = Registry("traffic kinds", "traffic")
"""Kinds of generators of plans, which need options."""

PATTERNS: Registry[Pattern] = Registry("patterns", "traffic.pairs")
"""Who sends to whom; each is a plan of bulk flows by itself."""

FAMILIES: Registry[Family] = Registry(
    "plan families", "traffic", re.compile(r"[a-z0-9]+(-[a-z0-9]+)*(-[A-Z]+)+")
)
"""Families of names, with N a number, E and P probabilities, LOAD the load of the bottleneck."""

PLANS: Registry[Spec] = Registry("plans", "traffic")
"""Traffic by name, as the mapping that it stands for; names of `FAMILIES` are known too."""


def expand(name: str) -> dict[str, object]:
    """Return the mapping that a name stands for.

    Args:
        name: A name of `PLANS`, `KINDS` or `PATTERNS`, or one of a family.

    Raises:
        ConfigError: No traffic has that name.
    """
    load_unknown(name)
    if "name" in PLANS.get(name, {}):
        return dict(PLANS[name])
    if name in KINDS or find_pattern(name) is not None:
        return {"name": name}
    found = _of_family(name)
    if isinstance(found, Mapping):
        return dict(found)
    if name in PLANS:
        raise ConfigError("traffic", name, "no options beside the name of a mix")
    known = [*PLANS, *KINDS, *(name for name in PATTERNS if name not in PLANS)]
    shown = [*(n for n in known if not re.search(r"-[0-9]", n)), *FAMILIES, "a file"]
    raise ConfigError("traffic", name, shown, suggest(name, known))


def load_unknown(name: str) -> None:
    """Load the plug-ins if no traffic has this name yet.

    Args:
        name: What a configuration holds.
    """
    is_named = name in PLANS or name in KINDS or name in PATTERNS
    if not is_named and _of_family(name) is None:
        load_plugins()


def find_pattern(name: str) -> Pattern | None:
    """Return the pattern of that name, or None.

    Args:
        name: A name of `PATTERNS`, or one of a family of patterns.
    """
    if name in PATTERNS:
        return PATTERNS[name]
    found = _of_family(name)
    return None if isinstance(found, Mapping) else found


def read_pairs(spec: Spec, default: str) -> Pattern:
    """Return the pattern that the option ``pairs`` of a spec names.

    Args:
        spec: The spec.
        default: The pattern of a spec that names none.

    Raises:
        ConfigError: There is no such pattern.
    """
    name = check_text("traffic.pairs", spec.get("pairs", default))
    load_unknown(name)
    pattern = find_pattern(name)
    if pattern is None:
        names = [known for known in {**PLANS, **PATTERNS} if find_pattern(known) is not None]
        raise ConfigError("traffic.pairs", name, names, suggest(name, names))
    return pattern


def load_family(sizes: str) -> Family:
    """Return the family of Poisson arrivals at a load, such as "web-search-0.6".

    Args:
        sizes: Name of the distribution of flow sizes, which begins the names.
    """
    expression = re.compile(f"{re.escape(sizes)}-([0-9]{{1,3}}(?:\\.[0-9]{{1,6}})?)")
    return Family(expression, lambda load: {"name": "poisson", "sizes": sizes, "load": float(load)})


def _of_family(name: str) -> Pattern | Spec | None:
    for family in FAMILIES.values():
        match = family.expression.fullmatch(name)
        if match is not None:
            return family.make(*match.groups())
    return None


PATTERNS.add("pairs", patterns.pairs)
PATTERNS.add("incast", patterns.incast(), "Every host sends to the last one.")
PATTERNS.add("all-to-all", patterns.all_to_all)
PATTERNS.add("random", patterns.random(1), "Every host sends to one other host.")
PATTERNS.add("random-bijection", patterns.random_bijection)
PATTERNS.add("permutation", patterns.random_bijection)
PATTERNS.add("hotspot", patterns.hotspot(1), "Half of all flows go to one host.")
PATTERNS.add("idle", patterns.idle)

_NUMBER = r"([1-9][0-9]{0,8})"
_SHARE = r"(0|1|0?\.[0-9]{1,6}|1\.0{1,6})"

FAMILIES.add(
    "stride-N",
    Family(re.compile(f"stride-{_NUMBER}"), lambda n: patterns.stride(int(n))),
    "Host i sends to host i + N.",
)
FAMILIES.add(
    "incast-N",
    Family(re.compile(f"incast-{_NUMBER}"), lambda n: patterns.incast(int(n))),
    "N hosts send to the last one.",
)
FAMILIES.add(
    "random-N",
    Family(re.compile(f"random-{_NUMBER}"), lambda n: patterns.random(int(n))),
    "Every host sends to N other hosts.",
)
FAMILIES.add(
    "hotspot-N",
    Family(re.compile(f"hotspot-{_NUMBER}"), lambda n: patterns.hotspot(int(n))),
    "Half of all flows go to one of N hosts.",
)
FAMILIES.add(
    "staggered-E-P",
    Family(
        re.compile(f"staggered-{_SHARE}-{_SHARE}"),
        lambda edge, pod: patterns.staggered(float(edge), float(pod)),
    ),
    "Hosts prefer receivers at their switch (E) and in their pod (P).",
)
for _sizes in CDFS:
    FAMILIES.add(f"{_sizes}-LOAD", load_family(_sizes), f"Poisson arrivals of {_sizes} flows.")

_BUILT_IN: Mapping[str, Spec] = {
    "pairs": {"name": "pairs"},
    "pairs-udp": {"name": "pairs", "transport": "udp"},
    **{name: {"name": name} for name in PATTERNS if name != "pairs"},
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
for _name, _spec in _BUILT_IN.items():
    PLANS.add(_name, _spec)
