"""Tasks on the flows of a network, bound to one: E copies, an agent for each of F flows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Network
from dcgym.envs.bindings.traffic import TrafficBinding
from dcgym.envs.values import Actions, FloatArray, Mask, Seen, Told
from dcgym.errors import ConfigError
from dcgym.monitors import AGENT_FLOW
from dcgym.tasks.common.actions import read_actions
from dcgym.tasks.common.states import where
from dcgym.tasks.common.statistics import safe_ratio
from dcgym.tasks.flows.interval import FlowInterval, flow_interval
from dcgym.tasks.flows.task import FlowTask
from dcgym.tasks.network.meter import Meter
from dcgym.tasks.network.protocol import NetworkCommands
from dcgym.topologies import base_rtt_ns

if TYPE_CHECKING:
    from dcgym.envs.render.rows import Rows

__all__ = ["FlowBinding"]

COUNTERS = ("clamped", "fallbacks")


class FlowBinding(TrafficBinding[FlowTask]):
    """Copies of a task on flows.

    Args:
        tasks: The task of each copy, all on the same topology.
        backend: What `read_backend` returned.

    Raises:
        ConfigError: The backend cannot do what the tasks ask for.
    """

    def __init__(self, tasks: Sequence[FlowTask], backend: object) -> None:
        first = tasks[0]
        super().__init__(tasks, backend, Meter(first.topology))
        shape = (self.n_envs, len(self.agents))
        self._seen: FlowInterval | None = None
        # Worked out once, however many agents ask.
        self._told: Told | None = None
        settings = first.settings
        self._history = np.zeros((*shape, settings.history, len(settings.features)), np.float32)
        labels = self.observation_labels
        self.state_labels = [f"{agent}.{label}" for agent in self.agents for label in labels]
        self._link_rates_bps = np.zeros(shape)
        self._base_rtt_s = base_rtt_ns(first.topology) / 1e9

    def make(self) -> Network:
        """Return networks whose flows can be steered."""
        made = super().make()
        if not made.capabilities.flow_control:
            raise ConfigError(
                "backend",
                made.name,
                "one that can steer flows (flow_control), as with the native generator",
            )
        return made

    def decode(self, actions: Actions, fresh: Mask) -> NetworkCommands:
        """Return the commands to flows that actions mean."""
        values = self._read(actions, fresh)
        assert self._seen is not None
        # Flows of a copy that has just begun are not there yet, and get no command.
        flows = np.where(fresh[:, None], np.zeros((), AGENT_FLOW), self._flows[1])
        commands = self._task.action.commands(values, flows, self._seen)
        return NetworkCommands(flow_commands=commands, lease_ns=self._task.settings.lease_ns)

    def told(self) -> Told:
        """Return the events of the interval, and what is known of each flow, (E, F)."""
        assert self._seen is not None
        if self._told is None:
            self._told = {**super().told(), **self._flow_info(self._seen)}
        return self._told

    def _drawn_bars(self) -> list[Rows]:
        from dcgym.envs.render.rows import RATES, Rows

        title = "rate of each agent's flow over its sender's link"
        return [Rows(title, tuple(self.agents), None, RATES, "rate over the link's")]

    def _drawn_values(self, env: int) -> list[FloatArray]:
        assert self._seen is not None
        rates_bps, links_bps = self._seen.rate_bps[env], self._link_rates_bps[env]
        return [np.clip(safe_ratio(rates_bps, links_bps, 0.0), 0, 1)]

    def _flow_info(self, seen: FlowInterval) -> dict[str, npt.NDArray[np.generic]]:
        counters = {name: self._flows[1][name].astype(np.int64) for name in COUNTERS}
        return {
            "is_open": seen.is_open,
            "flow_rate_bps": seen.rate_bps,
            "flow_rtt_us": seen.rtt_s * 1e6,
            "flow_cwnd": seen.cwnd,
            **counters,
        }

    @property
    def _flows(self) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
        """The flows when the last interval began, and when it ended, (E, F)."""
        before, after = (state.flows for state in self.last_states)
        assert before is not None and after is not None
        return before, after

    def _read(self, actions: Actions, fresh: Mask) -> FloatArray:
        """Return the actions of all flows, (E, F); 0 in fresh copies."""
        shape = (len(self.agents), 1)
        values = np.zeros((self.n_envs, len(self.agents)))
        others = np.flatnonzero(~fresh)
        if len(others):
            own = read_actions([actions[env] for env in others.tolist()], shape)
            if not np.isfinite(own).all():
                raise ConfigError("action", own.tolist(), f"finite numbers of shape {shape[1:]}")
            values[others] = own[..., 0]
        return values

    def measure(self, mask: Mask | None, *, is_first: bool = False) -> Seen:
        """Measure what the network and the flows of some copies did."""
        made = self._meter.measure(self._traffic)
        self._note(made, mask)
        chosen = np.ones(self.n_envs, np.bool_) if mask is None else mask
        if is_first:
            self._begin_flows(chosen)
        before, after = self._flows
        last, links_bps = self._seen, self._link_rates_bps
        seen = flow_interval(before, after, made.duration_s, links_bps, self._base_rtt_s, last)
        self._seen = seen if mask is None else where(mask, seen, last)
        features = self._task.observe(self._seen).astype(np.float32)
        shifted = np.concatenate([self._history[:, :, 1:], features[:, :, None]], axis=2)
        self._history = np.where(chosen[:, None, None, None], shifted, self._history)
        self._told = None
        shape = self.n_envs, len(self.agents), -1
        return self._history.reshape(shape), self._task.reward.terms(self._seen)

    def _begin_flows(self, begun: Mask) -> None:
        """Forget the flows of the last episode of some copies."""
        self._history = np.where(begun[:, None, None, None], np.float32(0), self._history)
        for env in np.flatnonzero(begun):
            self._link_rates_bps[env] = self.tasks[env].link_rates_bps()
