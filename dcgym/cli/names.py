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

    return TOPOLOGIES.names()


def _plans() -> Iterable[str]:
    from dcgym.traffic import FAMILIES, PATTERNS, PLANS

    return {*PLANS.names(), *PATTERNS, *FAMILIES}


def _generators() -> Iterable[str]:
    from dcgym.traffic.generators.tools import GENERATORS

    return GENERATORS.names()


def _sizes() -> Iterable[str]:
    from dcgym.traffic.sizes import SIZES

    return SIZES.names()


def _policies() -> Iterable[str]:
    from dcgym.policies import policy_names

    return policy_names()


def _rewards() -> Iterable[str]:
    from dcgym.tasks.balancing.rewards import BALANCING_REWARDS
    from dcgym.tasks.network.rewards import REWARDS

    return {*REWARDS, *BALANCING_REWARDS}


def _scenarios() -> Iterable[str]:
    from dcgym.tasks.balancing import SCENARIOS

    return SCENARIOS


def _features() -> Iterable[str]:
    from dcgym.tasks.network.features import FEATURE_NAMES

    return FEATURE_NAMES


def _presets() -> Iterable[str]:
    from dcgym.tasks.congestion.presets import PRESETS

    return PRESETS


KINDS: Mapping[str, Callable[[], Iterable[str]]] = {
    "environments": _environments,
    "topologies": _topologies,
    "plans": _plans,
    "sizes": _sizes,
    "generators": _generators,
    "scenarios": _scenarios,
    "policies": _policies,
    "rewards": _rewards,
    "features": _features,
    "presets": _presets,
}
