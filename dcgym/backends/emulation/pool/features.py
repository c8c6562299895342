"""What the balancers of a pod measured, read from their mapped regions, and what they are told."""

from __future__ import annotations

import mmap
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dcgym.monitors.balancer.layout import REGION, BalancerRegion
from dcgym.monitors.balancer.reducers import REDUCERS
from dcgym.native import require
from dcgym.tasks.balancing import Scenario
from dcgym.tasks.balancing.rules import RULES, check_kernel_rule

if TYPE_CHECKING:
    from dcgym.native._native import BalancerPools

__all__ = ["PoolFeatures", "PoolWriter"]

FloatArray = npt.NDArray[np.float64]


class PoolWriter:
    """The pool of one front end: which servers take new flows, by which rule and weights.

    Every change is one publication in mapped memory, in force with the next new flow.

    Args:
        pools: Those of its balancer, one for each VIP.
        vip: Number of the VIP.
        configured: The weight of each server as its operator sees it, shape (N,).
    """

    def __init__(self, pools: BalancerPools, vip: int, configured: FloatArray) -> None:
        self._pools, self._vip = pools, vip
        self._configured = configured
        self._learned = np.ones_like(configured)
        self._rule = "weighted"
        self._eligible = np.ones(len(configured), np.bool_)

    def begin(self, eligible: npt.NDArray[np.bool_]) -> None:
        """Start anew: rule ``weighted``, equal weights."""
        self._rule, self._eligible = "weighted", eligible.copy()
        self._learned = np.ones_like(self._configured)
        self._publish()

    def set_rule(self, name: str) -> None:
        """Place new flows by this rule."""
        self._rule = check_kernel_rule(name)
        self._publish()

    def set_learned(self, weights: FloatArray) -> None:
        """Replace the weights of the rules that learn them."""
        if np.array_equal(weights, self._learned):
            return
        self._learned = weights.copy()
        if RULES[self._rule].uses_learned:
            self._publish()

    def set_eligible(self, eligible: npt.NDArray[np.bool_]) -> None:
        """Replace the servers that take new flows."""
        if np.array_equal(eligible, self._eligible):
            return
        self._eligible = eligible.copy()
        self._publish()

    @property
    def rule(self) -> str:
        """Name of the rule in force."""
        return self._rule

    @property
    def weights(self) -> FloatArray:
        """The weights in force, the largest being 1, shape (N,)."""
        weights = self._learned if RULES[self._rule].uses_learned else self._configured
        found: FloatArray = weights / weights.max()
        return found

    def _publish(self) -> None:
        servers = np.flatnonzero(self._eligible).tolist()
        weights = self.weights[servers].tolist()
        self._pools.replace(self._vip, RULES[self._rule].number, servers, weights)


class PoolFeatures:
    """The regions of a pod's front ends, in the arrays of a `PoolView`.

    Args:
        scenario: Its balancers, virtual addresses and servers.
        region_map_fds: Descriptor of each balancer's regions, one for each VIP.
    """

    def __init__(self, scenario: Scenario, region_map_fds: Sequence[int]) -> None:
        self._workload = require("_workload")
        self._n_servers, self._n_vips = scenario.n_servers, len(scenario.pool.vips)
        size = REGION.itemsize
        end = self._n_vips * size
        self._maps = [mmap.mmap(fd, end, prot=mmap.PROT_READ) for fd in region_map_fds]
        self._regions = [
            BalancerRegion(memoryview(memory)[first:])
            for memory in self._maps
            for first in range(0, end, size)
        ]

    def read(self) -> tuple[int, dict[str, npt.NDArray[Any]]]:
        """Return CLOCK_MONOTONIC of the oldest counters, and arrays of a `PoolView` by name."""
        n = self._n_servers
        snapshots = np.stack([region.snapshot() for region in self._regions])
        servers = snapshots["servers"][:, :n]
        found: dict[str, npt.NDArray[Any]] = {
            name: servers[name].astype(np.int64)[None]
            for name in ("ongoing", "flows", "completed", "packets")
        }
        found["untracked"] = snapshots["untracked"].astype(np.int64)[None]
        now_ms = time.monotonic_ns() // 10**6
        reduced = [self._reduce(region, now_ms) for region in self._regions]
        for i, name in enumerate(("duration_us", "completion_us", "interarrival_us")):
            found[name] = np.stack([row[i] for row in reduced])[None]
        return int(snapshots["time_ns"].min()), found

    def placed(self, balancer: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return flows by server, shape (N,), and untracked flows, shape (), of a balancer.

        Args:
            balancer: Its number.
        """
        own = self._regions[balancer * self._n_vips : (balancer + 1) * self._n_vips]
        snapshots = np.stack([region.snapshot() for region in own])
        flows = snapshots["servers"][:, : self._n_servers]["flows"]
        return flows.astype(np.int64).sum(axis=0), snapshots["untracked"].astype(np.int64).sum()

    def _reduce(self, region: BalancerRegion, now_ms: int) -> tuple[FloatArray, ...]:
        samples = region.all_samples(self._n_servers)
        durations, completions = (
            np.stack([self._five(row, now_ms) for row in samples[name]["samples"]])
            for name in ("duration", "completion")
        )
        return durations, completions, self._five(region.all_interarrivals(), now_ms)

    def _five(self, samples: npt.NDArray[np.void], now_ms: int) -> FloatArray:
        """Return `REDUCERS` of a reservoir, shape (5,)."""
        if not samples["time_ms"].any():
            return np.zeros(len(REDUCERS))
        words = np.ascontiguousarray(samples).view(np.uint32)
        found: FloatArray = self._workload.reduce(words, now_ms)
        return found

    def close(self) -> None:
        """Release the mappings; copies stay valid."""
        self._regions.clear()
        for memory in self._maps:
            memory.close()
        self._maps.clear()
