"""What becomes of a request, by the numbers that records of every backend have."""

from __future__ import annotations

__all__ = ["COMPLETED", "OUTCOMES", "UNDER_WAY"]

OUTCOMES = ("completed", "dropped", "lost")

COMPLETED = OUTCOMES.index("completed")

UNDER_WAY = len(OUTCOMES)
"""Outcome of a request that has not ended."""
