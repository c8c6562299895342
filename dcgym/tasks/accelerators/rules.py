"""Rules by which a request gets a server, and a device in it.

The shared header ``device_rules.h`` knows a device rule by its number, its place in
``tables/device_rules.h`` of `dcgym/native/include`.
"""

from __future__ import annotations

from dataclasses import dataclass

from dcgym.native.tables import read_table
from dcgym.registry import Registry
from dcgym.tasks.balancing.rules import RULES

__all__ = ["DEVICE_RULES", "SERVER_RULES", "DeviceRule"]


@dataclass(frozen=True)
class DeviceRule:
    """A rule of the second level, and what it has to be told.

    Attributes:
        name: Name in configurations.
        number: Its place in the table.
        needs: "nothing"; "load" or "queue", which periodic agents report; or "busy", which
            event-driven agents report.
        uses_weights: Looks at the weights of the devices.
    """

    name: str
    number: int
    needs: str
    uses_weights: bool


DEVICE_RULES: Registry[DeviceRule] = Registry("device rules", "device_rule")
"""The rules between the devices of a server by name, in the order of their numbers."""


for _number, _row in enumerate(read_table("device_rules")):
    _uses_weights = _row["weights"] == "CONFIGURED"
    _rule = DeviceRule(_row["name"], _number, _row["needs"].lower(), _uses_weights)
    DEVICE_RULES.add(_rule.name, _rule, _row["description"])

SERVER_RULES = tuple(
    name
    for name, rule in RULES.items()
    if not (rule.needs_truth or rule.needs_messages or rule.uses_learned)
    and name not in ("sapp", "wsapp")
)
"""Rules between servers: those that need what the balancer itself sees, and configured weights."""
