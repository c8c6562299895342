"""Policies without a slow loop: the rule does everything, with weights that stay as configured.

Rules and formulas: Yao 2023, sections 5.1 and 6.4.3, and chapter 4 for Charon. With ``q`` the flows
that a balancer tracks on a server, ``Q`` the server's true queue and ``w`` its configured weight:

| policy | rule |
|---|---|
| ecmp | by hash, evenly |
| random-server, round-robin | evenly at random, in turn |
| wcmp | at random in proportion to w, by the alias method |
| lsq, lsq2 | least q, of all or of two candidates |
| gsq, gsq2 | least Q (knows the truth) |
| sed, sed2 | least (q + 1) / w |
| sed-half | least (q + 1/2) / w: the ties of sed, such as (0 + 1) / 1 = (1 + 1) / 2, go to the |
| | smaller server while it is idle |
| charon, sapp | two candidates, drawn by w or evenly; least score predicted from feedback |
| oracle, oracle2 | least remaining work with the new flow included (knows everything) |
| earliest-finish | first to be done with the new flow (knows everything) |
"""

from __future__ import annotations

import numpy as np

from dcgym.policies.balancing.base import BalancingPolicy
from dcgym.policies.base import Action, Info, Observation

__all__ = ["RandomWeightsPolicy", "RulePolicy"]


class RulePolicy(BalancingPolicy):
    """Leave it to the data plane: the weights stay as the scenario configures them."""

    def act(self, observation: Observation, info: Info) -> Action:
        """Return the configured weights.

        Args:
            observation: Not looked at.
            info: Not looked at.
        """
        return self.task.action_map.from_weights(self.task.configured_weights)


class RandomWeightsPolicy(BalancingPolicy):
    """Draw a new weight vector at every step: what a learner does before it has learned."""

    def __init__(self, seed: int = 0) -> None:
        """Seed the draws.

        Args:
            seed: Seed of the generator.
        """
        super().__init__("random", "weighted")
        self._generator = np.random.default_rng(seed)

    def act(self, observation: Observation, info: Info) -> Action:
        """Return a random action of the action space.

        Args:
            observation: Not looked at.
            info: Not looked at.
        """
        return self.task.action_map.sample(self._generator)
