"""The round-trip feature on the real kernel, against the queue that it waits in."""

from __future__ import annotations

import numpy as np
import pytest

import dcgym
from dcgym.traffic import Flow, Plan

pytestmark = [pytest.mark.emulation, pytest.mark.alone]

QUEUE_BYTES, RATE_BPS = 100_000, 10_000_000


def test_the_probe_reads_the_delay_of_a_standing_queue() -> None:
    # 14 Mbit/s into 10 fill the queue between the switches in 0.2 s, and the other way nothing.
    flows = (
        Flow("h1", "h3", "udp", rate_bps=7_000_000),
        Flow("h2", "h4", "udp", rate_bps=7_000_000),
    )
    topology = {"name": "dumbbell", "rate": "10Mbit", "queue": f"{QUEUE_BYTES}B"}
    env = dcgym.make_env(
        {
            **{"topology": topology, "traffic": Plan("overload", 0, flows), "preflight": False},
            **{"features": ["backlog", "probe_rtt"], "probes": [["h1", "h4"], ["h1", "h2"]]},
        }
    )
    task = env.unwrapped.task
    row = [port.name for port in task.topology.switch_ports].index("s1-eth3")
    try:
        env.reset(seed=0)
        seen = [env.step(np.ones(4, np.float32))[0] for _ in range(30)][10:]
    finally:
        env.close()
    observed = np.mean(seen, axis=0)
    queue_s = observed[row] * QUEUE_BYTES * 8 / RATE_BPS
    assert queue_s > 0.9 * QUEUE_BYTES * 8 / RATE_BPS
    # Full queues there and back: four, of 80 ms each; between h1 and h2 only two.
    assert observed[6] * 4 * 0.08 == pytest.approx(queue_s, rel=0.2)
    assert observed[7] * 2 * 0.08 < 0.1 * queue_s
