"""The names that configurations understand, by kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from dcgym.config import check_in

__all__ = ["KINDS", "collect"]


def collect(kind: str | None = None) -> dict[str, list[str]]:
    """Return the names of one kind, or of all kinds.

    Raises:
        ConfigError: Unknown kind.
    """
    if kind is not None:
        check_in("kind", kind, tuple(KINDS))
    wanted = KINDS if kind is None else {kind: KINDS[kind]}
    return {name: sorted(read()) for name, read in wanted.items()}


def _environments() -> Iterable[str]:
    import gymnasium

    import dcgym  # noqa: F401  registers the ids

    return [name for name in gymnasium.registry if name.startswith("dcgym/")]


def _topologies() -> Iterable[str]:
    from dcgym.topologies import TOPOLOGIES

    return TOPOLOGIES


def _plans() -> Iterable[str]:
    from dcgym.traffic import PLANS

    return PLANS


def _policies() -> Iterable[str]:
    from dcgym.policies import LEARNERS, POLICIES

    return {*POLICIES, *LEARNERS}


def _rewards() -> Iterable[str]:
    from dcgym.rewards import REWARDS

    return REWARDS


def _features() -> Iterable[str]:
    from dcgym.features import FEATURES

    return FEATURES


KINDS: Mapping[str, Callable[[], Iterable[str]]] = {
    "environments": _environments,
    "topologies": _topologies,
    "plans": _plans,
    "policies": _policies,
    "rewards": _rewards,
    "features": _features,
}
