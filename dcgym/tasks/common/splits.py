"""Frozen sets of scenarios: what learners train on, are tuned on, and are scored on.

The number in the name of a split rises whenever one of its scenarios changes, so that scores of a
name can be compared for ever. Nobody trains or tunes on what is held out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from dcgym.registry import Registry

__all__ = ["SPLITS", "Arguments", "Split"]

Arguments: TypeAlias = Mapping[str, object]
"""Arguments of an environment by name; ``env`` names it."""


@dataclass(frozen=True)
class Split:
    """Scenarios in three parts, of which no two share one.

    Attributes:
        train: Arguments with ``randomise``: a distribution of scenarios. It is a preset too.
        validation: Arguments of scenarios by name, for choices such as that of a checkpoint.
        held_out: Arguments of scenarios by name, for scores alone.
    """

    train: Arguments
    validation: Mapping[str, Arguments]
    held_out: Mapping[str, Arguments]


SPLITS: Registry[Split] = Registry("splits", "split")
"""Splits by name, with their number."""
