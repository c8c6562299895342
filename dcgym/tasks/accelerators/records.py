"""What becomes of a request, by the numbers that records of every backend have."""

from __future__ import annotations

from dcgym.native.tables import names_of

__all__ = ["COMPLETED", "OUTCOMES", "UNDER_WAY"]

OUTCOMES = names_of("request_outcomes")

COMPLETED = OUTCOMES.index("completed")

UNDER_WAY = len(OUTCOMES)
"""Outcome of a request that has not ended."""
