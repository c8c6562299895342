"""What agents say, read by native code."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dcgym.errors import ConfigError
from dcgym.tasks.common.actions import ActionBounds
from dcgym.tasks.congestion import rates
from dcgym.tasks.congestion.actions import make_action_map
from dcgym.tasks.paths.actions import WEIGHTINGS
from dcgym.topologies import make_topology

pytestmark = pytest.mark.simulation
N = 6


def maps() -> dict[str, Any]:
    made: dict[str, Any] = {name: make_action_map(name, N, 0.01) for name in ("direct", "linear")}
    made |= {f"paths-{name}": WEIGHTINGS.find(name)([2, 4]) for name in WEIGHTINGS}
    return made


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64, object])
@pytest.mark.parametrize("shape", [(N,), (3, N), (2, 5, N)])
def test_numbers_are_held_within_their_bounds(dtype: npt.DTypeLike, shape: tuple[int, ...]) -> None:
    low, high = np.linspace(-1, 0, N), np.linspace(0.5, 1, N)
    asked = np.random.default_rng(1).uniform(-2, 2, shape).astype(dtype)
    found = ActionBounds(low, high).read(asked)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, np.clip(asked.astype(np.float64), low, high))
    np.testing.assert_array_equal(ActionBounds(low, high).read(asked.tolist()), found)


@pytest.mark.parametrize("wrong", [np.full(N, np.nan), np.full((2, N), np.inf), np.ones(N + 1)])
def test_what_is_no_action_is_refused_alike(wrong: npt.NDArray[np.float64]) -> None:
    for own in maps().values():
        with pytest.raises(ConfigError, match=r"action: .* finite numbers of shape \(6,\)"):
            own.to_shares(wrong)


def put_in_force(shares: npt.NDArray[np.float64]) -> npt.NDArray[np.uint64]:
    """Return the limits of hosts whose links have 5 bit/s."""
    topology = make_topology("dumbbell")
    ports = [SimpleNamespace(rate_bps=5) for _ in topology.host_ports]
    decision = rates.RateDecision(SimpleNamespace(host_ports=ports), "direct", 0.01)  # type: ignore[arg-type]
    found = decision.commands(shares).rates_bps
    assert found is not None
    return found


def test_rates_are_whole_and_at_least_one() -> None:
    shares = np.array([[0.01, 0.3, 0.5, 0.7], [0.1, 1.0, 0.9, 0.0]])
    # Halves go to the even: 1.5, 2.5, 3.5 and 4.5 bit/s.
    expected = [[1, 2, 2, 4], [1, 5, 4, 1]]
    found = put_in_force(shares)
    assert found.tolist() == expected and found.dtype == np.uint64
