"""Policies for rates and paths together: one of each, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from dcgym.policies.base import Action, Info, Observation, Overrides, Policy

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["JointPolicy"]


class JointPolicy:
    """A policy of rates and a policy of paths, neither of which knows of the other."""

    def __init__(self, name: str, rates: Policy, paths: Policy) -> None:
        """Join two policies.

        Args:
            name: Name of the pair.
            rates: A policy of the family congestion.
            paths: A policy of the family paths.
        """
        self.name = name
        self._parts = {"rates": rates, "weights": paths}

    def env_overrides(self) -> Overrides:
        """Return what either asks for."""
        return {
            key: value
            for part in self._parts.values()
            for key, value in part.env_overrides().items()
        }

    def bind(self, env: object) -> Self:
        """Tell both what they act on; returns the policy.

        Args:
            env: The environment, under whatever wrappers, or its task.
        """
        for part in self._parts.values():
            part.bind(env)
        return self

    def act(self, observation: Observation, info: Info) -> dict[str, Action]:
        """Return both actions by name."""
        # Each part has one decision, and so an action without parts.
        return {
            name: cast(Action, part.act(observation, info)) for name, part in self._parts.items()
        }
