"""The round-trip feature on the real kernel, against the queue that it waits in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dcgym
from dcgym.traffic import Flow, Plan
from tests.support.windows import best_of

pytestmark = pytest.mark.emulation

QUEUE_BYTES, RATE_BPS = 100_000, 10_000_000


@pytest.fixture
def env() -> Iterator[Any]:
    # 14 Mbit/s into 10 fill the queue between the switches in 0.2 s, and the other way nothing.
    flows = (
        Flow("h1", "h3", "udp", rate_bps=7_000_000),
        Flow("h2", "h4", "udp", rate_bps=7_000_000),
    )
    topology = {"name": "dumbbell", "rate": "10Mbit", "queue": f"{QUEUE_BYTES}B"}
    made = dcgym.make_env(
        {
            **{"topology": topology, "traffic": Plan("overload", 0, flows), "preflight": False},
            **{"features": ["backlog", "probe_rtt"], "probes": [["h1", "h4"], ["h1", "h2"]]},
        }
    )
    with contextlib.closing(made):
        yield made


def test_probes_are_answered_while_a_queue_fills(env: Any) -> None:
    observed, _ = env.reset(seed=0)
    for _ in range(300):
        observed = env.step(np.ones(4, np.float32))[0]
        if (observed[6:8] > 0).all():
            break
    # Parts of what full queues would take, those there and those back.
    assert 0 < observed[7] <= observed[6] <= 1


@pytest.mark.timing
def test_the_probe_reads_the_delay_of_a_standing_queue(env: Any) -> None:
    task = env.unwrapped.task
    row = [port.name for port in task.topology.switch_ports].index("s1-eth3")

    def observe() -> np.ndarray:
        return np.mean([env.step(np.ones(4, np.float32))[0] for _ in range(20)], axis=0)

    def queue_s(observed: np.ndarray) -> float:
        return float(observed[row]) * QUEUE_BYTES * 8 / RATE_BPS

    def measured_s(observed: np.ndarray) -> float:
        # Full queues there and back: four, of 80 ms each; between h1 and h2 only two.
        return float(observed[6]) * 4 * 0.08

    env.reset(seed=0)
    for _ in range(10):
        env.step(np.ones(4, np.float32))
    observed = best_of(observe, lambda found: abs(measured_s(found) / queue_s(found) - 1), 0.2)
    assert queue_s(observed) > 0.9 * QUEUE_BYTES * 8 / RATE_BPS
    assert measured_s(observed) == pytest.approx(queue_s(observed), rel=0.2)
    assert observed[7] * 2 * 0.08 < 0.1 * queue_s(observed)
