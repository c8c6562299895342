"""Rules by which a request gets a server, and a device in it.

The shared header ``device_rules.h`` knows a device rule by its number. A test compares this table
with what was compiled.
"""

from __future__ import annotations

from dataclasses import dataclass

from dcgym.registry import Registry
from dcgym.tasks.balancing.rules import RULES

__all__ = ["DEVICE_RULES", "SERVER_RULES", "DeviceRule"]


@dataclass(frozen=True)
class DeviceRule:
    """A rule of the second level, and what it has to be told.

    Attributes:
        name: Name in configurations.
        number: Number in ``device_rules.h``.
        needs: "nothing"; "load" or "queue", which periodic agents report; or "busy", which
            event-driven agents report.
        uses_weights: Looks at the weights of the devices.
    """

    name: str
    number: int
    needs: str = "nothing"
    uses_weights: bool = False


DEVICE_RULES: Registry[DeviceRule] = Registry("device rules", "device_rule")
"""The rules between the devices of a server by name, in the order of their numbers."""


def _add(name: str, description: str, needs: str = "nothing", uses_weights: bool = False) -> None:
    DEVICE_RULES.add(name, DeviceRule(name, len(DEVICE_RULES), needs, uses_weights), description)


_add("server-only", "the processors alone")
_add("device-ecmp", "the devices take turns")
_add("wrr", "the slots of a ring take turns, filled by weight", uses_weights=True)
_add("dynamic-wrr", "in turn, by weight times the idle share", "load", uses_weights=True)
_add("lur", "least reported utilisation", "load")
_add("device-jsq", "shortest reported queue", "queue")
_add("prt", "the first device, from fast to slow, below a threshold of utilisation", "load")
_add("p4mite", "the first device, from fast to slow, that has not said it is busy", "busy")
_add("device-po2", "lower reported utilisation of two at random", "load")

SERVER_RULES = tuple(
    name
    for name, rule in RULES.items()
    if not (rule.needs_truth or rule.needs_messages or rule.uses_learned)
    and name not in ("sapp", "wsapp")
)
"""Rules between servers: those that need what the balancer itself sees, and configured weights."""
