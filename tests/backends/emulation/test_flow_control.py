"""FlowControl on the kernel's own TCP: commands arrive, leases end, episodes follow each other."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import dcgym
from dcgym.backends.records import CONGESTION_CONTROL
from dcgym.tasks.network.protocol import FlowCommands, NetworkCommands

pytestmark = pytest.mark.emulation

CONFIG: dict[str, Any] = {
    "backend": "emulation",
    "topology": {"name": "dumbbell", "hosts": 4, "rate": "48Mbit", "queue": "200KB"},
    "interval": "20ms",
    "lease": "300ms",
    "action": "window",
    "preflight": False,
}
DEADLINE_S = 30.0


def step_until(env: Any, values: list[float], is_there: Any) -> dict[str, Any]:
    """Step until the infos are so; returns them."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        given = [np.array([value], np.float32) for value in values]
        _, _, _, _, infos = env.step(dict(zip(env.agents, given, strict=True)))
        if is_there(infos):
            found: dict[str, Any] = infos
            return found
    raise AssertionError(infos)


def test_flows_obey_their_agents_and_are_reno_without_them() -> None:
    env = dcgym.parallel_env("FlowControl-v1", flows=2, **CONFIG)
    wanted = {"flow0": 2, "flow1": round(2**5.5)}
    try:
        for seed in (1, 2):
            env.reset(seed=seed)
            # Each flow of the plan has its own window: they are told apart by their ports.
            infos = step_until(
                env,
                [-1.0, 0.0],
                lambda infos: all(infos[name]["flow_cwnd"] == wanted[name] for name in wanted),
            )
            assert [infos[name]["clamped"] for name in wanted] == [0, 0]
            # Silent for longer than the lease, whatever else the machine has to do.
            before = {name: infos[name]["fallbacks"] for name in wanted}
            time.sleep(0.4)
            infos = step_until(
                env,
                [-1.0, 0.0],
                lambda infos, before=before: all(
                    infos[name]["fallbacks"] > before[name] for name in wanted
                ),
            )
        assert env.session.system.backend.records(CONGESTION_CONTROL, 0) == {"dcgym_agent": "bpf"}
    finally:
        env.close()


def test_a_network_without_dcgym_agent_cannot_be_steered() -> None:
    env = dcgym.make_env(topology=CONFIG["topology"], preflight=False)
    try:
        env.reset(seed=1)
        words = np.zeros((1, 1), np.uint32)
        commands = FlowCommands(*[words] * 4, words.astype(np.uint64))
        with pytest.raises(dcgym.errors.BackendError, match="no host runs dcgym_agent"):
            env.unwrapped.backend.apply(NetworkCommands(flow_commands=commands))
    finally:
        env.close()
