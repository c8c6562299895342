"""Policies that leave paths to a rule of the data plane, with equal weights."""

from __future__ import annotations

from dcgym.policies.base import Overrides
from dcgym.policies.paths.policies import EcmpPolicy

__all__ = ["PathRulePolicy"]


class PathRulePolicy(EcmpPolicy):
    """Equal weights under a path rule, which the environment is asked for.

    In an environment with another rule it is that rule with equal weights.
    """

    def __init__(self, path_rule: str) -> None:
        """Choose the rule.

        Args:
            path_rule: A name in `dcgym.tasks.network.path_rules.PATH_RULES`.
        """
        super().__init__()
        self.name = path_rule

    def env_overrides(self) -> Overrides:
        """Return the argument that asks for the rule."""
        return {"path_rule": self.name}
