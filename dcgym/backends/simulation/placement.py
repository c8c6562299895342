"""The flow-level model of VIPs on switches and muxes; exact, and its time stands still."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Capabilities
from dcgym.config import check_int
from dcgym.errors import needs_reset
from dcgym.native import require
from dcgym.tasks.placement.data_centre import DataCentre
from dcgym.tasks.placement.links import native_fabric, native_vips
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

__all__ = ["PLACEMENT_CAPABILITIES", "FlowLevelModel"]

MOST_COPIES = 65_536
PLACEMENT_CAPABILITIES = Capabilities(copies=MOST_COPIES, oracles=True, copyable=True)


class FlowLevelModel:
    """VIPs of a data centre over paths of equal cost (`dcgym.backends.base.Placement`).

    Traffic goes from its source to the switch that holds the VIP, and from there to its DIPs; the
    answers go directly. Every switch splits what it forwards alike among its next hops of equal
    cost. The Internet is behind all core switches. Muxes are spread alike over all racks.

    Args:
        data_centre: Switches, links, tables and muxes.
        n_envs: Number of copies.

    Raises:
        FeatureNotSupported: The native module was not built.
    """

    name = "simulation"
    capabilities = PLACEMENT_CAPABILITIES

    def __init__(self, data_centre: DataCentre, n_envs: int = 1) -> None:
        self._native = require("_placement")
        self.data_centre, self.n_envs = data_centre, check_int("num_envs", n_envs, 1, MOST_COPIES)
        self._fabric = native_fabric(data_centre)
        self._boards: list[Any] = [None] * n_envs
        self._vips: list[object] = [None] * n_envs
        self._orders: list[npt.NDArray[np.uint32]] = [np.empty(0, np.uint32)] * n_envs

    def __deepcopy__(self, memo: dict[int, object]) -> FlowLevelModel:
        """Return a second model that goes on from here."""
        made = FlowLevelModel(self.data_centre, self.n_envs)
        made._vips, made._orders = list(self._vips), list(self._orders)
        made._boards = [None if one is None else one.__deepcopy__({}) for one in self._boards]
        return made

    def reset(self, env: int, table: VipTable, used: npt.NDArray[np.uint32] | None = None) -> None:
        """Begin anew in a copy with these VIPs, all of them on the muxes.

        Args:
            env: Number of the copy.
            table: The VIPs of an epoch.
            used: Entries for DIPs of each switch that something else holds, (S,), such as Rubik's
                local mappings; None for none.

        Raises:
            ConfigError: The table names racks that the data centre does not have, or is malformed.
        """
        centre = self.data_centre
        table.check(centre.n_racks)
        self._vips[env], self._orders[env] = native_vips(table), table.order
        taken = [] if used is None else used.tolist()
        self._boards[env] = self._native.Board(
            self._fabric,
            self._vips[env],
            centre.switch_entries,
            centre.host_entries,
            centre.reserve,
            taken,
        )

    def candidates(self, env: int, vip: int, most: int | None, seed: int) -> Candidates:
        """Return switches among which to choose for a VIP.

        Half of them have the least MRU, a quarter the fewest hops, and the others are the first in
        a random order; each is feasible while there are such.

        Args:
            env: Number of the copy.
            vip: Number of the VIP.
            most: How many at most; None for all switches in the order of their numbers.
            seed: Seed of the random order, and of the order of equals.
        """
        return Candidates(*self._board(env).candidates(vip, most or 0, seed))

    def place(self, env: int, vip: int, switch: int) -> None:
        """Put a VIP on a switch, from the muxes or from another switch.

        Args:
            env: Number of the copy.
            vip: Number of the VIP.
            switch: Number of the switch; nobody asks whether the VIP fits.
        """
        self._board(env).place(vip, switch)

    def assign(self, env: int, rule: AssignmentRule, before: Places | None = None) -> None:
        """Place all VIPs of a copy that has just begun by a rule.

        Args:
            env: Number of the copy.
            rule: How.
            before: Switch where each VIP was, (V,), -1 on the muxes; None for nothing known.
        """
        own = np.empty(0, np.int32) if before is None else before
        self._board(env).assign(
            self._orders[env], own, rule.choice, rule.stops, rule.margin, rule.seed
        )

    def migrate(self, env: int, wanted: Places, dead: Collection[int] = ()) -> Transition:
        """Move VIPs from where they are to where they are wanted, in two waves over the muxes.

        Args:
            env: Number of the copy.
            wanted: Switch of each VIP, (V,), -1 for the muxes.
            dead: Switches that died between the waves: VIPs that they held go to the muxes.
        """
        board, order = self._board(env), self._orders[env].tolist()
        now, next_ = board.where.tolist(), np.asarray(wanted).tolist()
        gone, used = set(dead), [self.usage(env)]
        leaving = [v for v in order if now[v] >= 0 and (next_[v] != now[v] or now[v] in gone)]
        for vip in leaving:
            board.remove(vip)
        used.append(self.usage(env))
        most = used[-1]
        announced, refused = list[int](), list[int]()
        for vip in [v for v in order if next_[v] >= 0 and (next_[v] != now[v] or now[v] in gone)]:
            fits = next_[vip] not in gone and board.fits(vip, next_[vip])
            (announced if fits else refused).append(vip)
            if fits:
                board.place(vip, next_[vip])
                most = self.usage(env)  # both are highest after the last one
        return Transition(
            tuple(leaving),
            tuple(announced),
            tuple(refused),
            (used[0].link_max, used[1].link_max, most.link_max),
            (used[0].memory_max, used[1].memory_max, most.memory_max),
        )

    def places(self, env: int) -> Places:
        """Return the switch of each VIP, (V,), -1 on the muxes.

        Args:
            env: Number of the copy.
        """
        where: Places = self._board(env).where
        return where

    def usage(self, env: int) -> Usage:
        """Return how full links and tables are.

        Args:
            env: Number of the copy.
        """
        return Usage(*self._board(env).usage())

    def link_utilisations(self, env: int) -> npt.NDArray[np.float64]:
        """Return the utilisation of each link by VIPs on switches, of what the reserve leaves.

        Args:
            env: Number of the copy.
        """
        links: npt.NDArray[np.float64] = self._board(env).links
        return links

    def evaluate(self, env: int, failures: Failures, is_routed: bool = True) -> Evaluation:
        """Return what the placement leads to while something is down; changes nothing.

        Args:
            env: Number of the copy.
            failures: What is down.
            is_routed: Whether anything is asked of links; without, it takes a tenth of the time.

        Raises:
            ConfigError: The data centre has no such switch, link or rack.
        """
        failures.check(self.data_centre)
        centre = self.data_centre
        up, links = np.ones(centre.n_switches, np.bool_), np.ones(centre.n_links, np.bool_)
        muxes = np.ones(centre.n_racks)
        up[list(failures.switches)] = links[list(failures.links)] = False
        muxes[list(failures.mux_racks)] = 0.0
        places = self._board(env).where
        found = self._native.evaluate(
            self._fabric, self._vips[env], places, muxes, up, links, is_routed
        )
        return _evaluation(centre, found)

    def close(self) -> None:
        """Forget the VIPs; a second call does nothing."""
        self._boards = [None] * self.n_envs
        self._vips = [None] * self.n_envs

    def _board(self, env: int) -> Any:
        board = self._boards[env]
        if board is None:
            raise needs_reset()
        return board


def _evaluation(centre: DataCentre, found: dict[str, Any]) -> Evaluation:
    link_bps = found["link_bps"]
    is_routed = link_bps.size > 0
    core_bps = float(link_bps[centre.is_core_link].sum()) if is_routed else np.nan
    served = found["switch_bps"] + found["mux_bps"]
    direct_core, direct_hops = found["direct_core_bps"], found["direct_hop_bps"]
    return Evaluation(
        found["total_bps"],
        found["switch_bps"],
        found["mux_bps"],
        found["lost_bps"],
        found["dark_bps"],
        found["unreachable_bps"] if is_routed else np.nan,
        float((link_bps / centre.link_bps).max()) if is_routed else np.nan,
        core_bps,
        found["hop_bps"] - core_bps if is_routed else np.nan,
        found["hop_bps"] / served if is_routed and served else np.nan,
        direct_hops / served if served else np.nan,
        direct_core,
        direct_hops - direct_core,
        link_bps,
        found["by_switch_bps"],
    )
