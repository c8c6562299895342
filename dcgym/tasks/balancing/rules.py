"""Rules by which a balancer places a new flow on a server.

The twin, the kernel's data plane and the shared header ``rules.h`` know a rule by its number, its
place in ``tables/balancing_rules.h`` of `dcgym/native/include`.
"""

from __future__ import annotations

from dataclasses import dataclass

from dcgym.config import check_in
from dcgym.native.tables import read_table
from dcgym.registry import Registry

__all__ = ["RULES", "Rule", "check_kernel_rule", "kernel_rules"]


@dataclass(frozen=True)
class Rule:
    """A rule, and what it has to know.

    Attributes:
        name: Name in configurations.
        number: Its place in the table.
        uses_configured: Looks at the weights that the scenario configures.
        uses_learned: Looks at the weights of `Pool.set_weights`: an agent can act through it.
        needs_truth: Looks at what only the servers know.
        needs_messages: Lives on messages, reports of servers or response times.
    """

    name: str
    number: int
    uses_configured: bool
    uses_learned: bool
    needs_truth: bool
    needs_messages: bool

    @property
    def is_in_kernel(self) -> bool:
        """Whether the kernel's data plane has it: it needs what a balancer sees or is told."""
        return not self.needs_truth


RULES: Registry[Rule] = Registry("rules", "rule")
"""The rules by name, in the order of their numbers."""


def kernel_rules() -> tuple[str, ...]:
    """Return the names of the rules that the kernel's data plane has."""
    return tuple(name for name, rule in RULES.items() if rule.is_in_kernel)


def check_kernel_rule(name: object) -> str:
    """Return the name of a rule that the kernel's data plane has.

    Args:
        name: Its name.

    Raises:
        ConfigError: There is no such rule, or the kernel has it not.
    """
    return check_in("rule", RULES.find(name).name, kernel_rules())


for _number, _row in enumerate(read_table("balancing_rules")):
    _rule = Rule(
        _row["name"],
        _number,
        uses_configured=_row["weights"] == "CONFIGURED",
        uses_learned=_row["weights"] == "LEARNED",
        needs_truth=_row["knows"] == "TRUTH",
        needs_messages=_row["knows"] == "TOLD",
    )
    RULES.add(_rule.name, _rule, _row["description"])
