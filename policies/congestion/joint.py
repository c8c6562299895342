"""Policies for rates and paths together: one of each, side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.policies.base import Action

__all__ = ["JointPolicy"]


class JointPolicy:
    """A policy of rates and a policy of paths, neither of which knows of the other."""

    def __init__(self, name: str, rates: Any, paths: Any) -> None:
        """Join two policies.

        Args:
            name: Name of the pair.
            rates: A policy of the family congestion.
            paths: A policy of the family paths.
        """
        self.name = name
        self._parts = {"rates": rates, "weights": paths}

    def env_overrides(self) -> dict[str, Any]:
        """Return what either asks for."""
        return {
            key: value
            for part in self._parts.values()
            for key, value in part.env_overrides().items()
        }

    def bind(self, env: Any) -> JointPolicy:
        """Tell both which environment they act in; returns the policy."""
        for part in self._parts.values():
            part.bind(env)
        return self

    def act(self, observation: npt.NDArray[np.float32], info: dict[str, Any]) -> dict[str, Action]:
        """Return both actions."""
        return {name: part.act(observation, info) for name, part in self._parts.items()}
