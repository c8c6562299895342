"""The contract of pools of servers with accelerators, as checks for whoever writes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import DevicePool
from dcgym.backends.records import EVENT_RECORDS, FIDELITIES, FIDELITY, FLOWS
from dcgym.errors import ConfigError
from dcgym.tasks.accelerators.protocol import NOTHING, DeviceCommands, DeviceEpisode, DeviceState

__all__ = ["check_device_pool"]

MakeDevicePool: TypeAlias = Callable[[], DevicePool]

INTERVAL_NS = 200_000_000
SEED = 7
_COUNTS = ("arrivals", "completed", "dropped", "lost", "reports", "reports_lost")
_LATENCIES = ("latency_mean_ns", "latency_p50_ns", "latency_p99_ns")
_SHARES = ("utilisation", "offered", "share")
_NUMBERS = ("queue", "chosen", "device_dropped", "reported_load", "reported_busy", "report_age_ns")
_RECORD_FIELDS = (
    *("arrival_ns", "end_ns", "request", "application", "server", "device", "outcome"),
)
_REFUSED = (np.zeros(1), np.full(1, -1.0), np.full(1, np.nan))


def check_device_pool(make: MakeDevicePool, intervals: int = 8) -> None:
    """Check a backend of pools of devices; raises AssertionError on the first failure.

    Args:
        make: Makes a pool under load whose agents report periodically and which keeps records,
            new at each call; nothing may be started yet.
        intervals: Intervals of 200 ms that each episode lasts.
    """
    pool = make()
    try:
        pool.close()
        first = _run(pool, SEED, intervals)
        _check_refusals(pool)
        again, other = _run(pool, SEED, intervals), _run(pool, SEED + 1, intervals)
        if pool.capabilities.deterministic:
            assert np.array_equal(first, again), "the same seed gave other requests"
        else:
            both = np.intersect1d(first["request"], again["request"])
            arrivals = [run["arrival_ns"][np.isin(run["request"], both)] for run in (first, again)]
            alike = np.array_equal(np.sort(arrivals[0]), np.sort(arrivals[1]))
            assert alike, "the same seed gave other arrivals"
        assert set(first["arrival_ns"]) != set(other["arrival_ns"]), "all seeds are alike"
        for env in range(len(pool.apply(NOTHING))):
            assert pool.records(FIDELITY, env).status in FIDELITIES
            assert isinstance(pool.records(EVENT_RECORDS, env), list)
    finally:
        pool.close()
        pool.close()


def _run(pool: DevicePool, seed: int, intervals: int) -> npt.NDArray[np.void]:
    """Run an episode of all copies; return the requests of the first one that have ended."""
    n_envs = len(pool.apply(NOTHING))
    pool.reset([DeviceEpisode(seed)] * n_envs)
    assert (pool.apply(NOTHING) == 0).all(), "the clock begins with the reset"
    weights = np.zeros(pool.read().share.shape[-1])
    weights[0] = 1
    assert pool.apply(DeviceCommands("wrr", "ecmp", weights)).shape == (n_envs,)
    totals = dict.fromkeys(_COUNTS, 0)
    for number in range(intervals):
        until_ns = np.full(n_envs, (number + 1) * INTERVAL_NS, np.int64)
        overrun_ns = pool.advance(until_ns)
        assert overrun_ns.shape == (n_envs,) and (overrun_ns >= 0).all(), "a negative overrun"
        assert (pool.apply(NOTHING) >= until_ns).all(), "advance came back too early"
        state = pool.read()
        _check_arrays(state, n_envs)
        assert (state.chosen[:, :, 1:] == 0).all(), "devices without weight were chosen"
        totals = {n: total + int(getattr(state, n).sum()) for n, total in totals.items()}
    ended = totals["completed"] + totals["dropped"] + totals["lost"]
    assert 0 < ended <= totals["arrivals"], f"{ended} requests of {totals['arrivals']} have ended"
    assert totals["reports"] > 0, "no agent has reported"
    records = pool.records(FLOWS, 0)
    assert records.dtype.names == _RECORD_FIELDS, f"fields {records.dtype.names}"
    assert (records["end_ns"] >= records["arrival_ns"]).all(), "ended before they came"
    later = pool.records(FLOWS, 0)
    assert not later.size or pool.capabilities.real_time, "records were not forgotten"
    return records


def _check_arrays(state: DeviceState, n_envs: int) -> None:
    """Check shapes, types and ranges of what was read."""
    found = {field.name: getattr(state, field.name) for field in fields(state)}
    shape = (n_envs, *state.share.shape[1:])
    wanted = {
        **dict.fromkeys(("time_ns", *_COUNTS), ((n_envs,), "i")),
        **dict.fromkeys(_LATENCIES, ((n_envs,), "f")),
        **dict.fromkeys(_SHARES, (shape, "f")),
        **dict.fromkeys(_NUMBERS, (shape, "i")),
        "present": (shape, "b"),
    }
    for name, (size, kind) in wanted.items():
        assert found[name].shape == size, f"{name} has the shape {found[name].shape}"
        assert found[name].dtype.kind == kind, f"{name} is of {found[name].dtype}"
    for name in (*_COUNTS, "queue", "chosen", "device_dropped", "offered"):
        assert (found[name] >= 0).all(), f"{name} below 0"
    for name in ("utilisation", "share"):
        assert ((found[name] >= 0) & (found[name] <= 1)).all(), f"{name} outside 0 to 1"
    assert np.allclose(found["share"].sum(axis=2), 1), "shares of a server do not add up to 1"
    known = np.isfinite(found["latency_mean_ns"])
    assert (known == (found["completed"] > 0)).all(), "latencies of nothing"
    ordered = found["latency_p50_ns"][known] <= found["latency_p99_ns"][known]
    assert ordered.all(), "a median above the p99"


def _check_refusals(pool: DevicePool) -> None:
    """Ask for what is not allowed: an error, and everything goes on."""
    for weights in _REFUSED:
        try:
            pool.apply(DeviceCommands(device_weights=weights))
        except ConfigError:
            continue
        raise AssertionError(f"weights {weights} were taken")
    for rules in (("no-rule", "ecmp"), ("wrr", "no-rule"), ("p4mite", "ecmp")):
        try:
            pool.apply(DeviceCommands(*rules))
        except ConfigError:
            continue
        raise AssertionError(f"rules {rules} were taken")
    for name in pool.capabilities.rules:
        if name != "p4mite":
            pool.apply(DeviceCommands(name, "ecmp"))
