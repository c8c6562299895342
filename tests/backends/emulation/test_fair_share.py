"""The fair-share oracle on real TCP: it counts the flows that are active."""

from __future__ import annotations

import contextlib
import subprocess
import sys

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
        # On the clock of the machine that time is over.
        Flow("h4", "h1", start_ns=60 * 10**9),
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


# Prints what is imported from the beginning of an episode until its first decision is in force.
IMPORTS = """
import sys
import dcgym
from dcgym.envs.session import Session

known = set()
begin, advance = Session.begin, Session.advance

def begin_and_look(self, *args):
    begin(self, *args)
    known.update(sys.modules)

def look_and_advance(self, *actions):
    if actions:
        print("imported:", sorted(set(sys.modules) - known))
        Session.advance = advance
    advance(self, *actions)

Session.begin, Session.advance = begin_and_look, look_and_advance
env = {"env": "CongestionControl-v2", "preflight": False}
dcgym.evaluate(env, "fair-share", seeds=[0], seconds=0.2)
"""


def test_nothing_is_imported_while_traffic_waits_for_the_first_decision() -> None:
    found = subprocess.run(
        [sys.executable, "-c", IMPORTS], check=True, capture_output=True, text=True, timeout=120
    )
    assert "imported: []" in found.stdout
