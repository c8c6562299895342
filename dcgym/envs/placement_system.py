"""A switch for every VIP, bound to a model of a data centre: many copies, one agent."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.envs.backends import find_object
from dcgym.envs.episode_system import EpisodeSystem
from dcgym.envs.placement_episode import PlacementEpisode
from dcgym.envs.system import Caption
from dcgym.tasks.placement.settings import VipPlacementSettings
from dcgym.tasks.placement.task import VipPlacementTask, vip_placement

__all__ = ["PlacementSystem", "placement_system"]


def placement_system(settings: VipPlacementSettings, n_envs: int = 1) -> PlacementSystem:
    """Bind the task to copies of a model; nothing is started.

    Args:
        settings: The arguments of the environment.
        n_envs: Number of copies.

    Raises:
        ConfigError: An argument is not allowed.
    """
    return PlacementSystem(vip_placement(settings), find_object(settings.backend), n_envs)


class PlacementSystem(EpisodeSystem[VipPlacementTask, PlacementEpisode]):
    """VIP placement on copies of a model."""

    def make_episode(self, env: int, seed: int) -> PlacementEpisode:
        """Draw the VIPs of a copy; all of them begin on the muxes.

        Args:
            env: Number of the copy.
            seed: Its seed.
        """
        return PlacementEpisode(self._task, self.running, env, seed)

    def flow_records(self, env: int) -> npt.NDArray[Any]:
        """Return the VIPs of a copy: number, traffic in bit/s, DIPs, and switch or -1."""
        one = self.episode(env)
        kinds = [("vip", "<i8"), ("rate_bps", "<f8"), ("dips", "<i8"), ("switch", "<i4")]
        made = np.empty(len(one.table), kinds)
        made["vip"], made["switch"] = np.arange(len(one.table)), self.running.places(env)
        made["rate_bps"], made["dips"] = one.table.bps, one.table.dips
        return made

    def render(self, env: int, caption: Caption) -> npt.NDArray[np.uint8] | None:
        """Return a picture of what switches hold and of the loads of their links."""
        if self._state is None or self._state[env] is None:
            return None
        one, places = self.episode(env), self.running.places(env)
        links = self.running.link_utilisations(env)
        return self.painter.draw(one.table.bps, places, links, one.usage, caption)
