"""The policy of MaskablePPO, over rows where there are any."""

from __future__ import annotations

from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

from dcgym.policies.learned.sb3.network import RowHeads

__all__ = ["RowMaskablePolicy"]


class RowMaskablePolicy(RowHeads, MaskableActorCriticPolicy):
    """Actor and critic of MaskablePPO: infeasible actions have no probability."""
