"""The balancing environments on real servers: contract, agents, learning without a leak."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import dcgym
from dcgym.policies.balancing import KnapsackPolicy
from dcgym.policies.registry import make_policy
from dcgym.tasks.balancing import make_scenario
from dcgym.tasks.balancing.arrivals import draw_arrivals
from dcgym.testing import check_contract
from dcgym.traffic.sizes import exponential

pytestmark = pytest.mark.emulation

SINGLE, CENTRAL = "dcgym/LoadBalancing-v1", "dcgym/CentralLoadBalancing-v1"
POOL = make_scenario("testbed-7", service=exponential("10ms")).to_dict()
# A limit of the steps is one of the traffic that a reset must draw.
REAL = {"backend": "emulation", "scenario": POOL, "interval": "50ms", "max_steps": 80}


@pytest.fixture(scope="module")
def env() -> Iterator[Any]:
    """One pool of real servers for several tests, each of which resets it."""
    with contextlib.closing(dcgym.make_env({"env": SINGLE, **REAL})) as made:
        yield made


def test_contract() -> None:
    check_contract(lambda: dcgym.make_env({"env": SINGLE, **REAL}), steps=8, is_shared=True)


def test_gymnasium_checker_passes_and_knows_that_time_is_real() -> None:
    env = gym.make(CENTRAL, **REAL, action="discrete", render_mode="rgb_array")
    assert env.spec is not None and env.spec.nondeterministic
    try:
        # Pictures are drawn from what both backends return alike (tests/envs).
        check_env(env.unwrapped, skip_render_check=True)
    finally:
        env.close()


def test_times_of_a_scenario_count_from_the_first_observation() -> None:
    events = [
        {"at": "320ms", "kind": "drain-server", "target": 0},
        {"at": "1s", "kind": "rate", "value": 0.001},
    ]
    given = {**REAL, "scenario": {**POOL, "events": events}, "max_steps": None}
    with contextlib.closing(
        gym.make(SINGLE, **given, lead_in="500ms", record_limit=10**5, max_episode_steps=40)
    ) as env:
        inner: Any = env.unwrapped
        _, info = env.reset(seed=0)
        origin_ns = inner.system.binding.origin_ns
        assert origin_ns == 550_000_000 and info["time_s"] == 0
        assert inner.backend.horizon_ns == origin_ns + 40 * 50_000_000 + 30 * 10**9
        is_over, told = False, [(0, bool(info["servers"]["eligible"][0]))]
        while not is_over:
            *_, is_over, info = env.step(env.action_space.sample())
            told.append((inner.system.read_ns[0] - origin_ns, info["servers"]["eligible"][0]))
        assert len(told) == 41 and told[0][1] and not told[-1][1]
        assert min(time_ns for time_ns, is_there in told if not is_there) >= 300_000_000
        assert [record["at_s"] for record in inner.system.event_records(0)] == [0.32, 1.0]
        flows = inner.flow_records()
    # The plan is that of the twin on a clock that began 550 ms earlier; after a second few come.
    planned = draw_arrivals(
        make_scenario(given["scenario"]).put_off(origin_ns), int(inner.system.seeds[0]), 3 * 10**9
    )
    own = planned["arrival_ns"][flows["flow"].astype(int)]
    assert (own - flows["arrival_ns"] == origin_ns).all()
    assert flows["arrival_ns"].min() >= 0 and (flows["arrival_ns"] > 10**9).sum() < 20
    assert len(flows) > 10 and (flows["served_ns"] == -1).all(), "what is not known stays so"


@pytest.fixture(scope="module")
def agents() -> Iterator[Callable[[str], Any]]:
    """Return environments of several agents by backend."""
    pytest.importorskip("pettingzoo")
    with contextlib.ExitStack() as ends:
        yield lru_cache(
            lambda backend: ends.enter_context(
                contextlib.closing(
                    dcgym.parallel_env("LoadBalancing-v1", **{**REAL, "backend": backend})
                )
            )
        )


def last_shown(env: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the observations and infos of all agents after twenty steps."""
    env.reset(seed=3)
    for _ in range(20):
        found = env.step({agent: env.action_space(agent).high for agent in env.agents})
    return found[0], found[4]


def test_agents_pass_pettingzoo_and_see_what_agents_of_the_twin_see(agents: Any) -> None:
    pytest.importorskip("pettingzoo.test").parallel_api_test(agents("emulation"), num_cycles=5)
    (real, real_infos), (twin, twin_infos) = (
        last_shown(agents(backend)) for backend in ("emulation", "simulation")
    )
    assert {name: seen.shape for name, seen in real.items()} == {
        name: seen.shape for name, seen in twin.items()
    }
    assert all(info["observation_age_us"] > 0 for info in real_infos.values())
    assert all(info["observation_age_us"] == 0 for info in twin_infos.values()), "its time waits"


@pytest.mark.timing
def test_agents_see_the_values_that_the_twin_shows(agents: Any) -> None:
    real, twin = (
        np.mean(list(last_shown(agents(backend))[0].values()), axis=0)
        for backend in ("emulation", "simulation")
    )
    # Per server flows, durations and completion times, squashed to 0..1.
    assert np.abs(real - twin)[: 7 * 11].mean() < 0.08


def descriptors_and_memory() -> tuple[int, int]:
    status = Path("/proc/self/status").read_text()
    kilobytes = int(status.split("VmRSS:")[1].split()[0])
    return len(os.listdir("/proc/self/fd")), kilobytes


def test_resets_leak_neither_descriptors_nor_memory(env: Any) -> None:
    before: tuple[int, int] | None = None
    for episode in range(8):
        env.reset(seed=episode)
        for _ in range(2):
            env.step(env.action_space.sample())
        if episode == 3:
            before = descriptors_and_memory()
    assert before is not None
    after = descriptors_and_memory()
    assert after[0] == before[0]
    assert after[1] - before[1] < 20_000, "over 2 MB an episode stayed"


def test_a_late_action_gets_a_whole_interval_of_its_own(env: Any) -> None:
    env.reset(seed=1)
    env.step(env.action_space.sample())
    time.sleep(0.1)  # an agent that learns for two intervals
    began_ns = time.monotonic_ns()
    *_, info = env.step(env.action_space.sample())
    assert info["is_restarted"] and time.monotonic_ns() - began_ns >= 50_000_000
    assert info["action_latency_us"] >= 100_000 and info["gap_us"] > 0
    # The end of the first interval, what the agent took, and the second interval.
    assert info["time_s"] >= 0.2


def test_knapsack_learns_the_latency_curves_of_real_servers(env: Any) -> None:
    policy = make_policy("knapsack", env, period_s=0.5)
    observation, info = env.reset(seed=1)
    for _ in range(75):
        observation, *_, info = env.step(policy.act(observation, info))
    assert isinstance(policy, KnapsackPolicy) and policy.curves is not None
    # Seven explored shares are behind it, and a request takes 10 ms of a processor in the mean.
    assert np.isfinite(policy.curves).all() and (policy.curves >= 0).all()
    assert policy.curves.sum(axis=1).mean() > 0.005
    assert policy.shares.sum() == pytest.approx(1)
    assert not np.allclose(policy.shares, np.array([1, 1, 1, 2, 2, 2, 2]) / 11)
