"""Servers whose devices are stations of their own: requests, agents and faults on the kernel."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import pytest

from dcgym.backends.emulation.devices.backend import EmulatedDevicePool
from dcgym.backends.emulation.devices.pod import DevicePod
from dcgym.backends.records import EVENT_RECORDS, FIDELITY, FLOWS
from dcgym.errors import BackendError, ConfigError
from dcgym.tasks.accelerators.protocol import NOTHING, DeviceCommands, DeviceEpisode, DeviceState
from dcgym.testing import check_contract
from tests.support.waiting import wait_for
from tests.support.windows import best_of

pytestmark = pytest.mark.emulation

ID = "dcgym/AcceleratorBalancing-v0"
SECOND = 10**9
HORIZON = {"horizon_ns": 60 * SECOND, "record_limit": 10_000}
# 20 ms on the processors and 50 ms on the NIC: an episode of a second says something.
DEVICES = [
    {"kind": "cpu", "workers": 2, "service": {"a": "20ms"}, "weight": 5, "queue_limit": 5},
    {"kind": "smartnic", "service": {"a": "50ms"}, "queue_limit": 5},
]
POOL: dict[str, Any] = {
    "groups": [{"name": "server", "count": 2, "devices": DEVICES}],
    "applications": [{"name": "a"}],
    "rate_per_s": 60.0,
}
EVENT = {"kind": "event", "threshold_ns": "30ms"}


@pytest.fixture(scope="module")
def pool(request: pytest.FixtureRequest) -> Iterator[EmulatedDevicePool]:
    made = EmulatedDevicePool(POOL, hook=getattr(request, "param", "tc"), **HORIZON)
    yield made
    made.close()


def run(
    pool: EmulatedDevicePool,
    rule: str,
    seconds: float = 1.0,
    rate: float | None = None,
    **more: Any,
) -> DeviceState:
    """Run an episode, and return what was seen of it."""
    pool.reset([DeviceEpisode(3, rate)])
    pool.apply(DeviceCommands(rule, **more))
    pool.advance(int(seconds * SECOND))
    return pool.read()


def vars_of(state: DeviceState) -> dict[str, npt.NDArray[Any]]:
    return {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}


def run_on(
    pool: EmulatedDevicePool,
    is_there: Callable[[dict[str, npt.NDArray[Any]]], bool],
    interval_ns: int = SECOND,
) -> dict[str, npt.NDArray[Any]]:
    """Go on until what was seen since then adds up to what is expected; return the sums."""
    sums: dict[str, npt.NDArray[Any]] = {}

    def look() -> bool:
        pool.advance(int(pool.apply(NOTHING)[0]) + interval_ns)
        for name, values in vars_of(pool.read()).items():
            sums[name] = sums[name] + values if name in sums else values
        return is_there(sums)

    wait_for(look)
    return sums


@pytest.mark.parametrize("pool", ["xdp", "tc"], indirect=True)
def test_weights_divide_requests_exactly_and_agents_report(pool: EmulatedDevicePool) -> None:
    seen = run(pool, "wrr")
    chosen = seen.chosen[0]
    # A ring of six slots a server, in turn: never more than one request off 5:1.
    for processors, nic in chosen:
        assert abs(processors - 5 * nic) <= 5
    total, arrivals = int(chosen.sum()), int(seen.arrivals[0])
    assert 0 < total <= arrivals

    def are_all_chosen() -> bool:
        nonlocal total
        total += int(pool.read().chosen.sum())
        return total >= arrivals

    wait_for(are_all_chosen)
    assert seen.reports[0] > 0 and seen.reports_lost[0] == 0
    assert (seen.report_age_ns[0] >= 0).all()
    # None is lost, and what was read before the balancer had it comes now.
    wait_for(lambda: pool.running.counters(0)["device_reports"] >= seen.reports[0])
    counters = pool.running.counters(0)
    assert counters["strange"] == counters["unknown_device"] == 0


def test_commands_are_one_policy_and_none_where_something_is_refused(
    pool: EmulatedDevicePool,
) -> None:
    pool.reset([DeviceEpisode(3)])
    policy = pool.running.block.policy
    before = policy()
    weights = np.array([[[0.0, 1.0], [2.0, 1.0]]])
    pool.apply(DeviceCommands("dynamic-wrr", "lsq", weights))
    after = policy()
    assert after["sequence"] == before["sequence"] + 1
    assert after["weight"][:2, :2].tolist() == [[0, 1], [2, 1]]
    assert pool.running.rules_at(0) == {"lsq"}
    with pytest.raises(ConfigError, match="weights"):
        pool.apply(DeviceCommands("wrr", "ecmp", -weights))
    assert policy()["sequence"] == after["sequence"]
    assert pool.running.rules_at(0) == {"lsq"}


@pytest.mark.timing
def test_devices_do_the_work_that_is_chosen_for_them_and_report_in_time(
    pool: EmulatedDevicePool,
) -> None:
    def served(seen: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Return the work that was done, in requests."""
        return np.asarray(seen.utilisation[0] * [[2, 1]] * SECOND / [[20e6, 50e6]])

    # A worker that waits for a processor is busy for longer.
    seen = best_of(
        lambda: run(pool, "wrr"),
        lambda seen: float(np.abs(served(seen) - seen.chosen[0]).max()),
        3.4,
    )
    assert seen.chosen.sum() == seen.arrivals[0] > 30
    # Those under way count in part.
    assert np.abs(served(seen) - seen.chosen[0]).max() < 3.5
    # 100 reports a second of 4 devices.
    assert seen.reports[0] > 100


