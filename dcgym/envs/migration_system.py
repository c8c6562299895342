"""Moves of VIPs, bound to a model of a data centre: many copies, one agent."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.envs.backends import find_object
from dcgym.envs.episode_system import EpisodeSystem
from dcgym.envs.migration_episode import MigrationEpisode
from dcgym.envs.system import Caption
from dcgym.tasks.placement.migration import VipMigrationTask, vip_migration
from dcgym.tasks.placement.settings import VipMigrationSettings

__all__ = ["MigrationSystem", "migration_system"]


def migration_system(settings: VipMigrationSettings, n_envs: int = 1) -> MigrationSystem:
    """Bind the task to copies of a model; nothing is started.

    Args:
        settings: The arguments of the environment.
        n_envs: Number of copies.

    Raises:
        ConfigError: An argument is not allowed.
    """
    return MigrationSystem(vip_migration(settings), find_object(settings.backend), n_envs)


class MigrationSystem(EpisodeSystem[VipMigrationTask, MigrationEpisode]):
    """VIP migration on copies of a model."""

    copies_each = 2

    def make_episode(self, env: int, seed: int) -> MigrationEpisode:
        """Place the VIPs of a copy, and let the traffic of the next epoch come.

        Args:
            env: Number of the copy.
            seed: Its seed.
        """
        return MigrationEpisode(self._task, self.running, env, self.n_envs + env, seed)

    def flow_records(self, env: int) -> npt.NDArray[Any]:
        """Return the VIPs of a copy: number, traffic in bit/s, DIPs, and switch or -1."""
        one = self.episode(env)
        table = one.tables[min(one.at + 1, len(one.tables) - 1)]
        kinds = [("vip", "<i8"), ("rate_bps", "<f8"), ("dips", "<i8"), ("switch", "<i4")]
        made = np.empty(len(table), kinds)
        made["vip"], made["switch"] = np.arange(len(table)), self.running.places(env)
        made["rate_bps"], made["dips"] = table.bps, table.dips
        return made

    def render(self, env: int, caption: Caption) -> npt.NDArray[np.uint8] | None:
        """Return a picture of what switches hold and of the loads of their links."""
        if self._state is None or self._state[env] is None:
            return None
        one, places = self.episode(env), self.running.places(env)
        table = one.tables[min(one.at + 1, len(one.tables) - 1)]
        links = self.running.link_utilisations(env)
        return self.painter.draw(table.bps, places, links, one.usage, caption)
