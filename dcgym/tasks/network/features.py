"""Features of the observation: named, normalised, one row a switch port.

| name | meaning | range |
|---|---|---|
| backlog | bytes queued now, over the queue limit | 0 to 1 |
| peak | highest backlog since the last observation, over the queue limit | 0 to 1 |
| drops | packets dropped in the interval, over packets offered to the port | 0 to 1 |
| overlimits | packets that had to wait for tokens, over packets sent | 0 to 1 |
| marks | packets marked CE, over packets sent | 0 to 1 |
| tx_rate, rx_rate | rate in the interval, over the link rate | 0 to 1 |
| d_NAME | change of any of these since the last observation | -1 to 1 |
| probe_rtt | round trip of each probed pair, over the longest queueing delay | 0 to 1 |
| flow_matrix | share of the port's sent bytes that each host sourced | 0 to 1 |

`probe_rtt` has one entry a pair of the argument `probes`, after the flow matrix. An ICMP request
leaves every 10 ms; the last answered one counts, or the age of the oldest open one if that is more.
The longest queueing delay is that of all switch queues there and back when they are full; hosts
with a limit of their own queue too, so that the value is clipped at 1.

Every row belongs to the same switch port in every feature: the order is `topology.switch_ports`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.config import check_in
from dcgym.errors import ConfigError
from dcgym.registry import Registry
from dcgym.tasks.network.interval import Interval

__all__ = [
    "FEATURES",
    "FLOW_MATRIX",
    "PROBE_RTT",
    "Feature",
    "FeatureSet",
    "check_feature_names",
    "feature_names",
]

FloatArray = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
DELTA_PREFIX = "d_"
FLOW_MATRIX = "flow_matrix"
PROBE_RTT = "probe_rtt"


def _fraction(part: FloatArray, whole: FloatArray) -> FloatArray:
    # Both bounds by ufuncs: np.clip costs several times as much on arrays this short.
    return np.minimum(np.maximum(part / np.maximum(whole, 1), 0.0), 1.0)


def _queue(field: str) -> Callable[[Interval], FloatArray]:
    return lambda interval: _fraction(interval.ports[field], interval.queue_limits_bytes)


def _rate(field: str) -> Callable[[Interval], FloatArray]:
    def measure(interval: Interval) -> FloatArray:
        capacity_bytes = interval.rates_bps / 8 * interval.duration_s
        return _fraction(interval.port_deltas[field], capacity_bytes)

    return measure


def _per_packet(field: str) -> Callable[[Interval], FloatArray]:
    return lambda interval: _fraction(
        interval.port_deltas[field], interval.port_deltas["tx_packets"]
    )


def _drops(interval: Interval) -> FloatArray:
    drops = interval.port_deltas["drops"]
    return _fraction(drops, drops + interval.port_deltas["tx_packets"])


Feature = Callable[[Interval], FloatArray]
"""From an interval to one number a switch port, 0 to 1, in each of its copies: (E, P)."""

FEATURES: Registry[Feature] = Registry("features", "features", re.compile(r"[a-z][a-z0-9_]*"))
"""What a switch port can be observed by; each has a change ``d_NAME`` beside it."""

FEATURES.add("backlog", _queue("backlog_bytes"), "bytes queued now, over the queue limit")
FEATURES.add("peak", _queue("peak_bytes"), "highest backlog in the interval, over the queue limit")
FEATURES.add("drops", _drops, "packets dropped, over packets offered to the port")
FEATURES.add(
    "overlimits", _per_packet("overlimits"), "packets that waited for tokens, over sent ones"
)
FEATURES.add("marks", _per_packet("marks"), "packets marked CE, over sent ones")
FEATURES.add("tx_rate", _rate("tx_bytes"), "sending rate, over the link rate")
FEATURES.add("rx_rate", _rate("rx_bytes"), "receiving rate, over the link rate")


def feature_names() -> list[str]:
    """List all names that an observation may be made of."""
    names = FEATURES.names()
    return [*names, *(DELTA_PREFIX + name for name in names), FLOW_MATRIX, PROBE_RTT]


class FeatureSet:
    """The observation: features port by port, flow matrix, probes, then what is in force."""

    def __init__(
        self,
        names: Sequence[str],
        n_ports: int,
        n_hosts: int,
        *,
        rows: Sequence[int] | None = None,
        settings: Sequence[str] | None = None,
        n_probes: int = 0,
    ) -> None:
        """Check the names and build the space.

        Args:
            names: Features in the order of a row; `flow_matrix` and `probe_rtt` add blocks of
                their own.
            n_ports: Number of switch ports.
            n_hosts: Number of hosts.
            rows: Switch ports that are observed; all if None.
            settings: Names of what the actions have set, 0 to 1 each; if None the rate share of
                each host.
            n_probes: Number of probed pairs.
        """
        self.names = check_feature_names(names)
        self.has_flow_matrix = FLOW_MATRIX in self.names
        self._n_probes = n_probes if PROBE_RTT in self.names else 0
        self._columns = tuple(name for name in self.names if name not in (FLOW_MATRIX, PROBE_RTT))
        self._base = tuple(dict.fromkeys(name.removeprefix(DELTA_PREFIX) for name in self._columns))
        self._rows = list(range(n_ports) if rows is None else rows)
        self._has_all_rows = self._rows == list(range(n_ports))
        self._n_hosts = n_hosts
        self._settings = list(
            (f"host{host}.rate" for host in range(n_hosts)) if settings is None else settings
        )
        self._has_deltas = any(self._is_delta(name) for name in self._columns)
        # Features of the last observation, and of the one before it.
        self._now: dict[str, FloatArray] = {}
        self._last: dict[str, FloatArray] = {}
        low = self._low = self._lowest()
        self.space = gym.spaces.Box(low, np.ones_like(low), dtype=np.float32)

    @property
    def labels(self) -> list[str]:
        """Name each position of the observation, as `port0.backlog` or `host3.rate`."""
        names = [f"port{port}.{name}" for port in self._rows for name in self._columns]
        if self.has_flow_matrix:
            names += [
                f"port{port}.host{host}" for port in self._rows for host in range(self._n_hosts)
            ]
        names += [f"probe{probe}.rtt" for probe in range(self._n_probes)]
        return names + self._settings

    def observe(
        self,
        interval: Interval,
        settings: FloatArray,
        *,
        is_first: bool | Mask = False,
        measured: Mask | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return fresh observations, (E, n); on the first of an episode every change is 0.

        Args:
            interval: What happened in each copy; without the axis of copies there is one.
            settings: What is in force in each, (E, settings).
            is_first: Whether an episode begins; or in which copies, (E,).
            measured: Copies of which the interval is new, (E,); those of the others has been
                observed before. None for all.
        """
        values = {name: FEATURES[name](interval) for name in self._base}
        if not self._has_all_rows:
            # In the order of the copies, which indexing does not keep.
            values = {name: np.take(one, self._rows, axis=-1) for name, one in values.items()}
        if self._has_deltas:
            self._remember(values, is_first, measured)
        n_rows, n_columns = len(self._rows), len(self._columns)
        end, lead = n_rows * n_columns, settings.shape[:-1]
        observation = np.empty((*lead, len(self._low)), np.float32)
        rows = observation[..., :end].reshape(*lead, n_rows, n_columns)
        for column, name in enumerate(self._columns):
            rows[..., column] = values[name] if name in values else self._change(name)
        tail = observation.shape[-1] - settings.shape[-1]
        if self.has_flow_matrix:
            matrix = self._matrix(interval)
            observation[..., end : tail - self._n_probes] = matrix.reshape(*lead, -1)
        if self._n_probes:
            observation[..., tail - self._n_probes : tail] = interval.probe_shares
        observation[..., tail:] = settings
        np.maximum(observation, self._low, out=observation)
        return np.minimum(observation, 1.0, out=observation)

    def _remember(
        self, values: dict[str, FloatArray], is_first: bool | Mask, measured: Mask | None
    ) -> None:
        """Keep what was observed, and what before it, to which changes are relative."""
        last, before = self._now, self._last
        if measured is None:
            self._last = values if is_first is True else last
        else:
            new, first = measured[:, None], np.asarray(is_first)[..., None]
            # Copies that are not measured keep what their last observation was made of.
            self._last = {
                name: np.where(
                    new, np.where(first, now, last.get(name, now)), before.get(name, now)
                )
                for name, now in values.items()
            }
        self._now = values

    def _change(self, name: str) -> FloatArray:
        base = name.removeprefix(DELTA_PREFIX)
        return self._now[base] - self._last[base]

    def _matrix(self, interval: Interval) -> FloatArray:
        if interval.flow_matrix is None:
            raise ConfigError("features", FLOW_MATRIX, "a backend that measures a flow matrix")
        matrix = np.take(interval.flow_matrix, self._rows, axis=-2)
        return _fraction(matrix, matrix.sum(axis=-1, keepdims=True))

    def _lowest(self) -> npt.NDArray[np.float32]:
        columns = [-1.0 if self._is_delta(name) else 0.0 for name in self._columns]
        matrix = len(self._rows) * self._n_hosts if self.has_flow_matrix else 0
        others = np.zeros(matrix + self._n_probes + len(self._settings))
        return np.concatenate([np.tile(columns, len(self._rows)), others]).astype(np.float32)

    @staticmethod
    def _is_delta(name: str) -> bool:
        return name.startswith(DELTA_PREFIX)


def check_feature_names(names: object) -> tuple[str, ...]:
    """Return the names if each is a feature's, and none comes twice.

    Args:
        names: What the user wrote.

    Raises:
        ConfigError: They are something else.
    """
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ConfigError("features", names, "a list of feature names")
    known = feature_names()
    for name in names:
        check_in("features", name, known)
    if len(set(names)) != len(names):
        raise ConfigError("features", list(names), "each feature once")
    return tuple(names)
