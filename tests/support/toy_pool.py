"""A toy pool of its own: queues without a network, for environments on pools in every form."""

from __future__ import annotations

from typing import Any

import numpy as np

from dcgym.backends.base import Capabilities, Mask, TimeArray
from dcgym.backends.commands import check_eligible, read_seeds, rule_names
from dcgym.backends.needs import PoolNeeds
from dcgym.backends.options import BackendOptions
from dcgym.backends.records import FIDELITY, FLOWS, OPEN_FLOWS, SUMMARY, Fidelity, RecordKind
from dcgym.backends.registry import POOLS, Maker
from dcgym.tasks.balancing.arrivals import draw_arrivals
from dcgym.tasks.balancing.protocol import PoolCommands, PoolState, PoolSummary, PoolTruth, PoolView
from dcgym.tasks.balancing.records import UNDER_WAY, planned_flows
from dcgym.tasks.balancing.weights import check_weights


class ToyPool:
    name = "toy"
    capabilities = Capabilities(
        copies=100, copyable=True, eligible=True, draws_ahead=True, rules=("weighted", "sed")
    )

    def __init__(self, needs: PoolNeeds, n_envs: int, options: BackendOptions) -> None:
        self._needs, self._scenario = needs, needs.scenario
        groups = self._scenario.server_groups
        self._speeds = np.array([group.resources[0].capacity for group in groups])
        self._configured = np.array([group.configured_weight for group in groups], float)
        self._shape = (n_envs, self._scenario.balancers, self._scenario.n_servers)
        self._now_ns, self._taken_ns = np.zeros((2, n_envs), np.int64)
        self._weights, self._learns = np.ones(self._shape), np.ones((self._shape[1], 1), bool)
        self._eligible = np.ones((n_envs, self._shape[2]), bool)
        self._flows = [planned_flows(self._scenario, draw_arrivals(self._scenario, 0, 0))] * n_envs

    def reset(self, episodes: Any) -> None:
        seeds, begun = read_seeds(episodes, self._shape[0])
        for env in np.flatnonzero(begun):
            drawn = draw_arrivals(self._scenario, int(seeds[env]), self._needs.horizon_ns)
            flows = self._flows[env] = planned_flows(self._scenario, drawn)
            flows["balancer"] = flows["flow"] % self._shape[1]
            self._now_ns[env] = self._taken_ns[env] = 0
            self._weights[env], self._eligible[env] = 1.0, True

    def apply(self, commands: PoolCommands, mask: Mask | None = None) -> TimeArray:
        chosen = slice(None) if mask is None else mask
        rules = commands.rules and rule_names(commands.rules, self._shape[1])
        if commands.weights is not None:
            self._weights[chosen] = check_weights(commands.weights, self._shape)[chosen]
        if commands.eligible is not None:
            self._eligible[chosen] = check_eligible(commands.eligible, *self._shape[::2])[chosen]
        if rules is not None:
            self._learns = np.array(rules)[:, None] == "weighted"
        return self._now_ns.copy()

    def advance(self, until_ns: Any) -> TimeArray:
        self._now_ns = np.maximum(self._now_ns, until_ns)
        for env, flows in enumerate(self._flows):
            due = np.searchsorted(flows["arrival_ns"], self._now_ns[env], side="right")
            for number in np.flatnonzero(flows["end_ns"][:due] == 0):
                self._place(flows[number], flows[:number], self._in_force[env], self._eligible[env])
        return np.zeros_like(self._now_ns)

    def _place(self, flow: Any, before: Any, weights: Any, eligible: Any) -> None:
        queued = before[before["end_ns"] > flow["arrival_ns"]]
        own = queued["server"][queued["balancer"] == flow["balancer"]]
        delays = (np.bincount(own, minlength=len(eligible)) + 1) / weights[flow["balancer"]]
        flow["server"] = server = np.where(eligible, delays, np.inf).argmin()
        flow["served_ns"] = max([flow["arrival_ns"], *queued["end_ns"][queued["server"] == server]])
        flow["end_ns"] = flow["served_ns"] + flow["demand_ns"].sum() / self._speeds[server]

    @property
    def _in_force(self) -> Any:
        weights = np.where(self._learns, self._weights, self._configured)
        return weights / weights.max(axis=-1, keepdims=True)

    def read(self, mask: Mask | None = None) -> PoolState:
        seen, left_ns, now_ns = PoolView.blank(*self._shape), np.zeros(self._shape), self._now_ns
        seen.eligible, seen.weights = seen.eligible & self._eligible[:, None], self._in_force
        ended, none = np.zeros((2, len(now_ns)), np.int64), np.zeros(len(now_ns), np.int64)
        for env, flows in enumerate(map(self._arrived, range(len(now_ns)))):
            at, is_open = (flows["balancer"], flows["server"]), flows["outcome"] == UNDER_WAY
            np.add.at(seen.flows[env], at, 1)
            np.add.at(seen.ongoing[env], at, is_open)
            ended[:, env] = sum(~is_open), (flows["end_ns"] - flows["arrival_ns"])[~is_open].sum()
            work_ns = flows["demand_ns"].sum(axis=1) / self._speeds[flows["server"]]
            np.add.at(left_ns[env], at, np.where(is_open, work_ns, 0))
        seen.completed, queue = seen.flows - seen.ongoing, seen.ongoing.sum(axis=1)
        busy, capacity = np.minimum(queue, 1), np.broadcast_to(self._speeds, queue.shape)
        work = queue, queue, busy, left_ns.sum(axis=1), capacity, left_ns
        return PoolState(now_ns.copy(), seen, PoolTruth(*work, *ended, none, none))

    def _arrived(self, env: int) -> Any:
        flows, now_ns = self._flows[env][self._flows[env]["end_ns"] > 0], self._now_ns[env]
        is_open = flows["end_ns"] > now_ns
        flows["outcome"][is_open], flows["end_ns"][is_open] = UNDER_WAY, now_ns
        return flows

    def records(self, kind: RecordKind[Any], env: int = 0) -> Any:
        flows, now_ns, first_ns = self._arrived(env), self._now_ns[env], self._needs.warm_up_ns
        flows = flows[flows["arrival_ns"] >= first_ns]
        is_open, last_ns = flows["outcome"] == UNDER_WAY, self._taken_ns[env]
        if kind is SUMMARY:
            return PoolSummary.of_flows(flows, self._shape[2], (now_ns - first_ns) / 1e9)
        if kind is FLOWS:
            self._taken_ns[env] = now_ns
            return flows[~is_open & (flows["end_ns"] > last_ns)]
        return {OPEN_FLOWS: flows[is_open], FIDELITY: Fidelity()}.get(kind, [])

    def close(self) -> None:
        """Have nothing to end."""


def register() -> None:
    """Make the backend available by its name; a second call does nothing."""
    if ToyPool.name not in POOLS:
        POOLS.add("toy", Maker("toy", ToyPool.capabilities, BackendOptions, ToyPool))
