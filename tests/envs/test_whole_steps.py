"""Steps in one native call against those of single calls: the same bits, whatever is measured."""

from __future__ import annotations

import copy
import multiprocessing
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import dcgym
from dcgym.envs.factory import make_session
from dcgym.errors import BackendError, ConfigError

pytestmark = pytest.mark.simulation
LEAF_SPINE = {"name": "leaf-spine", "leaves": 2, "hosts_per_leaf": 2, "rate": "10Mbit"}
FLOWS = {"name": "random-bijection", "size": "30KB", "repetitions": 3}
EVENTS = [
    {"at": "100ms", "link": ["s1", "s3"], "action": "down"},
    {"at": "210ms", "link": ["s1", "s3"], "action": "up"},
]
CONGESTION, PATHS = "dcgym/CongestionControl-v2", "dcgym/PathBalancing-v2"
CASES: dict[str, dict[str, Any]] = {
    "the default": {"env": CONGESTION},
    "flows that end": {"env": CONGESTION, "traffic": FLOWS},
    "no changes": {"env": CONGESTION, "features": ["backlog", "tx_rate"], "interval": "7ms"},
    "several terms": {"env": CONGESTION, "reward": {"delivery": 2.0, "joint_queue": 0.5}},
    "a weight": {"env": CONGESTION, "reward": {"delivery": 0.3}, "action": "tanh"},
    "events": {"env": PATHS, "events": EVENTS},
    "uplinks": {"env": PATHS, "reward": ["uplink_balance", "uplink_queue"]},
    "two decisions": {"env": "dcgym/Joint-v2"},
}


def make(n_envs: int, *, whole: bool, **arguments: Any) -> Any:
    given = {"backend": "simulation", "topology": LEAF_SPINE, "max_steps": 8} | arguments
    env = dcgym.make_vec_env(given, n_envs)
    system = env.unwrapped.system
    assert system.has_whole_steps
    system.has_whole_steps = whole
    return env


def bits(value: Any) -> Any:
    """Return a value in a form that is equal where every bit is, NaN included."""
    if isinstance(value, Mapping):
        return {name: bits(one) for name, one in value.items()}
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, list | tuple | np.ndarray):
        return [bits(one) for one in value]
    return type(value), repr(value)


def course(env: Any, steps: int = 20) -> list[Any]:
    """Return all that an environment says, to the last bit; episodes end now and then."""
    env.action_space.seed(3)
    said: list[Any] = [env.reset(seed=5)]
    for _ in range(steps):
        said.append(env.step(env.action_space.sample()))
        clock = env.unwrapped.session
        said.append((clock.time_s(0), clock.steps(0), env.unwrapped.system.read_ns.tolist()))
    env.close()
    found: list[Any] = bits(said)
    return found


@pytest.mark.parametrize("arguments", CASES.values(), ids=CASES)
def test_a_step_in_one_call_is_that_of_single_calls(arguments: dict[str, Any]) -> None:
    expected = course(make(3, whole=False, **arguments))
    assert course(make(3, whole=True, **arguments)) == expected
    assert course(make(3, whole=True, threads=2, **arguments)) == expected


def test_native_code_measures_only_what_it_knows() -> None:
    for arguments in ({"flow_matrix": True}, {"interval": "0ms"}):
        env = dcgym.make_env(env=CONGESTION, backend="simulation", **arguments)
        system = env.unwrapped.system
        assert not system.has_whole_steps
    assert not dcgym.make_env(env=CONGESTION).unwrapped.system.has_whole_steps
    flows = make_session(env="dcgym/FlowControl-v1", backend="simulation").system
    assert not flows.has_whole_steps


def test_an_action_that_is_refused_changes_nothing() -> None:
    first, second = (make(2, whole=True, env=CONGESTION) for _ in range(2))
    for env in (first, second):
        env.reset(seed=1)
    action = np.full(first.action_space.shape, 0.5, np.float32)
    with pytest.raises(ConfigError, match=r"^action"):
        second.step(action * np.nan)
    np.testing.assert_array_equal(first.step(action)[0], second.step(action)[0])
    assert second.unwrapped.session.steps(0) == 1


def test_a_closed_backend_is_refused_in_one_line() -> None:
    env = make(2, whole=True, env=CONGESTION)
    env.reset(seed=1)
    env.unwrapped.backend.close()
    with pytest.raises(BackendError, match="call reset"):
        env.step(np.full(env.action_space.shape, 0.5, np.float32))
    assert env.reset(seed=1)[0].shape[0] == 2


def test_a_copy_goes_on_alike() -> None:
    env = make(3, whole=True, env=PATHS, events=EVENTS, threads=2)
    env.reset(seed=1)
    env.action_space.seed(4)
    actions = [env.action_space.sample() for _ in range(8)]
    for action in actions[:3]:
        env.step(action)
    other = copy.deepcopy(env)
    assert other.unwrapped.system is not env.unwrapped.system
    assert repr([env.step(one) for one in actions[3:]]) == repr(
        [other.step(one) for one in actions[3:]]
    )


def test_threads_are_there_again_after_a_fork() -> None:
    env = make(4, whole=True, env=CONGESTION, threads=2)
    env.reset(seed=1)
    action = np.full(env.action_space.shape, 0.5, np.float32)
    env.step(action)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def go_on() -> None:
        theirs.send(repr(env.step(action)))
        env.close()

    child = context.Process(target=go_on)
    child.start()
    assert ours.poll(60), "the child waits for threads that its parent has"
    assert ours.recv() == repr(env.step(action))
    child.join(60)
    assert child.exitcode == 0
