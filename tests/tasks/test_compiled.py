"""Native measurements against the NumPy definitions: bit for bit, on any counters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dcgym
from dcgym.monitors import StateWords
from dcgym.monitors.network import states
from dcgym.native import find_measure
from dcgym.tasks.congestion.task import CongestionSettings, congestion_control
from dcgym.tasks.network import compiled
from dcgym.tasks.network.meter import Meter, Traffic
from dcgym.tasks.network.protocol import NetworkState
from dcgym.tasks.network.task import NetworkTask

pytestmark = [
    pytest.mark.simulation,
    pytest.mark.skipif(find_measure() is None, reason="_measure is not built"),
]
E_COPIES = 5
RATIOS = ("backlog", "d_backlog", "peak", "drops", "overlimits", "marks", "tx_rate", "d_rx_rate")
# Beside eight and 128, where NumPy's summation changes; counters up to beyond 2^53 when squared.
HOSTS = (2, 6, 8, 10, 130, 300)


def make_task(hosts: int, features: tuple[str, ...] = RATIOS) -> NetworkTask:
    topology = {"name": "dumbbell", "hosts": hosts, "rate": "100Gbit"}
    settings = CongestionSettings(
        topology=topology, traffic="pairs", features=features, reward=["delivery", "queue"]
    )
    return congestion_control(settings)


def draw_states(layout: StateWords, seed: int) -> Iterator[NetworkState]:
    """Draw states whose counters mostly rise, and whose hosts now and then have nothing to send."""
    random = np.random.default_rng(seed)
    words = np.zeros((E_COPIES, layout.size), np.uint64)
    time_ns = np.zeros(E_COPIES, np.int64)
    while True:
        yield NetworkState(time_ns.copy(), words.copy(), np.zeros(E_COPIES, np.bool_))
        time_ns += random.integers(0, 10**9, E_COPIES)
        rises = random.integers(0, 10**9, words.shape) * random.integers(0, 2, words.shape)
        words = words + rises.astype(np.uint64)
        levels = [layout.hosts["active_flows"], layout.ports["backlog_bytes"]]
        for own in levels:
            words[:, own] = random.integers(0, 4, words[:, own].shape)
        # A counter that started again.
        words[0, 0] = 0


def measure(hosts: int, features: tuple[str, ...] = RATIOS) -> list[dict[str, npt.NDArray[Any]]]:
    """Return all that a meter says of the same states."""
    task = make_task(hosts, features)
    layout = StateWords(len(task.topology.switch_ports), len(task.topology.hosts))
    meter, states, found = Meter(task, layout), draw_states(layout, hosts), []
    random, everybody = np.random.default_rng(1), np.ones(E_COPIES, np.bool_)
    traffic = Traffic(np.linspace(0, 1e11, E_COPIES), np.arange(E_COPIES) == 2)
    masks = [None, None, np.arange(E_COPIES) < 2, None, everybody, None]
    meter.begin(next(states), everybody)
    for step, mask in enumerate(masks):
        values = [random.random((E_COPIES, len(task.topology.hosts)))]
        if step:
            meter.end(next(states), mask)
        with np.errstate(divide="ignore", invalid="ignore"):
            made = meter.measure(values, traffic, is_first=not step, measured=mask)
            found.append(
                {"observation": made.observation}
                | dict(made.metrics)
                | dict(made.terms)
                | {f"port {name}": values for name, values in made.interval.port_deltas.items()}
                | {f"host {name}": values for name, values in made.interval.hosts.items()}
            )
    return found


@pytest.mark.parametrize("hosts", HOSTS)
def test_native_measurements_are_those_of_numpy(
    hosts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    native = measure(hosts)
    monkeypatch.setattr(compiled, "find_measure", lambda: None)
    for step, (own, reference) in enumerate(zip(native, measure(hosts), strict=True)):
        assert own.keys() == reference.keys()
        for name, values in reference.items():
            assert own[name].dtype == values.dtype, name
            np.testing.assert_array_equal(own[name], values, f"{name} in step {step}")


def state_at(time_ns: int, layout: StateWords) -> NetworkState:
    words = np.zeros((1, layout.size), np.uint64)
    return NetworkState(np.full(1, time_ns), words, np.zeros(1, np.bool_))


def test_a_hand_computed_interval() -> None:
    # Two senders, one of which waits throughout: 1 and 3 MB sent, 2 MB received in a second.
    task = make_task(4)
    layout = StateWords(len(task.topology.switch_ports), 4)
    before = state_at(0, layout)
    after = state_at(10**9, layout)
    before.words[0, layout.hosts["active_flows"]] = (1, 0, 0, 0)
    after.words[0, layout.hosts["active_flows"]] = (1, 1, 0, 0)
    after.words[0, layout.hosts["tx_bytes"]] = (1_000_000, 3_000_000, 0, 0)
    after.words[0, layout.hosts["rx_bytes"]] = (0, 0, 2_000_000, 0)
    after.words[0, layout.hosts["srtt_ns"]] = (2_000, 4_000, 9_000, 0)
    meter = Meter(task, layout)
    meter.begin(before, np.ones(1, np.bool_))
    meter.end(after, None)
    made = meter.measure([np.ones((1, 4))], Traffic(np.full(1, 32e6)), is_first=True)
    assert made.metrics["goodput_bps"] == 16e6
    assert made.metrics["jain"] == 16 / (2 * 10)
    assert made.metrics["rtt_us"] == 3.0
    # Half of what the plan's flows get; one waits, and no queue is filled.
    assert made.terms["delivery"] == 0.5


def test_other_features_are_left_to_numpy() -> None:
    assert make_task(4).features.ratio_columns() is not None
    assert make_task(4, ("backlog", "flow_matrix")).features.ratio_columns() is None


def test_wrong_shapes_are_refused() -> None:
    task, module = make_task(4), find_measure()
    layout = StateWords(len(task.topology.switch_ports), 4)
    meter = compiled.CompiledMeter(
        module, layout, np.ones(layout.n_ports), np.ones(layout.n_ports), np.ones(4), None
    )
    short = NetworkState(
        np.zeros(2, np.int64), np.zeros((1, layout.size), np.uint64), np.zeros(2, np.bool_)
    )
    with pytest.raises(ValueError, match="a row of words for each copy"):
        meter.measure(short, short, np.ones(2), None, None, None)


@pytest.mark.parametrize("is_native", [True, False])
def test_the_order_of_words_in_a_row_changes_nothing(
    is_native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All who write and read a row, the packet twin among them, go by the names of its fields."""
    if not is_native:
        monkeypatch.setattr(compiled, "find_measure", lambda: None)

    def run() -> list[Any]:
        env = dcgym.make_env(env="dcgym/CongestionControl-v2", backend="simulation")
        env.reset(seed=3)
        env.action_space.seed(3)
        steps = [env.step(env.action_space.sample()) for _ in range(30)]
        env.close()
        return [(observation, reward, info["metrics"]) for observation, reward, *_, info in steps]

    usual = run()
    for name in ("PORT_COUNTERS", "PORT_LEVELS", "HOST_COUNTERS", "HOST_LEVELS"):
        monkeypatch.setattr(states, name, getattr(states, name)[::-1])
    for one, other in zip(usual, run(), strict=True):
        np.testing.assert_equal(other, one)
    assert usual[-1][2]["goodput_bps"] > 0
