"""Programs of users: ``python -m tests.storm.programs NAME`` runs a function of this module."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable

import gymnasium as gym
import numpy as np

import dcgym
from dcgym.backends.emulation.options import PoolOptions
from dcgym.backends.emulation.pool.backend import EmulatedPool
from dcgym.tasks.balancing.protocol import PoolCommands
from dcgym.testing.star import Star
from dcgym.traffic.generators.generator import Generator
from dcgym.traffic.http import HttpServer, cpu_and_io, make_requests
from dcgym.traffic.http.programs import nginx

FAST = {"topology": "dumbbell", "interval": "20ms", "traffic": "pairs", "preflight": False}
ENV = "dcgym/CongestionControl-v2"


def resets() -> None:
    """Build networks, and reset one of them many times with a few steps each."""
    for _ in range(3):
        env = gym.make(ENV, backend="emulation", **FAST)
        for seed in range(4):
            env.reset(seed=seed)
            for _ in range(5):
                env.step(env.action_space.sample())
        env.close()


def vector() -> None:
    """Step emulations side by side, in this process."""
    with contextlib.closing(gym.make_vec(ENV, 2, backend="emulation", **FAST)) as envs:
        _step(envs, 30)


def vector_processes() -> None:
    """Step emulations side by side, each in a process of Gymnasium's."""
    makers = [lambda: gym.make(ENV, backend="emulation", **FAST)] * 2
    envs = gym.vector.AsyncVectorEnv(makers)
    try:
        _step(envs, 30)
    except BaseException:
        # After a call that a dead copy broke, `close` waits for answers that were read already.
        envs.close(terminate=True)
        raise
    envs.close()


def _step(envs: gym.vector.VectorEnv, steps: int) -> None:
    envs.reset(seed=0)
    for _ in range(steps):
        envs.step(envs.action_space.sample())


def agents() -> None:
    """Step the agents of a twin, which is a thread of its own."""
    env = dcgym.parallel_env(env="LoadBalancing-v1", scenario="testbed-7")
    env.reset(seed=0)
    for _ in range(2000):
        env.step({agent: env.action_space(agent).sample() for agent in env.agents})
        if not env.agents:
            env.reset()
    env.close()


def http() -> None:
    """Let HTTP clients ask HTTP servers."""
    with Star(3) as star, Generator(star.hosts(), star.names) as generator:
        generator.serve([HttpServer("h2", cpu_and_io(2)), HttpServer("h3", cpu_and_io(4))])
        targets = [(star.addresses[1], 8000), (star.addresses[2], 8000)]
        wiki = {"name": "wiki", "requests_per_s": 100, "duration": "2s"}
        generator.load_requests(make_requests(wiki, ["h1"], targets, seed=1))
        generator.start(time.monotonic_ns() + 50_000_000)
        time.sleep(2.5)


def nginx_pool() -> None:
    """Put nginx behind the balancers, and ask it from a host."""
    with contextlib.closing(
        EmulatedPool("testbed-7", options=PoolOptions(server_program=nginx()))
    ) as pool:
        pool.reset(1)
        pool.apply(PoolCommands(rules="sed"))
        for step in range(1, 41):
            pool.advance(step * 50_000_000)
        ((address, port),) = pool.targets
        pool.execute("c1", "curl", "-sS", "-o", "/dev/null", f"http://{address}:{port}/page")


PROGRAMS: dict[str, Callable[[], None]] = {
    function.__name__: function
    for function in (resets, vector, vector_processes, agents, http, nginx_pool)
}

if __name__ == "__main__":
    np.random.seed(0)
    PROGRAMS[sys.argv[1]]()
