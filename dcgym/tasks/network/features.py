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
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.registry import Registry
from dcgym.tasks.common.features import Changes, ShownFeatures, check_features, with_changes
from dcgym.tasks.network.interval import Interval

__all__ = [
    "FEATURES",
    "FLOW_MATRIX",
    "LINK_BYTES",
    "PROBE_RTT",
    "QUEUE_LIMIT",
    "Feature",
    "FeatureSet",
    "Ratio",
    "RatioColumns",
    "check_feature_names",
    "feature_names",
]

FloatArray = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
FLOW_MATRIX = "flow_matrix"
# It is held in several places: 64 bytes an entry in all.
MOST_ENTRIES = 20_000_000
PROBE_RTT = "probe_rtt"


def _fraction(part: FloatArray, whole: FloatArray) -> FloatArray:
    # Both bounds by ufuncs: np.clip costs several times as much on arrays this short.
    return np.minimum(np.maximum(part / np.maximum(whole, 1), 0.0), 1.0)


QUEUE_LIMIT, LINK_BYTES = "queue_limit", "link_bytes"
"""What a ratio is a share of, beside counters: what the queue holds, what the link could send."""


@dataclass(frozen=True)
class Ratio:
    """A feature that is one field of a port over another quantity, 0 to 1 (`Feature`).

    `dcgym.native` works out all ratios of an observation at once, from these names.

    Attributes:
        part: A field of `PORT_STATE`: a counter's rise, or a level at the interval's end.
        whole: `QUEUE_LIMIT`, `LINK_BYTES`, or the counters whose rises add up to the whole.
    """

    part: str
    whole: str | tuple[str, ...]

    def __call__(self, interval: Interval) -> FloatArray:
        """Return the ratio of each port, (E, P)."""
        deltas = interval.port_deltas
        part = (deltas if self.part in deltas else interval.ports)[self.part]
        if self.whole == QUEUE_LIMIT:
            return _fraction(part, interval.queue_limits_bytes)
        if self.whole == LINK_BYTES:
            return _fraction(part, interval.rates_bps / 8 * interval.duration_s)
        assert not isinstance(self.whole, str)
        first, *others = (deltas[name] for name in self.whole)
        return _fraction(part, sum(others, first))


Feature = Callable[[Interval], FloatArray]
"""From an interval to one number a switch port, 0 to 1, in each of its copies: (E, P)."""

FEATURES: Registry[Feature] = Registry("features", "features", re.compile(r"[a-z][a-z0-9_]*"))
"""What a switch port can be observed by; each has a change ``d_NAME`` beside it."""

FEATURES.add(
    "backlog", Ratio("backlog_bytes", QUEUE_LIMIT), "bytes queued now, over the queue limit"
)
FEATURES.add(
    "peak",
    Ratio("peak_bytes", QUEUE_LIMIT),
    "highest backlog in the interval, over the queue limit",
)
FEATURES.add(
    "drops",
    Ratio("drops", ("drops", "tx_packets")),
    "packets dropped, over packets offered to the port",
)
FEATURES.add(
    "overlimits",
    Ratio("overlimits", ("tx_packets",)),
    "packets that waited for tokens, over sent ones",
)
FEATURES.add("marks", Ratio("marks", ("tx_packets",)), "packets marked CE, over sent ones")
FEATURES.add("tx_rate", Ratio("tx_bytes", LINK_BYTES), "sending rate, over the link rate")
FEATURES.add("rx_rate", Ratio("rx_bytes", LINK_BYTES), "receiving rate, over the link rate")


def feature_names() -> list[str]:
    """List all names that an observation may be made of."""
    return [*with_changes(FEATURES.names()), FLOW_MATRIX, PROBE_RTT]


