"""The episode of one copy of VIP migration: places, the next epoch, and what the last one did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.backends.placement import Placement
from dcgym.envs.bindings.episodes import Action, Episode
from dcgym.envs.bindings.placement import vip_records
from dcgym.envs.values import Caption, Info, Picture, Rows
from dcgym.tasks.placement.migration import AFRESH, MARGINS, STAY, VipMigrationTask
from dcgym.tasks.placement.muxes import muxes_needed
from dcgym.tasks.placement.view import AssignmentRule, Places, Transition, Usage
from dcgym.traffic.vips import VipTable

if TYPE_CHECKING:
    from dcgym.envs.render.placement import PlacementPainter

__all__ = ["MigrationEpisode"]

SHOWN = ("vip", "bytes", "here", "there")


class MigrationEpisode(Episode[VipMigrationTask]):
    """VIPs of one copy from epoch to epoch.

    Two copies of the model belong to it: one holds the VIPs, and one in its second half tries
    assignments.

    Args:
        task: The task.
        model: The model.
        env: Number of the copy that holds the VIPs.
        seed: Seed of the VIPs and of random orders.

    Attributes:
        tables: VIPs of each epoch.
        seed: The same seed.
        at: Epochs that are over.
        transition: How VIPs moved in the last one; None before the first.
        usage: How full links and tables are.
    """

    copies_each = 2

    def __init__(self, task: VipMigrationTask, model: Placement, env: int, seed: int) -> None:
        super().__init__(task, model, env, seed)
        self._trial = model.n_envs // 2 + env
        self.tables, self.at = task.draw_tables(seed), 0
        self.transition: Transition | None = None
        self._metrics: tuple[float, ...] = (0.0,) * len(task.metric_names)
        self._inputs: tuple[float, ...] = (0.0,) * 5
        self._places = self._tried(task.rule(AFRESH, seed), None, 0)
        # What One-time goes back to, whatever fits at the moment.
        self._wanted = self._places
        model.reset(env, self.tables[0])
        model.migrate(env, self._places)
        self.usage: Usage = model.usage(env)
        self._look()

    @property
    def is_over(self) -> bool:
        """Whether no epoch is left."""
        return self.at >= len(self.tables) - 1

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Which actions are feasible: of a margin (8,); of VIPs (2 N,), stay and move of each."""
        if not self._task.chooses_vips:
            return np.ones(len(MARGINS), np.bool_)
        made = np.ones((self._task.n_candidates, 2), np.bool_)
        made[len(self._candidates) :, 1] = False
        return made.ravel()

    @property
    def metrics(self) -> tuple[float, ...]:
        """The numbers that `VipMigrationTask.metric_names` names."""
        return self._metrics

    @property
    def inputs(self) -> tuple[float, ...]:
        """What the reward of the last step is made of (`MigrationInputs`)."""
        return self._inputs

    def act(self, action: Action) -> None:
        """Move VIPs as an action says, in two waves.

        Args:
            action: Number of a margin, or 0 or 1 for each candidate.
        """
        if self.is_over:
            return
        model, number = self.model, self.at + 1
        if self._task.chooses_vips:
            moves = np.flatnonzero(np.asarray(action)[: len(self._candidates)])
            wanted = self._wanted.copy()
            wanted[self._candidates[moves]] = self._afresh[self._candidates[moves]]
            after = self._tried(self._task.rule(STAY, 0), wanted, number)
            self._wanted = wanted
        elif int(action) == STAY:
            after = self._stay
        elif int(action) == AFRESH:
            after = self._wanted = self._afresh
        else:
            rule = self._task.rule(int(action), self.seed + number)
            after = self._wanted = self._tried(rule, self._places, number)
        keeps = self._task.chooses_vips or int(action) == STAY
        refused = int(((self._wanted >= 0) & (after < 0)).sum()) if keeps else 0
        self.transition = model.migrate(self._env, after)
        self._places, self.usage = model.places(self._env), model.usage(self._env)
        self._record(refused + len(self.transition.refused))
        self.at = number
        self._look()

    def observe(self, out: npt.NDArray[np.float32]) -> None:
        """Write the observation.

        Args:
            out: Where to, (n,).
        """
        rows = self._task.places
        out[rows.measured] = 0.0
        if not self.is_over and len(self._candidates):
            found = self._rows()
            out[: found.size] = np.minimum(found, 1.0).ravel()
        out[rows.common] = np.minimum(self._common(), 1.0)

    def info(self) -> Info:
        """Return what is said of the candidates."""
        most, own = self._task.n_candidates, self._candidates
        made = {name: np.full(most, -1, np.int32) for name in ("vip", "here", "there")}
        share = np.zeros(most)
        if not self.is_over:
            n = len(own)
            made["vip"][:n], made["here"][:n] = own, self._places[own]
            made["there"][:n] = self._afresh[own]
            table = self.tables[self.at + 1]
            share[:n] = table.bps[own] / max(float(table.bps.sum()), 1.0)
        return {"candidates": {**made, "bytes": share}, "epoch": self.at}

    def records(self) -> Rows:
        """Return the VIPs: number, traffic in bit/s, DIPs, and switch or -1."""
        return vip_records(self._present, self.model.places(self._env))

    def draw(self, painter: PlacementPainter, caption: Caption) -> Picture:
        """Return a picture of what switches hold and of the loads of their links."""
        links, places = self.model.link_utilisations(self._env), self.model.places(self._env)
        return painter.draw(self._present.bps, places, links, self.usage, caption)

    @property
    def _present(self) -> VipTable:
        """The VIPs with the traffic that comes."""
        return self.tables[min(self.at + 1, len(self.tables) - 1)]

    def _tried(self, rule: AssignmentRule, before: Places | None, number: int) -> Places:
        """Return where a rule puts the VIPs of an epoch."""
        self.model.reset(self._trial, self.tables[number])
        self.model.assign(self._trial, rule, before)
        return self.model.places(self._trial)

    def _look(self) -> None:
        """Let the next epoch's traffic come: VIPs are where they were, and some may not fit."""
        self._candidates = np.empty(0, np.int64)
        if self.is_over:
            return
        model, number = self.model, self.at + 1
        table = self.tables[number]
        self._afresh = self._tried(self._task.rule(AFRESH, self.seed + number), None, number)
        self._afresh_usage = model.usage(self._trial)
        self._stay = self._tried(self._task.rule(STAY, 0), self._wanted, number)
        model.reset(self._env, table)
        for vip in np.flatnonzero(self._places >= 0).tolist():
            model.place(self._env, vip, int(self._places[vip]))
        self.usage = model.usage(self._env)
        moves = np.flatnonzero(self._afresh != self._places)
        order = np.argsort(-table.bps[moves], kind="stable")
        self._candidates = moves[order][: self._task.n_candidates]

    def _record(self, refused: int) -> None:
        """Work out what the last moves led to."""
        table, centre = self.tables[self.at + 1], self._task.data_centre
        total = max(float(table.bps.sum()), 1.0)
        leaving = () if self.transition is None else self.transition.withdrawn
        transit_bps = float(table.bps[list(leaving)].sum())
        muxes = muxes_needed(
            max(total - self.usage.placed_bps, 0.0), 0.0, transit_bps, centre.mux_bps
        )
        share, moved = min(self.usage.placed_bps / total, 1.0), transit_bps / total
        link, memory = self.usage.link_max, self.usage.memory_max
        self._metrics = (share, moved, link, memory, float(muxes), float(refused))
        alone = max(muxes_needed(total, 0.0, 0.0, centre.mux_bps), 1)
        inputs = (share, moved, max(link, memory), muxes / alone, float(refused))
        self._inputs = tuple(one / (len(self.tables) - 1) for one in inputs)

    def _rows(self) -> npt.NDArray[np.float64]:
        own, centre = self._candidates, self._task.data_centre
        table, before = self.tables[self.at + 1], self.tables[self.at]
        ratio = table.bps[own] / max(float(table.bps.mean()), 1.0)
        grew = table.bps[own] / np.maximum(before.bps[own], 1.0)
        here, there = self._places[own], self._afresh[own]
        links, fullest = self.model.link_utilisations(self._env), np.zeros(centre.n_switches + 1)
        for ends in centre.link_ends:
            np.maximum.at(fullest, ends, links)
        on = self._places >= 0
        held = np.bincount(self._places[on], table.dips[on], centre.n_switches + 1)
        memory = held / centre.switch_entries
        # The number -1, the muxes, reads the zero at the end.
        columns = (
            *(ratio / (1 + ratio), grew / (1 + grew), table.dips[own] / centre.switch_entries),
            *(here >= 0, there >= 0, self._stay[own] == here),
            *(fullest[here] / 2, fullest[there] / 2, memory[here] / 2, memory[there] / 2),
            np.ones(len(own)),
        )
        return np.array(columns, np.float64).T

    def _common(self) -> list[float]:
        n = len(self.tables) - 1
        if self.is_over:
            return [0.0] * 6 + [float((self._places >= 0).mean()), 0.0, 0.0]
        table, first = self.tables[self.at + 1], self.tables[0]
        total = max(float(table.bps.sum()), 1.0)
        ratio = total / max(float(first.bps.sum()), 1.0)
        stays, moves = self._stay >= 0, (self._afresh != self._places) & (self._places >= 0)
        return [
            self.usage.link_max / 2,
            self.usage.memory_max / 2,
            float(table.bps[stays].sum()) / total,
            self._afresh_usage.link_max / 2,
            self._afresh_usage.placed_bps / total,
            float(table.bps[moves].sum()) / total,
            float((self._places >= 0).mean()),
            ratio / (1 + ratio),
            1 - self.at / n,
        ]
