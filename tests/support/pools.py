"""Small pools with known answers, and means over independent runs with their intervals."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.backends.records import SUMMARY
from dcgym.backends.simulation import BalancingTwin
from dcgym.tasks.balancing import DataPlane, Scenario, ServerGroup, ServerPool, Workload
from dcgym.tasks.balancing.protocol import PoolCommands, PoolState
from dcgym.traffic.arrivals.read import Arrivals
from dcgym.traffic.http import Application, Stage
from dcgym.traffic.sizes import Distribution, exponential

T = TypeVar("T")
SECOND = 10**9
SERVICE = exponential("10ms")
CONFIDENCE = 0.9999  # of each interval: some hundred are looked at in every run of the tests


def pool(
    *groups: ServerGroup, load: float | None = 0.8, service: Distribution = SERVICE, **changes: Any
) -> Scenario:
    """Servers without network in between, so that only queueing takes time."""
    overload = bool(changes.pop("allow_overload", False))
    application = Application("a", (Stage("cpu", service),))
    arrivals = Arrivals.of(changes.pop("arrivals", "poisson"))
    plain = Scenario(
        "pool",
        ServerPool(groups, balancers=1, backlog=100_000),
        Workload((application,), load, overload, arrivals),
        DataPlane(latency_ns=(0, 0), packet_interval_ns=0, probe_interval_ns=0),
    )
    return plain.changed(**changes)


def run(
    scenario: Any, rule: str = "random", seconds: float = 200, envs: int = 20, **options: Any
) -> BalancingTwin:
    """Run independent environments, one seed each."""
    options.setdefault("warm_up_ns", int(seconds * SECOND / 10))
    twin = BalancingTwin(scenario, n_envs=envs, **options)
    twin.reset(range(100, 100 + envs))
    twin.apply(PoolCommands(rules=rule))
    twin.advance(int(seconds * SECOND))
    return twin


def filled(kind: type[T], **fields: Any) -> T:
    """Make a part of a pool's state, or a summary, of which nobody asks the other fields."""
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    return kind(**dict.fromkeys(names, 0) | fields)


def arrays_of(state: PoolState) -> dict[str, npt.NDArray[Any]]:
    """Return what is read of any pool, by name."""
    parts = (state.seen, state.truth)
    named = {f.name: getattr(part, f.name) for part in parts for f in dataclasses.fields(part)}
    return named | {"time_ns": state.time_ns}


def means_us(twin: BalancingTwin, what: str = "mean_us") -> npt.NDArray[np.float64]:
    """Return a figure of each environment's only application."""
    summaries = [twin.records(SUMMARY, env).applications for env in range(twin.n_envs)]
    return np.array([getattr(next(iter(found.values())), what) for found in summaries])


def check_mean(values: npt.NDArray[np.float64], expected: float) -> None:
    """Refuse unless the expected value lies in the interval, which must be narrow."""
    # A second to import, which children of tests that use this file need not wait for.
    from scipy import stats

    error = stats.sem(values)
    low, high = stats.t.interval(CONFIDENCE, len(values) - 1, values.mean(), error)
    assert low <= expected <= high, f"{expected} is not in {low} .. {high}"
    assert high - low < 0.3 * expected, "the interval says nothing"