def test_latencies_are_service_times_where_nothing_waits(pool: EmulatedDevicePool) -> None:
    run(pool, "server-only", rate=5.0, seconds=0.1)
    run_on(pool, lambda sums: sums["completed"][0] >= 2)
    records = pool.records(FLOWS)
    assert len(records) >= 2 and (records["device"] == 0).all()
    latency_ns = records["end_ns"] - records["arrival_ns"] + 2 * pool.pool.latency_ns
    # Never below what the service takes; above it by what this machine takes.
    assert latency_ns.min() >= 20e6


def test_a_full_queue_drops_and_says_so() -> None:
    # A batch: with its last answer, devices, clients and the balancer have counted the same.
    pool = EmulatedDevicePool({**POOL, "requests": 900}, **HORIZON)
    counts = dict.fromkeys(("completed", "dropped", "device_dropped", "chosen"), 0)
    try:
        pool.reset([DeviceEpisode(3, 600.0)])
        pool.apply(DeviceCommands("server-only"))
        step_ns, last_ns = SECOND // 2, 0
        while counts["completed"] + counts["dropped"] < 900 and step_ns < 40 * SECOND:
            pool.advance(step_ns)
            seen = pool.read()
            for name in counts:
                counts[name] += int(getattr(seen, name).sum())
            now_ns = int(seen.time_ns[0])
            if last_ns:
                # 20 ms each, of two workers.
                asked = seen.chosen[0, :, 0] * 20e6 / (2 * (now_ns - last_ns))
                assert seen.offered[0, :, 0] == pytest.approx(asked)
            assert seen.queue.max() <= 7 and seen.lost[0] == 0
            last_ns, step_ns = now_ns, step_ns + SECOND // 2
    finally:
        pool.close()
    # Two servers of two workers: 200 a second, and 7 requests of each at most.
    assert counts["completed"] + counts["dropped"] == counts["chosen"] == 900
    assert counts["device_dropped"] == counts["dropped"] > 100


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_event_driven_agents_say_when_a_device_is_busy(transport: str) -> None:
    # One server: bursts make requests wait, its agent sees that in the packets that come and go.
    spec = {**POOL, "agents": EVENT, "rate_per_s": 90.0}
    spec["groups"] = [{"name": "server", "count": 1, "devices": DEVICES}]
    pool = EmulatedDevicePool(spec, transport=transport, **HORIZON)
    try:
        run(pool, "p4mite", seconds=0.1)
        run_on(pool, lambda sums: sums["reports"][0] > 0 and sums["chosen"][0, 0, 1] > 0)
        wait_for(lambda: pool.running.counters(0)["device_reports"] > 0)
        # It answers for the packets of requests alone: an idle pool changes nothing. The first
        # request comes after four seconds.
        assert run(pool, "p4mite", rate=0.1, seconds=0.5).reports[0] == 0
    finally:
        pool.close()


