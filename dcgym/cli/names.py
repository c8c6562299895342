"""The names that configurations understand, by kind, as the registries hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from dcgym.config import check_in
from dcgym.registry import REGISTRIES

__all__ = ["Descriptions", "collect", "kinds"]

Descriptions: TypeAlias = dict[str, str]
"""The line that describes each name."""

# A configuration's field takes names of several registries: they are listed together.
GATHERED: Mapping[str, tuple[str, ...]] = {
    "plans": ("plans", "patterns", "plan families"),
    "rewards": ("rewards", "balancing rewards"),
}


def collect(kind: str | None = None) -> dict[str, Descriptions]:
    """Return the names of one kind, or of all kinds, with what describes each.

    Args:
        kind: One of `kinds`; None for all.

    Raises:
        ConfigError: Unknown kind.
    """
    found = kinds()
    wanted = found if kind is None else (check_in("kind", kind, found),)
    return {one: dict(sorted(_describe(one).items())) for one in wanted}


def kinds() -> tuple[str, ...]:
    """Return the kinds that there are names of."""
    # Importing what stands highest fills every registry below it.
    import dcgym.suites  # noqa: F401
    from dcgym.policies import POLICIES

    gathered = {name for group in GATHERED.values() for name in group}
    families = {POLICIES[family].kind for family in POLICIES.names()}
    plain = (_title(kind) for kind in REGISTRIES if kind not in gathered | families)
    return (*plain, *GATHERED, "policies")


def _describe(kind: str) -> Descriptions:
    if kind == "policies":
        return _policies()
    if kind == "suites":
        from dcgym.suites import SUITES
        from dcgym.suites.checks import needs_of

        return {
            name: f"{SUITES.describe(name)} Needs {needs_of(SUITES.find(name))}."
            for name in SUITES.names()
        }
    registries = [name for name in REGISTRIES if _title(name) == kind]
    return _of_registries(GATHERED.get(kind, tuple(registries)))


def _of_registries(names: tuple[str, ...]) -> Descriptions:
    return {
        name: REGISTRIES[kind].describe(name) for kind in names for name in REGISTRIES[kind].names()
    }


def _policies() -> Descriptions:
    """Return the policies of all families; a name in several stands with the first one's line."""
    from dcgym.policies import LEARNERS, POLICIES

    found: Descriptions = {}
    for family in POLICIES.names():
        for name in POLICIES[family].names():
            found.setdefault(name, POLICIES[family].describe(name))
    return found | {name: LEARNERS.describe(name) for name in LEARNERS.names()}


def _title(kind: str) -> str:
    """Return a kind as one word, fit for a command line."""
    return kind.replace(" ", "-")
