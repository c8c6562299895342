"""Features against counters whose meaning is known."""

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.monitors import PORT
from dcgym.tasks.network.features import FEATURES, FeatureSet
from dcgym.tasks.network.interval import Interval, rises


def interval(backlog=(0, 100_000), seconds=0.05, matrix=None):
    ports = np.zeros(2, PORT)
    ports["backlog_bytes"] = backlog
    ports["peak_bytes"] = (200_000, 400_000)
    deltas = {
        "tx_bytes": np.array([62_500.0, 31_250.0]),
        "tx_packets": np.array([30.0, 20.0]),
        "rx_bytes": np.array([0.0, 62_500.0]),
        "drops": np.array([10.0, 0.0]),
        "overlimits": np.array([15.0, 40.0]),
        "marks": np.array([3.0, 0.0]),
    }
    limits = np.full(2, 400_000.0)
    return Interval(seconds, ports, deltas, np.full(2, 10e6), limits, matrix)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("backlog", (0.0, 0.25)),
        ("peak", (0.5, 1.0)),
        ("drops", (0.25, 0.0)),
        ("overlimits", (0.5, 1.0)),
        ("marks", (0.1, 0.0)),
        # 62500 bytes in 50 ms are 10 Mbit/s.
        ("tx_rate", (1.0, 0.5)),
        ("rx_rate", (0.0, 1.0)),
    ],
)
def test_feature_has_its_known_value(name, expected):
    assert FEATURES[name](interval()) == pytest.approx(expected)


def test_rows_are_ports_and_rates_come_last():
    features = FeatureSet(("backlog", "tx_rate"), 2, 3)
    observation = features.observe(interval(), np.array([0.1, 0.2, 0.3]), is_first=True)
    assert observation == pytest.approx([0, 1, 0.25, 0.5, 0.1, 0.2, 0.3])
    assert features.labels == [
        "port0.backlog",
        "port0.tx_rate",
        "port1.backlog",
        "port1.tx_rate",
        "host0.rate",
        "host1.rate",
        "host2.rate",
    ]


def test_deltas_are_zero_at_first_and_signed_afterwards():
    features = FeatureSet(("d_backlog",), 2, 1)
    shares = np.ones(1)
    assert features.observe(interval(), shares, is_first=True)[:2] == pytest.approx([0, 0])
    later = features.observe(interval((40_000, 20_000)), shares)
    assert later[:2] == pytest.approx([0.1, -0.2])
    assert features.observe(interval(), shares, is_first=True)[:2] == pytest.approx([0, 0])
    assert features.space.low[:2] == pytest.approx([-1, -1])


def test_flow_matrix_is_normalised_by_port():
    features = FeatureSet(("flow_matrix",), 2, 2)
    matrix = np.array([[3000.0, 1000.0], [0.0, 0.0]])
    observation = features.observe(interval(matrix=matrix), np.ones(2), is_first=True)
    assert observation == pytest.approx([0.75, 0.25, 0, 0, 1, 1])
    with pytest.raises(ConfigError, match="flow_matrix"):
        features.observe(interval(), np.ones(2), is_first=True)


def test_counters_near_64_bits_keep_their_difference_and_restarts_give_zero():
    before, now = np.array([2**63, 100], np.uint64), np.array([2**63 + 7, 3], np.uint64)
    assert rises(now, before).tolist() == [7.0, 0.0]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("backlog", "features: value 'backlog' .*a list of feature names"),
        (("backlog", "backlog"), "each feature once"),
        (("backlogg",), "did you mean 'backlog'"),
        # Only what is measured at a port has a difference.
        (("d_rates",), "features: value 'd_rates'"),
    ],
)
def test_wrong_names_are_refused(names, message):
    with pytest.raises(ConfigError, match=message):
        FeatureSet(names, 2, 2)
