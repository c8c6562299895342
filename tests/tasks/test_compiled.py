"""Native measurements against definitions in NumPy, on any counters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dcgym
from dcgym.monitors import StateWords
from dcgym.monitors.network import states
from dcgym.tasks.common.statistics import jain_index
from dcgym.tasks.congestion.task import CongestionSettings, congestion_control
from dcgym.tasks.network.compiled import CompiledMeter
from dcgym.tasks.network.interval import Levels, Rises
from dcgym.tasks.network.meter import Meter, Traffic
from dcgym.tasks.network.protocol import NetworkState
from dcgym.tasks.network.task import NetworkTask

pytestmark = pytest.mark.simulation
E_COPIES = 5
RATIOS = ("backlog", "d_backlog", "peak", "drops", "overlimits", "marks", "tx_rate", "d_rx_rate")
# Counters go up to beyond 2^53 when squared.
HOSTS = (2, 6, 130)


def make_task(hosts: int, features: tuple[str, ...] = RATIOS) -> NetworkTask:
    topology = {"name": "dumbbell", "hosts": hosts, "rate": "100Gbit"}
    return congestion_control(
        CongestionSettings(topology=topology, traffic="pairs", features=features)
    )


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


def reference(
    before: NetworkState, after: NetworkState, task: NetworkTask, traffic: Traffic
) -> dict[str, npt.NDArray[np.float64]]:
    """Return what `Totals` says of an interval, worked out by NumPy."""
    topology = task.topology
    layout = StateWords(len(topology.switch_ports), len(topology.hosts))
    rates_bps = np.array([port.rate_bps for port in topology.host_ports], float)
    port_rates_bps = np.array([port.rate_bps for port in topology.switch_ports], float)
    limits_bytes = np.array([port.queue_bytes for port in topology.switch_ports], float)
    ports, hosts = Levels(after.words, layout.ports), Levels(after.words, layout.hosts)
    risen_ports = Rises(after.words, before.words, layout.port_counters)
    risen_hosts = Rises(after.words, before.words, layout.host_counters)
    seconds = np.maximum((after.time_ns - before.time_ns) / 1e9, 1e-9)
    sent, active = risen_hosts["tx_bytes"], hosts["active_flows"] > 0
    was_active = before.words[:, layout.hosts["active_flows"]] > 0
    sends = active | (sent > 0)
    waits = np.where(traffic.is_hidden[:, None], sent > 0, active & was_active)
    rtt_ns = np.where(sends & (hosts["srtt_ns"] > 0), hosts["srtt_ns"], np.nan)
    known = np.isfinite(rtt_ns)
    mean_ns = np.nansum(rtt_ns, axis=1) / np.where(known.any(1), known.sum(1), np.nan)
    goodput_bps = risen_hosts["rx_bytes"].sum(1) * 8 / seconds
    could_bps = np.minimum((waits * rates_bps).sum(1), traffic.deliverable_bps)
    could_bps = np.where(waits.any(1), could_bps, np.maximum(goodput_bps, 1))
    delivered = np.where(waits.any(1), np.minimum(goodput_bps / could_bps, 1.0), 1.0)
    fill = np.minimum(ports["backlog_bytes"] / limits_bytes, 1.0).max(1)
    waiting_jain = jain_index(np.where(waits, sent, np.nan))
    return {
        "goodput_bps": goodput_bps,
        "queue_bytes": ports["backlog_bytes"].max(1),
        "queue_peak_bytes": ports["peak_bytes"].max(1),
        "host_queue_bytes": hosts["backlog_bytes"].max(1),
        "rtt_us": mean_ns / 1e3,
        "drops": risen_ports["drops"].sum(1),
        "marks": risen_ports["marks"].sum(1),
        "retransmits": risen_hosts["retransmits"].sum(1),
        "jain": jain_index(np.where(sends, sent, np.nan)),
        "utilisation": (risen_ports["tx_bytes"] * 8 / seconds[:, None] / port_rates_bps).max(1),
        "delivered": delivered,
        "waiting_jain": waiting_jain,
        "queue_peak": fill,
        "delivery": delivered * (1 - (fill + 1 - waiting_jain) / 2),
    }


def make_meter(task: NetworkTask) -> tuple[Meter, StateWords]:
    topology = task.topology
    layout = StateWords(len(topology.switch_ports), len(topology.hosts))
    return Meter(topology, task.features.ratio_columns()), layout


TRAFFIC = Traffic(np.linspace(1e9, 1e11, E_COPIES), np.arange(E_COPIES) == 2)
EVERYBODY = np.ones(E_COPIES, np.bool_)


@pytest.mark.parametrize("hosts", HOSTS)
def test_totals_are_those_of_numpy(hosts: int) -> None:
    task = make_task(hosts)
    meter, layout = make_meter(task)
    states = draw_states(layout, hosts)
    meter.begin(next(states), EVERYBODY)
    for step in range(6):
        meter.end(next(states), None)
        totals = meter.measure(TRAFFIC).totals
        found = totals.metrics() | {
            name: getattr(totals, name)
            for name in ("delivered", "waiting_jain", "queue_peak", "delivery")
        }
        expected = reference(*meter.states, task, TRAFFIC)
        assert found.keys() == expected.keys()
        for name, values in expected.items():
            np.testing.assert_allclose(
                found[name], values, rtol=1e-12, err_msg=f"{name} in step {step}"
            )


@pytest.mark.parametrize("hosts", HOSTS)
def test_native_observations_are_those_of_numpy(hosts: int) -> None:
    """Bit for bit: where an observation holds more than ratios, NumPy makes all of it."""
    native, plain = make_task(hosts), make_task(hosts)
    meter, layout = make_meter(native)
    states, random = draw_states(layout, hosts), np.random.default_rng(1)
    meter.begin(next(states), EVERYBODY)
    for step, mask in enumerate([None, None, np.arange(E_COPIES) < 2, None, EVERYBODY, None]):
        if step:
            meter.end(next(states), mask)
        made, values = meter.measure(TRAFFIC), [random.random((E_COPIES, hosts))]
        shown = native.observe(made, values, is_first=not step, measured=mask)
        assert made.interval.compiled is not None
        made.interval.compiled = None
        expected = plain.observe(made, values, is_first=not step, measured=mask)
        assert shown.dtype == expected.dtype
        np.testing.assert_array_equal(shown, expected, f"step {step}")


def state_at(time_ns: int, layout: StateWords) -> NetworkState:
    words = np.zeros((1, layout.size), np.uint64)
    return NetworkState(np.full(1, time_ns), words, np.zeros(1, np.bool_))


def test_a_hand_computed_interval() -> None:
    # Two senders, one of which waits throughout: 1 and 3 MB sent, 2 MB received in a second.
    task = make_task(4)
    meter, layout = make_meter(task)
    before = state_at(0, layout)
    after = state_at(10**9, layout)
    before.words[0, layout.hosts["active_flows"]] = (1, 0, 0, 0)
    after.words[0, layout.hosts["active_flows"]] = (1, 1, 0, 0)
    after.words[0, layout.hosts["tx_bytes"]] = (1_000_000, 3_000_000, 0, 0)
    after.words[0, layout.hosts["rx_bytes"]] = (0, 0, 2_000_000, 0)
    after.words[0, layout.hosts["srtt_ns"]] = (2_000, 4_000, 9_000, 0)
    meter.begin(before, np.ones(1, np.bool_))
    meter.end(after, None)
    made = meter.measure(Traffic(np.full(1, 32e6)))
    assert made.metrics["goodput_bps"] == 16e6
    assert made.metrics["jain"] == 16 / (2 * 10)
    assert made.metrics["rtt_us"] == 3.0
    # Half of what the plan's flows get; one waits, and no queue is filled.
    assert task.terms(made, [np.ones((1, 4))])["delivery"] == 0.5


fractions = st.floats(0, 1, width=32)


def delivery_of(arrived: float, spread: float, fill: float) -> float:
    """Return the default reward of two hosts that send throughout.

    Args:
        arrived: What arrives over what their plan's flows could have got.
        spread: What the second sends over what the first does.
        fill: Of the fullest queue.
    """
    task = make_task(4)
    meter, layout = make_meter(task)
    before, after = state_at(0, layout), state_at(10**9, layout)
    for state in (before, after):
        state.words[0, layout.hosts["active_flows"]] = (1, 1, 0, 0)
    after.words[0, layout.hosts["tx_bytes"]] = (10**6, round(spread * 10**6), 0, 0)
    after.words[0, layout.hosts["rx_bytes"]] = (0, 0, round(arrived * 10**6), 0)
    port = task.topology.switch_ports[0]
    after.words[0, layout.ports["backlog_bytes"].start] = round(fill * port.queue_bytes)
    meter.begin(before, np.ones(1, np.bool_))
    meter.end(after, None)
    return float(meter.measure(Traffic(np.full(1, 8e6))).totals.delivery[0])


def test_delivery_ranks_as_users_do() -> None:
    even, queued = delivery_of(1, 1, 0), delivery_of(1, 1, 0.1)
    starved, halved, silent = delivery_of(1, 0, 0), delivery_of(0.5, 1, 0), delivery_of(0, 1, 0)
    scores = [even, queued, starved, halved, silent]
    # D (1 - q / 2 - (1 - J) / 2), where J of one sender of two is a half.
    assert scores == pytest.approx([1.0, 0.95, 0.75, 0.5, 0.0], abs=1e-4)
    assert delivery_of(0.5, 0, 0.2) == pytest.approx(0.5 * (1 - 0.2 / 2 - 0.5 / 2), abs=1e-4)


@settings(deadline=None)
@given(fractions, fractions, fractions, fractions)
def test_a_longer_queue_and_less_that_arrives_are_never_worth_more(
    arrived: float, spread: float, fill: float, part: float
) -> None:
    score = delivery_of(arrived, spread, fill)
    assert 0 <= score <= 1
    assert delivery_of(arrived * part, spread, fill) <= score
    assert delivery_of(arrived, spread, fill + (1 - fill) * part) <= score


def test_other_features_are_left_to_numpy() -> None:
    assert make_task(4).features.ratio_columns() is not None
    assert make_task(4, ("backlog", "flow_matrix")).features.ratio_columns() is None


def test_wrong_shapes_are_refused() -> None:
    task = make_task(4)
    _, layout = make_meter(task)
    meter = CompiledMeter(task.topology, None)
    short = NetworkState(
        np.zeros(2, np.int64), np.zeros((1, layout.size), np.uint64), np.zeros(2, np.bool_)
    )
    with pytest.raises(ValueError, match="a row of words for each copy"):
        meter.measure(short, short, np.ones(2), None, None, None)


def test_the_order_of_words_in_a_row_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """All who write and read a row, the packet twin among them, go by the names of its fields."""

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