@dataclass(frozen=True)
class RatioColumns:
    """An observation of ratios and their changes alone, which native code makes.

    Attributes:
        ratios: Those that are measured.
        columns: Of each position in a port's row the number of its ratio, and whether its change
            is shown.
        ports: Indexes of the switch ports that are observed.
    """

    ratios: tuple[Ratio, ...]
    columns: tuple[tuple[int, bool], ...]
    ports: tuple[int, ...]


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
        self._shown = ShownFeatures(
            tuple(name for name in self.names if name not in (FLOW_MATRIX, PROBE_RTT))
        )
        self._rows = list(range(n_ports) if rows is None else rows)
        self._has_all_rows = self._rows == list(range(n_ports))
        self._n_hosts = n_hosts
        _check_matrix(self.names, len(self._rows), n_hosts)
        self._settings = list(
            (f"host{host}.rate" for host in range(n_hosts)) if settings is None else settings
        )
        # Of features, (E, F, P).
        self._changes: Changes[np.float64] = Changes()
        low = self._low = self._lowest()
        self.space = gym.spaces.Box(low, np.ones_like(low), dtype=np.float32)

    @property
    def labels(self) -> list[str]:
        """Name each position of the observation, as `port0.backlog` or `host3.rate`."""
        names = [f"port{port}.{name}" for port in self._rows for name in self._shown.names]
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
        if interval.compiled is not None and measured is None and isinstance(is_first, bool):
            observation, now = interval.compiled(settings, None if is_first else self.last_ratios)
            if self._shown.has_changes:
                self._changes.note(now, is_first)
            return observation
        columns, measured_names = self._shown.columns, self._shown.measured
        n_rows, n_columns, lead = len(self._rows), len(columns), settings.shape[:-1]
        values = np.empty((*lead, len(measured_names), n_rows))
        for number, name in enumerate(measured_names):
            one = FEATURES[name](interval)
            values[..., number, :] = one if self._has_all_rows else one[..., self._rows]
        if self._shown.has_changes:
            self._changes.note(values, is_first, measured)
        end = n_rows * n_columns
        observation = np.empty((*lead, len(self._low)), np.float32)
        rows = observation[..., :end].reshape(*lead, n_rows, n_columns)
        for column, (number, is_change) in enumerate(columns):
            rows[..., column] = self._change(number) if is_change else values[..., number, :]
        tail = observation.shape[-1] - settings.shape[-1]
        if self.has_flow_matrix:
            matrix = self._matrix(interval)
            observation[..., end : tail - self._n_probes] = matrix.reshape(*lead, -1)
        if self._n_probes:
            observation[..., tail - self._n_probes : tail] = interval.probe_shares
        observation[..., tail:] = settings
        np.maximum(observation, self._low, out=observation)
        return np.minimum(observation, 1.0, out=observation)

    @property
    def last_ratios(self) -> FloatArray | None:
        """What changes of the next observation are relative to, (E, F, P); None without any."""
        return self._changes.now if self._shown.has_changes else None

    def note_ratios(self, ratios: FloatArray) -> None:
        """Take in what native code has made an observation of.

        Args:
            ratios: Of all copies, none of which is at its beginning, (E, F, P).
        """
        if self._shown.has_changes:
            self._changes.note(ratios)

    def ratio_columns(self) -> RatioColumns | None:
        """Return what native code has to know; None where something else is observed too."""
        features = tuple(FEATURES[name] for name in self._shown.measured)
        ratios = tuple(one for one in features if isinstance(one, Ratio))
        if len(ratios) < len(features) or self.has_flow_matrix or self._n_probes:
            return None
        return RatioColumns(ratios, self._shown.columns, tuple(self._rows))

    def _change(self, number: int) -> FloatArray:
        now, last = self._changes.now, self._changes.last
        assert now is not None and last is not None
        changes: FloatArray = now[..., number, :] - last[..., number, :]
        return changes

    def _matrix(self, interval: Interval) -> FloatArray:
        if interval.flow_matrix is None:
            raise ConfigError("features", FLOW_MATRIX, "a backend that measures a flow matrix")
        matrix = np.take(interval.flow_matrix, self._rows, axis=-2)
        return _fraction(matrix, matrix.sum(axis=-1, keepdims=True))

    def _lowest(self) -> npt.NDArray[np.float32]:
        matrix = len(self._rows) * self._n_hosts if self.has_flow_matrix else 0
        others = np.zeros(matrix + self._n_probes + len(self._settings))
        return np.concatenate([np.tile(self._shown.lows, len(self._rows)), others]).astype(
            np.float32
        )


def _check_matrix(names: Sequence[str], n_ports: int, n_hosts: int) -> None:
    if FLOW_MATRIX in names and n_ports * n_hosts > MOST_ENTRIES:
        allowed = f"{FLOW_MATRIX} where switch ports x hosts are at most {MOST_ENTRIES:,}, not "
        raise ConfigError("features", FLOW_MATRIX, f"{allowed}{n_ports:,} x {n_hosts:,}")


def check_feature_names(names: object) -> tuple[str, ...]:
    """Return the names if each is a feature's, and none comes twice.

    Args:
        names: What the user wrote.

    Raises:
        ConfigError: They are something else.
    """
    return check_features(names, feature_names(), least=0)
