"""Environments whose step ends by Ctrl-C: they say that they must be reset, and then run on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dcgym
from dcgym.errors import BackendError, ConfigError
from tests.support.signals import Stop, handled
from tests.support.simulated import SimulatedNetwork, simulated

CUT = r"amid a step \(Stop\).*call reset\(\) first"
FIRST = np.array([True, False])
# One step takes minutes of computation.
LONG = {
    "packets": {
        "env": "dcgym/CongestionControl-v2",
        "traffic": {"name": "all-to-all", "size": "100GB"},
    },
    "flows": {"env": "dcgym/FlowControl-v1", "traffic": {"name": "pairs", "size": "100GB"}},
    "balancing": {"env": "dcgym/LoadBalancing-v1"},
    "accelerators": {"env": "dcgym/AcceleratorBalancing-v0"},
}


def make(name: str) -> Any:
    return dcgym.make_env({"backend": "simulation", "interval": "1h", **LONG[name]})


@pytest.mark.simulation
@pytest.mark.parametrize("name", LONG)
def test_a_step_that_a_signal_ends_asks_for_a_reset(name: str) -> None:
    env = make(name)
    action = env.action_space.sample()
    first, _ = env.reset(seed=1)
    with handled(stops_after=3), pytest.raises(Stop):
        env.step(action)
    with pytest.raises(BackendError, match=CUT):
        env.step(action)
    again, _ = env.reset(seed=1)
    np.testing.assert_array_equal(again, first)
    env.close()


class Interrupting(SimulatedNetwork):
    """Ends a step by an exception that is not its own, where it is told to."""

    is_told = False

    def advance(self, until_ns: int) -> int:
        if Interrupting.is_told:
            Interrupting.is_told = False
            raise Stop
        return super().advance(until_ns)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_no_copy_begins_alone_after_an_interrupted_step(mode: str) -> None:
    """Not even those whose episode had ended before, and which the next step would begin."""
    env = dcgym.make_vec_env(simulated(backend=Interrupting, max_steps=3), 2, autoreset_mode=mode)
    actions = env.action_space.sample()
    env.reset(seed=1)
    env.step(actions)
    env.reset(options={"reset_mask": FIRST})
    for _ in range(2):
        env.step(actions)
    # The second copy has ended, the first has not.
    if mode == "Disabled":
        env.reset(options={"reset_mask": ~FIRST})
    Interrupting.is_told = True
    with pytest.raises(Stop):
        env.step(actions)
    for _ in range(2):
        with pytest.raises(BackendError, match=CUT):
            env.step(actions)
    with pytest.raises(ConfigError, match="all slots, as none runs"):
        env.reset(options={"reset_mask": FIRST})
    env.reset(seed=1)
    env.step(actions)
    env.close()