def test_devices_fail_fall_silent_and_leave() -> None:
    events = [
        {"at": 0.3, "kind": "agent-silence", "device": 1, "servers": [0]},
        {"at": 0.3, "kind": "remove-device", "device": 0, "servers": [1]},
        {"at": 0.6, "kind": "device-failure", "device": 1},
        {"at": 1.2, "kind": "device-recovery", "device": 1},
        {"at": 1.2, "kind": "agent-recovery", "device": 1},
        {"at": 1.2, "kind": "device-speed", "device": 0, "value": 2.0},
    ]
    pool = EmulatedDevicePool({**POOL, "events": events, "rate_per_s": 40.0}, **HORIZON)
    try:
        pool.reset([DeviceEpisode(4)])
        pool.apply(DeviceCommands("device-ecmp"))
        pool.advance(int(1.1 * SECOND))
        lost = 0

        def has_failed() -> bool:
            # No event happens between two calls of advance.
            nonlocal lost
            seen = pool.read()
            assert not seen.present[0, 1, 0] and seen.present.sum() == 3
            # New requests are refused where nobody listens; the silent agent's report is old.
            lost += int(seen.lost[0])
            ages = seen.report_age_ns[0]
            return bool(lost > 0 and ages[0, 1] > 0.7 * SECOND > ages[0, 0])

        def has_recovered() -> bool:
            pool.advance(int(pool.apply(NOTHING)[0]) + SECOND // 2)
            seen = pool.read()
            is_served = seen.lost[0] == 0 and seen.completed[0] > 5
            return bool(is_served and seen.report_age_ns[0, 0, 1] < 0.7 * SECOND)

        wait_for(has_failed)
        wait_for(has_recovered)
        kinds = [record["kind"] for record in pool.records(EVENT_RECORDS)]
        assert kinds == [event["kind"] for event in events]
    finally:
        pool.close()


def test_a_request_that_nobody_answers_is_lost_when_a_client_gives_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # resolv.conf(5): two attempts of 5 s.
    assert DevicePod.udp_timeout_ns == 10 * SECOND
    monkeypatch.setattr(DevicePod, "udp_timeout_ns", SECOND // 5)
    slow = [{"kind": "cpu", "service": {"a": "5s"}}]
    spec = {**POOL, "groups": [{"name": "server", "count": 1, "devices": slow}], "requests": 3}
    pool = EmulatedDevicePool(spec, **HORIZON)
    try:
        pool.reset([DeviceEpisode(3, 100.0)])
        counts = dict.fromkeys(("arrivals", "completed", "lost"), 0)
        for until_s in range(1, 41):
            pool.advance(until_s * SECOND)
            seen = pool.read()
            for name in counts:
                counts[name] += int(getattr(seen, name)[0])
            if counts["lost"] == 3:
                break
        assert counts == {"arrivals": 3, "completed": 0, "lost": 3}
    finally:
        pool.close()


def test_lost_reports_are_counted_and_never_arrive() -> None:
    pool = EmulatedDevicePool({**POOL, "agents": {"loss": 0.5}}, **HORIZON)
    try:
        run(pool, "lur", seconds=0.1)
        seen = run_on(pool, lambda sums: sums["reports"][0] > 200)
        reports, lost = int(seen["reports"][0]), int(seen["reports_lost"][0])
        assert 0.3 < lost / reports < 0.7
        sent = pool.running.costs.counts()[0]
        wait_for(lambda: pool.running.counters(0)["device_reports"] >= sent)
        arrived = pool.running.counters(0)["device_reports"]
        # Agents count what they have just sent a moment later: one each, of four.
        assert arrived <= pool.running.costs.counts()[0] + 4
    finally:
        pool.close()


def test_a_dead_agent_ends_the_emulator_and_a_reset_builds_it_anew(
    pool: EmulatedDevicePool,
) -> None:
    run(pool, "wrr", seconds=0.1)
    pids = pool.running.costs.pids
    assert len(pids) == 4 and pool.records(FIDELITY).figures["agent_cpu_share"] >= 0
    os.kill(pids[0], signal.SIGKILL)
    with pytest.raises(BackendError, match="agent of device 0 of server 0 died"):
        while True:
            pool.advance(int(pool.apply(NOTHING)[0]) + SECOND // 100)
    run(pool, "wrr", seconds=0.1)
    run_on(pool, lambda sums: sums["reports"][0] > 0, SECOND // 10)


def test_what_only_the_twin_can_do_is_refused() -> None:
    two = [{"name": "a"}, {"name": "b"}]
    other = [
        {"kind": "cpu", "service": {"a": "20ms", "b": "10ms"}},
        {"kind": "smartnic", "service": {"a": "50ms", "b": "50ms"}},
    ]
    uneven = {"groups": [{"name": "s", "count": 1, "devices": other}], "applications": two}
    for spec, options, field in (
        ({"preset": "accelerator-pool", "servers": 256}, {}, "devices"),
        (uneven, {}, "service"),
        ({**POOL, "connection_table": {"cells": 50_000}}, {}, "connection_table"),
        (POOL, {"n_envs": 2}, "n_envs"),
        (POOL, {"transport": "sctp"}, "transport"),
        (POOL, {"work": "hard"}, "work"),
        (POOL, {"hook": "nic"}, "hook"),
        ({"preset": "p4mite-micro"}, {"work": "burnt"}, "work"),
    ):
        with pytest.raises(ConfigError, match=field):
            EmulatedDevicePool(spec, **options)


def test_contract() -> None:
    arguments = {"scenario": POOL, "interval": "200ms", "settle": "0s", "max_steps": 60}
    check_contract(
        lambda: gym.make(
            ID,
            backend="emulation",
            is_terminal=False,
            reward=["p99", "failures"],
            **arguments,
        ),
        steps=5,
        is_shared=True,
    )


def test_the_oracle_searches_in_the_twin() -> None:
    env = gym.make(
        ID,
        backend="emulation",
        scenario=POOL,
        interval="200ms",
        settle="0s",
        oracle=True,
        rate=30.0,
    )
    try:
        _, info = env.reset(seed=1)
        assert int(info["best_weights"]) == 0 and info["best_p99_ms"] >= 20
        system = env.unwrapped.session.system  # type: ignore[attr-defined]
        assert system.capabilities.real_time
    finally:
        env.close()
