"""The episode of one copy of DIP placement: which VIP, which racks, and what the last one did."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.backends.mappings import LocalityOutcome, evaluate_mappings
from dcgym.backends.placement import Placement
from dcgym.envs.bindings.episodes import Action, Episode
from dcgym.envs.values import Caption, Info, Picture, Rows
from dcgym.tasks.placement.dips import DIP_ROWS, DipPlacementTask
from dcgym.tasks.placement.mappings import LocalMappings
from dcgym.tasks.placement.view import Usage

if TYPE_CHECKING:
    from typing_extensions import Self

    from dcgym.envs.render.placement import PlacementPainter

__all__ = ["DipEpisode"]

SHOWN = ("rack", "bps", "needed", "here", "arriving")


class DipEpisode(Episode[DipPlacementTask]):
    """VIPs of one copy that get their local mappings, callers first.

    Args:
        task: The task.
        model: Where residual mappings are placed.
        env: Number of the copy.
        seed: Seed of the VIPs.

    Attributes:
        state: DIPs and local mappings.
        seed: The same seed.
        at: VIPs that are done.
        rejected: Actions that were not feasible.
        outcome: What all mappings lead to; None before the end.
    """

    def __init__(self, task: DipPlacementTask, model: Placement, env: int, seed: int) -> None:
        super().__init__(task, model, env, seed)
        self.state: LocalMappings = task.draw_mappings(seed)
        self.at = self.rejected = 0
        services = self.state.services
        self._order = np.concatenate(services.levels()).tolist()
        self._total_bps = float(services.bps.sum())
        self._moves, self._local_bps = max(self.state.moves_left, 1), 0.0
        self._inputs = (0.0, 0.0, 0.0, 0.0, 0.0)
        self.outcome: LocalityOutcome | None = None
        self._demand = np.empty(0)
        self._racks: list[int] = []
        self._donors: list[dict[int, int] | None] = []
        self._local_of_vip = 0.0
        self._look()

    def moved(self, model: Placement) -> Self:
        """Return a second episode that goes on from here in another model.

        Args:
            model: A copy of the model.
        """
        made = super().moved(model)
        made.state = copy.deepcopy(self.state)
        return made

    @property
    def is_over(self) -> bool:
        """Whether no VIP with a feasible candidate is left."""
        return self.outcome is not None

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Which actions are feasible, (N + 1,)."""
        made = np.zeros(self._task.n_candidates + 1, np.bool_)
        made[: len(self._donors)] = [one is not None for one in self._donors]
        made[self._task.to_next] = True
        return made

    @property
    def metrics(self) -> tuple[float, ...]:
        """The numbers that `DipPlacementTask.metric_names` names."""
        local = self._local_bps / self._total_bps if self._total_bps else 0.0
        moved, end = self.state.moved / float(self.state.n_dips.sum()), (0.0, 0.0, 0.0)
        if self.outcome is not None:
            found = self.outcome.metrics
            end = (found["mlu"], found["hops"], found["switch_share"])
        return local, moved, *end, float(self.rejected)

    @property
    def inputs(self) -> tuple[float, ...]:
        """What the reward of the last step is made of (`DipInputs`)."""
        return self._inputs

    def act(self, action: Action) -> None:
        """Carry out an action; one that is not feasible goes on with the next VIP.

        Args:
            action: Number of a candidate, or the one that means the next VIP.
        """
        if self.is_over:
            return
        action, state = int(action), self.state
        donors = self._donors[action] if action < len(self._donors) else None
        is_rejected = action != self._task.to_next and donors is None
        self.rejected += is_rejected
        gained, before = 0.0, state.moved
        if donors is not None:
            vip, rack = self._order[self.at], self._racks[action]
            gained = float(self._demand[rack])
            state.localise(vip, rack, gained, donors)
            self._local_bps += gained
            self._local_of_vip += gained
            self._find()
        if donors is None or not any(one is not None for one in self._donors):
            self.at += 1
            self._look()
        share = gained / self._total_bps if self._total_bps else 0.0
        moved = (state.moved - before) / float(state.n_dips.sum())
        end = (0.0, 0.0)
        if self.outcome is not None:
            end = (self.outcome.metrics["mlu"], self.outcome.metrics["hops"])
        self._inputs = (share, moved, *end, float(is_rejected))

    def observe(self, out: npt.NDArray[np.float32]) -> None:
        """Write the observation.

        Args:
            out: Where to, (n,).
        """
        rows = self._task.rows
        table = np.zeros((rows.n_rows, len(DIP_ROWS)))
        state, centre = self.state, self._task.data_centre
        table[self._task.to_next, -1] = 1.0
        if not self.is_over and self._racks:
            vip, mean = self._order[self.at], self._total_bps / centre.n_racks
            shown, n, racks = self._columns(), len(self._racks), self._racks
            ratio = shown["bps"] / mean
            n_dips, entries = float(state.n_dips[vip]), centre.switch_entries
            slots = centre.servers_per_rack * state.limits.vms_per_server
            columns = (
                *(ratio / (1 + ratio), shown["bps"] / float(state.services.bps[vip])),
                *(shown["needed"] / n_dips, shown["here"] / n_dips),
                shown["arriving"] / max(state.moves_left, 1),
                *(shown["needed"] / entries, state.free_entries[racks] / entries),
                state.free_slots[racks] / slots,
                np.array([one is not None for one in self._donors], float),
            )
            table[:n] = np.array(columns).T
        out[rows.measured] = np.minimum(table, 1.0).ravel()
        out[rows.common] = np.minimum(self._common(), 1.0)

    def info(self) -> Info:
        """Return what is said of the present VIP and of the candidates."""
        services, most = self.state.services, self._task.n_candidates
        vip = -1 if self.is_over else self._order[self.at]
        has = vip >= 0
        made = {name: np.zeros(most) for name in SHOWN}
        made["rack"] = np.full(most, -1.0)
        for name, values in self._columns().items():
            made[name][: len(values)] = values
        return {
            "vip": {
                "number": vip,
                "rank": self.at,
                "level": int(services.level[vip]) if has else 0,
                "rate_bps": float(services.bps[vip]) if has else 0.0,
                "dips": int(self.state.n_dips[vip]) if has else 0,
            },
            "candidates": {**made, "rack": made["rack"].astype(np.int32)},
            "seed": self.seed,
        }

    def records(self) -> Rows:
        """Return the VIPs: number, traffic in bit/s, DIPs, racks with a local mapping."""
        state = self.state
        kinds = [("vip", "<i8"), ("rate_bps", "<f8"), ("dips", "<i8"), ("local_racks", "<i8")]
        made = np.empty(len(state.dips), kinds)
        made["vip"], made["rate_bps"] = np.arange(len(made)), state.services.bps
        made["dips"], made["local_racks"] = state.n_dips, [len(one) for one in state.local]
        return made

    def draw(self, painter: PlacementPainter, caption: Caption) -> Picture:
        """Return a picture of local bytes of racks; at the end of residual mappings and links."""
        state, centre, outcome = self.state, self._task.data_centre, self.outcome
        rates, places = list[float](), list[int]()
        for vip, local in enumerate(state.local):
            demand = state.demand(vip) if local else np.empty(0)
            places.extend(local)
            rates.extend(float(demand[rack]) for rack in local)
        links = np.zeros(centre.n_links)
        if outcome is None:
            rates.append(float(state.services.bps.sum()) - sum(rates))
            places.append(-1)
        else:
            links = outcome.residual.link_bps / (centre.link_bps * (1 - centre.reserve))
            rates.extend(state.residual().table.bps.tolist())
            places.extend(outcome.places.tolist())
        held, on = np.array(rates), np.array(places, np.int32)
        placed = on >= 0
        usage = Usage(
            float(links.max()), float(links.mean()), 0.0, int(placed.sum()), held[placed].sum()
        )
        return painter.draw(held, on, links, usage, caption, "mappings")

    def _columns(self) -> dict[str, npt.NDArray[np.float64]]:
        """Return what `SHOWN` names, of each candidate."""
        if self.is_over or not self._racks:
            return {}
        vip, racks = self._order[self.at], self._racks
        bps, free = self._demand[racks], self.state.residual_dips(vip)
        needed = np.array([self.state.dips_for(vip, float(one)) for one in bps], float)
        here = np.array([free.get(rack, 0) for rack in racks], float)
        values = (np.array(racks, float), bps, needed, here, np.maximum(needed - here, 0))
        return dict(zip(SHOWN, values, strict=True))

    def _common(self) -> list[float]:
        state, services = self.state, self.state.services
        local = self._local_bps / self._total_bps if self._total_bps else 0.0
        entries = self._task.data_centre.switch_entries
        of_all = (
            *(local, state.moves_left / self._moves),
            *(float(state.free_entries.mean()) / entries, 1 - self.at / len(self._order)),
        )
        if self.is_over:
            return [0.0] * 6 + [*of_all]
        vip = self._order[self.at]
        bps, level = float(services.bps[vip]), float(services.level[vip])
        relative = bps / self._total_bps * len(self._order)
        n_residual = sum(state.residual_dips(vip).values())
        left = max(bps - self._local_of_vip, 0.0)
        return [
            relative / (1 + relative),
            float(services.table.internet_bps[vip]) / bps,
            self._local_of_vip / bps,
            float(state.n_dips[vip]) / entries,
            left / (n_residual * float(state.dip_bps[vip])) if n_residual else 0.0,
            level / (1 + level),
            *of_all,
        ]

    def _look(self) -> None:
        """Go on to a VIP with a feasible candidate; at the end place residual mappings."""
        while self.at < len(self._order):
            vip = self._order[self.at]
            self._demand, self._local_of_vip = self.state.demand(vip), 0.0
            self._find()
            if any(one is not None for one in self._donors):
                return
            self.at += 1
        self._racks, self._donors = [], []
        self.outcome = evaluate_mappings(self.state, self.model, self._env)

    def _find(self) -> None:
        """Find the candidates of the present VIP, and the DIPs that each would get."""
        vip, demand = self._order[self.at], self._demand
        sending = demand.copy()
        sending[list(self.state.local[vip])] = 0.0
        order = np.argsort(-sending, kind="stable")[: self._task.n_candidates]
        self._racks = order[sending[order] > 0].tolist()
        self._donors = [self.state.donors(vip, rack, demand) for rack in self._racks]
