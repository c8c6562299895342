"""What runs of DIP placement and of VIP migration record."""

from __future__ import annotations

import numpy as np

from dcgym.envs.bindings.dips import DipEpisode
from dcgym.suites.recorders.base import Columns, Outcome, Recorder, episode_of, split_columns
from dcgym.suites.statistics import mean_of

__all__ = ["DipRecorder", "MigrationRecorder"]


class DipRecorder(Recorder):
    """Records a run of DIP placement: what all mappings lead to."""

    def finish(self, columns: Columns) -> Outcome:
        """Return what the mappings lead to; nothing of links where the episode did not end.

        Args:
            columns: The steps, one array a quantity.
        """
        system = self.system
        one = episode_of(system, DipEpisode)
        metrics = {
            "reward_mean": mean_of(columns["reward"]),
            "return": float(columns["reward"].sum()),
            **dict(zip(system.task().metric_names, map(float, one.metrics), strict=True)),
            **({} if one.outcome is None else one.outcome.metrics),
        }
        return Outcome(metrics, split_columns(system.flow_records(0)), self.session.fidelity(0))


class MigrationRecorder(Recorder):
    """Records a run of VIP migration: means over its epochs, and the worst of them."""

    def finish(self, columns: Columns) -> Outcome:
        """Return means over the epochs.

        Args:
            columns: The steps, one array a quantity.
        """
        system = self.system
        metrics = {
            "reward_mean": mean_of(columns["reward"]),
            "return": float(columns["reward"].sum()),
            **{name: mean_of(columns[name]) for name in system.task().metric_names},
            "switch_share_min": float(np.min(columns["switch_share"])),
            "moved_share_max": float(np.max(columns["moved_share"])),
            "muxes_max": float(np.max(columns["muxes"])),
        }
        return Outcome(metrics, split_columns(system.flow_records(0)), self.session.fidelity(0))
