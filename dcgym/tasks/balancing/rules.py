"""Rules by which a balancer places a new flow on a server.

The twin, the kernel's data plane and the shared header ``rules.h`` know a rule by its number. A
test compares this table with what the compiled code does.
"""

from __future__ import annotations

from dataclasses import dataclass

from dcgym.config import check_in
from dcgym.registry import Registry

__all__ = ["RULES", "Rule", "check_kernel_rule", "kernel_rules"]


@dataclass(frozen=True)
class Rule:
    """A rule, and what it has to know.

    Attributes:
        name: Name in configurations.
        number: Number in ``rules.h``.
        uses_configured: Looks at the weights that the scenario configures.
        uses_learned: Looks at the weights of `Pool.set_weights`: an agent can act through it.
        needs_truth: Looks at what only the servers know.
        needs_messages: Lives on messages, reports of servers or response times.
    """

    name: str
    number: int
    uses_configured: bool = False
    uses_learned: bool = False
    needs_truth: bool = False
    needs_messages: bool = False

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


def _add(
    name: str,
    description: str,
    weights: str | None = None,
    needs_truth: bool = False,
    needs_messages: bool = False,
) -> None:
    uses = weights == "configured", weights == "learned"
    rule = Rule(name, len(RULES), *uses, needs_truth, needs_messages)
    RULES.add(name, rule, description)


_add("ecmp", "evenly by the flow's hash")
_add("random", "evenly at random")
_add("round-robin", "the servers take turns")
_add("wcmp", "by the flow's hash, in proportion to configured weights", "configured")
_add("awcmp", "by the flow's hash, in proportion to learned weights", "learned")
_add("lsq", "fewest flows that this balancer tracks")
_add("lsq2", "fewest tracked flows of two candidates")
_add("sed", "least (q + 1) / w, q tracked flows, w configured weights", "configured")
_add("sed2", "least (q + 1) / w of two candidates, configured weights", "configured")
_add("sed-half", "least (q + 1/2) / w, which leaves fewer ties than sed", "configured")
_add("weighted", "least (q + 1) / w, q tracked flows, w learned weights", "learned")
_add("weighted2", "least (q + 1) / w of two candidates, learned weights", "learned")
_add("sapp", "lower predicted score of two candidates (Charon)")
_add("wsapp", "as sapp, the candidates drawn by configured weights", "configured")
_add("gsq", "fewest flows at the server, in truth", needs_truth=True)
_add("gsq2", "fewest flows of two candidates, in truth", needs_truth=True)
_add("oracle", "least time until all work is done, in truth", needs_truth=True)
_add("oracle2", "the same of two candidates", needs_truth=True)
_add("earliest-finish", "first to be done with the new flow, in truth", needs_truth=True)
_add("round-robin-weighted", "in turn, smoothly in proportion to configured weights", "configured")
_add("round-robin-learned", "in turn, smoothly in proportion to learned weights", "learned")
_add("least-request", "Envoy's: two choices, or in turn by w / (q + 1)", "configured")
_add("br", "fewest tracked flows of two candidates drawn by configured weights", "configured")
_add("jiq-own", "a server without a tracked flow, else evenly at random")
_add("prequal", "hot-cold lexicographic over answers to probes", needs_messages=True)
_add("jiq", "the first server that said it is idle, else evenly", needs_messages=True)
_add("peak-ewma", "least response time times (q + 1) of two", needs_messages=True)
_add("c3-rank", "least cubic score of times and reported queue", needs_messages=True)
