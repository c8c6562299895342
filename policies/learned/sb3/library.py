"""Stable-Baselines3 and its contributions, imported as training needs them."""

from __future__ import annotations

from importlib import import_module

from dcgym.errors import MissingDependency
from dcgym.policies.learned.threads import limit_torch_threads

__all__ = ["require_sb3", "require_sb3_contrib"]


def require_sb3() -> None:
    """Import the library, and let it compute on one core.

    Raises:
        MissingDependency: It is not installed.
    """
    _require("stable_baselines3", "stable-baselines3")


def require_sb3_contrib() -> None:
    """Import the library with its contributions, and let it compute on one core.

    Raises:
        MissingDependency: They are not installed.
    """
    require_sb3()
    _require("sb3_contrib", "sb3-contrib")


def _require(module: str, package: str) -> None:
    try:
        import_module(module)
    except ImportError as error:
        raise MissingDependency(package, "sb3") from error
    limit_torch_threads()
