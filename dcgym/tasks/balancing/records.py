"""The record of a finished flow: how flows end, under the names that both backends use."""

from __future__ import annotations

__all__ = ["COMPLETED", "NOBODY", "OUTCOMES"]

OUTCOMES = ("completed", "rejected", "pcc_violations", "lost")
"""How a flow ended: served; refused by a full backlog; reset because its packets reached another
server (per-connection consistency was violated); lost with a removed server, or because no balancer
or server was left. A summary counts flows under the same names."""

COMPLETED = OUTCOMES.index("completed")

NOBODY = 65_535
"""Number that stands for no server, or no balancer, in a record."""
