"""The balancing twin with somebody outside who places every flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.backends.simulation.balancing import CAPABILITIES, LONGEST_DRAIN_NS, BalancingTwin
from dcgym.config import check_int
from dcgym.errors import ConfigError

__all__ = ["ASSIGNMENT_CAPABILITIES", "AssignmentTwin"]

ASSIGNMENT_CAPABILITIES = replace(CAPABILITIES, assignments=True)

_Mask = npt.NDArray[np.bool_] | None


class AssignmentTwin(BalancingTwin):
    """A `BalancingTwin` whose new flows can wait for their servers: an `AssignmentPool`.

    Until `hold_flows` it is nothing else. Shapes use E environments, N servers.
    """

    capabilities = ASSIGNMENT_CAPABILITIES
    _choices: Mapping[str, npt.NDArray[Any]]

    def reset(self, seeds: int | Sequence[int] | npt.ArrayLike, mask: _Mask = None) -> None:
        """Begin anew (`BalancingTwin.reset`): no flow waits.

        Args:
            seeds: One seed per environment, shape (E,), or a single one.
            mask: Which environments to reset, shape (E,); None for all.
        """
        super().reset(seeds, mask)
        self._choices = self._twin.choices()

    def hold_flows(self, most: int | None, mask: _Mask = None) -> None:
        """Let every new flow wait from now on until `assign` names its server; follows a reset.

        The first flow that comes is the first thing that is seen: events count from there.
        A flow that finds no free entry of the flow table follows the hash, and does not wait.

        Args:
            most: Flows that arrive; None for no end.
            mask: Which environments, shape (E,); None for all.
        """
        limit = 0 if most is None else check_int("most", most, 1, 2**53)
        self._twin.hold_flows(limit, self._mask(mask))

    def assign(self, servers: npt.ArrayLike | None, mask: _Mask = None) -> None:
        """Put the flow that has waited longest on a server, and run until one waits again.

        Where none waits it just runs; where no other comes it runs until the last one is done, for
        30 days at most. A server that is not there loses the flow.

        Args:
            servers: Numbers, shape (E,); None for those that the balancers' rules choose.
            mask: Which environments, shape (E,); None for all.

        Raises:
            ConfigError: There is no such server.
            BackendError: Over 16 million flows are in flight.
        """
        numbers = np.full(self.n_envs, -1, np.int32)
        if servers is not None:
            given = np.asarray(servers)
            is_known = given.shape == (self.n_envs,) and given.dtype.kind in "iu"
            if not is_known or (given < 0).any() or (given >= self.n_servers).any():
                allowed = f"{self.n_envs} numbers of servers, 0 to {self.n_servers - 1}"
                raise ConfigError("servers", servers, allowed)
            numbers[:] = given
        self._twin.assign(numbers, LONGEST_DRAIN_NS, self._mask(mask))
        self._choices = self._twin.choices()
        self._reached_ns = self._choices["time_ns"]

    def choices(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return what is known where flows wait, as `reset` or `assign` left it.

        Returns:
            time_ns: (E,) int64, the time; begun_ns: when the first flow came, which the times of
                events count from, -1 before it.
            waits: (E,) bool, whether a flow waits for `assign`.
            demand_ns: (E,) int64, its work at speed 1, all stages; 0 where none waits.
            flow_time_ns: (E,) int64, integral over time of the flows under way, since the reset.
            under_way: (E,) int64, flows that have arrived and whose end is not known.
            ended: (E,) int64, flows that have completed; ended_after_ns: sum of their times.
            failed: (E,) int64, flows that were rejected, reset or lost.
            assigned: (E, N) int64, flows at each server, and on their way to it.
            waiting_ns: (E, N) int64, their work that is not in service yet, at speed 1.
            in_service_ns: (E, N) float64, work in service over the server's full speed.
            remaining_ns: (E, N) float64, all their work over the server's full speed.
            eligible: (E, N) bool, servers that take new flows.
        """
        return self._choices

    def _elapsed_ns(self, env: int) -> int:
        begun_ns = int(self._choices["begun_ns"][env])
        return -1 if begun_ns < 0 else super()._elapsed_ns(env) - begun_ns
