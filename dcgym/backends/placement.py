"""The protocol of backends that hold the VIPs of a data centre."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import FloatArray, Lifecycle
from dcgym.tasks.placement.data_centre import DataCentre
from dcgym.tasks.placement.view import (
    AssignmentRule,
    Candidates,
    Evaluation,
    Failures,
    Places,
    Transition,
    Usage,
)
from dcgym.traffic.vips import VipTable

__all__ = ["Placement"]


class Placement(Lifecycle, Protocol):
    """VIPs of a data centre and where they are, level of flows; E copies, V VIPs, S switches."""

    @property
    def data_centre(self) -> DataCentre:
        """Switches, links, tables and muxes, the same in every copy."""

    @property
    def n_envs(self) -> int:
        """Number of copies."""

    def reset(self, env: int, table: VipTable, used: npt.NDArray[np.uint32] | None = None) -> None:
        """Begin anew in a copy with these VIPs, all of them on the muxes.

        Args:
            env: Number of the copy.
            table: The VIPs.
            used: Entries for DIPs of each switch that something else holds, (S,); None for none.
        """

    def candidates(self, env: int, vip: int, most: int | None, seed: int) -> Candidates:
        """Return switches among which to choose for a VIP (`dcgym.tasks.placement.view`)."""

    def place(self, env: int, vip: int, switch: int) -> None:
        """Put a VIP on a switch, from the muxes or from another switch."""

    def assign(self, env: int, rule: AssignmentRule, before: Places | None = None) -> None:
        """Place all VIPs of a copy that has just begun by a rule.

        Args:
            env: Number of the copy.
            rule: How.
            before: Switch where each VIP was, (V,), -1 on the muxes; None for nothing known.
        """

    def migrate(self, env: int, wanted: Places, dead: Collection[int] = ()) -> Transition:
        """Move VIPs from where they are to where they are wanted, in two waves over the muxes.

        Args:
            env: Number of the copy.
            wanted: Switch of each VIP, (V,), -1 for the muxes.
            dead: Switches that died between the waves: VIPs that they held go to the muxes.
        """

    def places(self, env: int) -> Places:
        """Return the switch of each VIP, (V,), -1 on the muxes."""

    def usage(self, env: int) -> Usage:
        """Return how full links and tables are."""

    def link_utilisations(self, env: int) -> FloatArray:
        """Return the utilisation of each link by VIPs on switches, less the reserve, (L,)."""

    def evaluate(self, env: int, failures: Failures, is_routed: bool = True) -> Evaluation:
        """Return what the placement leads to while something is down; changes nothing."""
