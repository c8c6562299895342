"""Local mappings and DIPs, bound to a model of a data centre: many copies, one agent."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.envs.backends import find_object
from dcgym.envs.dip_episode import DipEpisode
from dcgym.envs.episode_system import EpisodeSystem
from dcgym.envs.system import Caption
from dcgym.tasks.placement.dips import DipPlacementTask, dip_placement
from dcgym.tasks.placement.settings import DipPlacementSettings
from dcgym.tasks.placement.view import Usage

__all__ = ["DipSystem", "dip_system"]


def dip_system(settings: DipPlacementSettings, n_envs: int = 1) -> DipSystem:
    """Bind the task to copies of a model; nothing is started.

    Args:
        settings: The arguments of the environment.
        n_envs: Number of copies.

    Raises:
        ConfigError: An argument is not allowed.
    """
    return DipSystem(dip_placement(settings), find_object(settings.backend), n_envs)


class DipSystem(EpisodeSystem[DipPlacementTask, DipEpisode]):
    """DIP placement on copies of a model."""

    def make_episode(self, env: int, seed: int) -> DipEpisode:
        """Draw the VIPs of a copy; none of them has a local mapping.

        Args:
            env: Number of the copy.
            seed: Its seed.
        """
        return DipEpisode(self._task, self.running, env, seed)

    def flow_records(self, env: int) -> npt.NDArray[Any]:
        """Return the VIPs of a copy: number, traffic in bit/s, DIPs, racks with a local mapping."""
        state = self.episode(env).state
        kinds = [("vip", "<i8"), ("rate_bps", "<f8"), ("dips", "<i8"), ("local_racks", "<i8")]
        made = np.empty(len(state.dips), kinds)
        made["vip"], made["rate_bps"] = np.arange(len(made)), state.services.bps
        made["dips"], made["local_racks"] = state.n_dips, [len(one) for one in state.local]
        return made

    def render(self, env: int, caption: Caption) -> npt.NDArray[np.uint8] | None:
        """Return a picture of local bytes of racks; at the end of residual mappings and links."""
        if self._state is None or self._state[env] is None:
            return None
        one, centre = self.episode(env), self._task.data_centre
        rates, places = list[float](), list[int]()
        for vip, local in enumerate(one.state.local):
            demand = one.state.demand(vip) if local else np.empty(0)
            places.extend(local)
            rates.extend(float(demand[rack]) for rack in local)
        rest = float(one.state.services.bps.sum()) - sum(rates)
        links = np.zeros(centre.n_links)
        if one.outcome is None:
            rates.append(rest)
            places.append(-1)
        else:
            links = one.outcome.residual.link_bps / (centre.link_bps * (1 - centre.reserve))
            rates.extend(one.state.residual().table.bps.tolist())
            places.extend(one.outcome.places.tolist())
        held, on = np.array(rates), np.array(places, np.int32)
        placed = on >= 0
        usage = Usage(
            float(links.max()), float(links.mean()), 0.0, int(placed.sum()), held[placed].sum()
        )
        return self.painter.draw(held, on, links, usage, caption, "mappings")
