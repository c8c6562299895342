"""Stable-Baselines3, imported as training needs it."""

from __future__ import annotations

from dcgym.errors import MissingDependency
from dcgym.policies.learned.threads import limit_torch_threads

__all__ = ["require_sb3"]


def require_sb3() -> None:
    """Import the library, and let it compute on one core.

    Raises:
        MissingDependency: It is not installed.
    """
    try:
        import stable_baselines3  # noqa: F401
    except ImportError as error:
        raise MissingDependency("stable-baselines3", "sb3") from error
    limit_torch_threads()
