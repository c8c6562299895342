"""The episode of one copy: which VIP is next, among which switches, and what the last one did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.backends.placement import Placement
from dcgym.envs.bindings.episodes import Action, Episode
from dcgym.envs.values import Caption, Info, Picture, Rows
from dcgym.tasks.placement.observation import write_rows
from dcgym.tasks.placement.task import VipPlacementTask
from dcgym.tasks.placement.view import COLUMNS, Candidates, Places
from dcgym.traffic.vips import VipTable

if TYPE_CHECKING:
    from dcgym.envs.render.placement import PlacementPainter

__all__ = ["PlacementEpisode", "vip_records"]

SHOWN = ("link", "memory", "hops", "mru", "scan")
_SHOWN_AT = [COLUMNS.index(name) for name in SHOWN]
_HOPS = COLUMNS.index("hops")
_NONE = Candidates(np.empty(0, np.int32), np.empty(0, np.bool_), np.empty((0, len(COLUMNS))))


class PlacementEpisode(Episode[VipPlacementTask]):
    """VIPs of one copy that get their places, the largest first.

    Args:
        task: The task.
        model: The model, with room for this copy.
        env: Number of the copy.
        seed: Seed of the VIPs and of random orders.

    Attributes:
        model: The same.
        table: The VIPs.
        seed: The same seed.
        total_bps: Traffic of all VIPs.
        at: VIPs that have their place.
        left_bps: Traffic of those that do not.
        candidates: Switches for the next one; none where the episode is over.
        usage: How full links and tables are.
        rejected: Actions that were not feasible.
        placed_share: Bytes over all that the last step put on a switch.
        mru_rise: By how much the largest utilisation rose then.
        hops: Mean links that those bytes cross.
        was_rejected: Whether the last action was not feasible.
    """

    def __init__(self, task: VipPlacementTask, model: Placement, env: int, seed: int) -> None:
        super().__init__(task, model, env, seed)
        self.table: VipTable = task.draw_table(seed)
        self.total_bps = float(self.table.bps.sum())
        # As Python's numbers, which are read faster than NumPy's one by one.
        table = self.table
        self._order, self._bps = table.order.tolist(), table.bps.tolist()
        self._dips, self._internet = table.dips.tolist(), table.internet_bps.tolist()
        self._n_sources, self._n_racks = table.n_sources.tolist(), table.n_dip_racks.tolist()
        self.at, self.left_bps, self.rejected = 0, self.total_bps, 0
        self.placed_share = self.mru_rise = self.hops = 0.0
        self.was_rejected = False
        model.reset(env, self.table)
        self.candidates, self.usage = _NONE, model.usage(env)
        self._look()

    @property
    def is_over(self) -> bool:
        """Whether no VIP waits, or no entry of the host tables is left."""
        return not len(self.candidates.switches)

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Which actions are feasible, (N + 1,)."""
        made = np.zeros(self._task.n_candidates + 1, np.bool_)
        made[: len(self.candidates.feasible)] = self.candidates.feasible
        made[self._task.to_muxes] = True
        return made

    @property
    def metrics(self) -> tuple[float, ...]:
        """The numbers that `VipPlacementTask.metric_names` names."""
        usage = self.usage
        share = usage.placed_bps / self.total_bps if self.total_bps else 0.0
        return share, usage.link_max, usage.memory_max, float(usage.placed), float(self.rejected)

    @property
    def following(self) -> tuple[int, float, int]:
        """Number, rate in bit/s and DIPs of the VIP to be placed; -1 and zeros at the end."""
        if self.at >= len(self._order):
            return -1, 0.0, 0
        vip = self._order[self.at]
        return vip, self._bps[vip], self._dips[vip]

    @property
    def inputs(self) -> tuple[float, ...]:
        """What the reward of the last step is made of (`PlacementInputs`)."""
        return self.placed_share, self.mru_rise, self.hops, float(self.was_rejected)

    def act(self, action: Action) -> None:
        """Carry out an action; one that is not feasible leaves the VIP to the muxes.

        Args:
            action: Number of a candidate, or the one that means the muxes.
        """
        if self.is_over:
            return
        action = int(action)
        vip, candidates, usage = self._order[self.at], self.candidates, self.usage
        is_feasible = action < len(candidates.switches) and bool(candidates.feasible[action])
        self.was_rejected = action != self._task.to_muxes and not is_feasible
        self.rejected += self.was_rejected
        self.placed_share = self.hops = 0.0
        rate_bps = self._bps[vip]
        if is_feasible:
            self.model.place(self._env, vip, int(candidates.switches[action]))
            self.placed_share = rate_bps / self.total_bps if self.total_bps else 0.0
            self.hops = float(candidates.rows[action, _HOPS])
            self.usage = self.model.usage(self._env)
        self.at += 1
        self.left_bps = max(self.left_bps - rate_bps, 0.0)
        now = max(self.usage.link_max, self.usage.memory_max)
        self.mru_rise = now - max(usage.link_max, usage.memory_max)
        self._look()

    def observe(self, out: npt.NDArray[np.float32]) -> None:
        """Write the observation.

        Args:
            out: Where to, (n,).
        """
        rows = self._task.rows
        write_rows(self.candidates, out[rows.measured].reshape(rows.n_rows, rows.row_columns))
        out[rows.common] = self._common()

    def info(self) -> Info:
        """Return what is said of the VIP to be placed and of the candidates."""
        vip, rate_bps, dips = self.following
        return {
            "vip": {"number": vip, "rank": self.at, "rate_bps": rate_bps, "dips": dips},
            "candidates": self.shown(),
        }

    def records(self) -> Rows:
        """Return the VIPs: number, traffic in bit/s, DIPs, and switch or -1."""
        return vip_records(self.table, self.model.places(self._env))

    def draw(self, painter: PlacementPainter, caption: Caption) -> Picture:
        """Return a picture of what switches hold and of the loads of their links."""
        links, places = self.model.link_utilisations(self._env), self.model.places(self._env)
        return painter.draw(self.table.bps, places, links, self.usage, caption)

    def _common(self) -> list[float]:
        """Return what concerns all rows of an observation."""
        centre, usage = self._task.data_centre, self.usage
        vip, rate_bps, dips = self.following
        relative = rate_bps / (centre.rack_bps * centre.aggs)
        has = vip >= 0 and rate_bps > 0
        return [
            relative / (1 + relative),
            min(rate_bps / self.left_bps, 1.0) if has and self.left_bps > 0 else 0.0,
            min(dips / centre.switch_entries, 1.0),
            min(self._internet[vip] / rate_bps, 1.0) if has else 0.0,
            self._n_sources[vip] / centre.n_racks if has else 0.0,
            self._n_racks[vip] / centre.n_racks if has else 0.0,
            min(usage.link_max / 2, 1.0),
            min(usage.link_mean / 2, 1.0),
            min(usage.memory_max / 2, 1.0),
            min(usage.placed_bps / self.total_bps, 1.0) if self.total_bps else 0.0,
            max(1 - usage.placed / centre.host_entries, 0.0),
            1 - self.at / len(self._order),
        ]

    def shown(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what infos say of the candidates; -1 and zeros where there is none."""
        found, most = self.candidates, self._task.n_candidates
        n = len(found.switches)
        switches, values = np.full(most, -1, np.int32), np.zeros((len(SHOWN), most))
        switches[:n], values[:, :n] = found.switches, found.rows[:, _SHOWN_AT].T
        return {"switch": switches, **dict(zip(SHOWN, values, strict=True))}

    def _look(self) -> None:
        """Find the candidates of the next VIP, none where no VIP or entry is left."""
        self.candidates = _NONE
        limit = self._task.data_centre.host_entries
        if self.at < len(self._order) and self.usage.placed < limit:
            vip, most = self._order[self.at], self._task.settings.candidates
            self.candidates = self.model.candidates(self._env, vip, most, self.seed)


def vip_records(table: VipTable, places: Places) -> Rows:
    """Return VIPs: number, traffic in bit/s, DIPs, and switch.

    Args:
        table: The VIPs.
        places: Switch of each, -1 on the muxes.
    """
    kinds = [("vip", "<i8"), ("rate_bps", "<f8"), ("dips", "<i8"), ("switch", "<i4")]
    made = np.empty(len(table), kinds)
    made["vip"], made["switch"] = np.arange(len(table)), places
    made["rate_bps"], made["dips"] = table.bps, table.dips
    return made
