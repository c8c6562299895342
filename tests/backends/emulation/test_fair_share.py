"""The fair-share oracle on real TCP: it counts the flows that are active."""

from __future__ import annotations

import contextlib

import pytest

import dcgym
from dcgym.policies import make_policy
from dcgym.traffic import Flow, Plan

pytestmark = pytest.mark.emulation

SWITCH = {"name": "single-switch", "hosts": 4, "rate": "20Mbit", "queue": "200KB"}
STEPS = 400


def test_what_an_ended_flow_leaves_is_given_to_the_others() -> None:
    flows = [
        Flow("h1", "h3"),
        Flow("h2", "h3", size_bytes=200_000),
        Flow("h2", "h4", size_bytes=4_000_000, after=1),
        Flow("h4", "h1", start_ns=10**15),
    ]
    env = dcgym.make_env(
        topology=SWITCH, traffic=Plan("ends", 0, flows), interval="50ms", preflight=False
    )
    with contextlib.closing(env):
        policy = make_policy("fair-share", env)
        observation, info = env.reset(seed=0)
        seen: list[tuple[float, ...]] = []
        for _ in range(STEPS):
            observation, _, _, _, info = env.step(policy.act(observation, info))
            shares = tuple(round(float(share), 2) for share in info["rate_shares"])
            if shares not in seen:
                seen.append(shares)
            if len(env.unwrapped.flow_records()) == 2 and seen[-1] == (0.98, 1, 1, 1):
                break
        assert env.unwrapped.task.active_flows().tolist() == [True, False, False, False]
    assert seen == [(0.49, 0.49, 1, 1), (0.98, 0.98, 1, 1), (0.98, 1, 1, 1)]
