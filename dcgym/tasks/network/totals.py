"""Sums over all ports and hosts in an interval, which metrics and rewards share.

Arrays of some numbers cost NumPy half a microsecond an operation, whatever they hold, and twice as
much where shapes or types differ: so all is in doubles, and one reduction serves many sums.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcgym.monitors import StateWords
from dcgym.tasks.common.lazy import Lazy
from dcgym.tasks.network.interval import Interval

__all__ = ["Totals"]

FloatArray = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


class Totals:
    """Sums of each of E copies; those that nobody asks for are not worked out.

    A host *sends* where it has a flow or sent something. It *waits* where it had a flow under way
    at both ends of the interval: who begins or ends meanwhile could not have sent all the time.

    Args:
        interval: What happened.
        rose: Increase of all counters, (E, C).
        layout: Of the words.
        active_before: Flows of each host when the interval began, (E, H).
        host_rates_bps: Rate of each host's interface, (H,).
        deliverable_bps: What all flows of the plans get together, (E,).
        is_hidden: Copies where nobody knows who has something to send, (E,): who sent, waited. None
            for nowhere.
    """

    def __init__(
        self,
        interval: Interval,
        rose: FloatArray,
        layout: StateWords,
        active_before: FloatArray,
        host_rates_bps: FloatArray,
        deliverable_bps: FloatArray,
        is_hidden: Mask | None = None,
    ) -> None:
        self._interval, self._rose, self._layout = interval, rose, layout
        self._active_before, self._rates_bps = active_before, host_rates_bps
        self._deliverable_bps, self._is_hidden = deliverable_bps, is_hidden

    # `RewardInputs` works it out.
    delivery = None

    def metrics(self) -> dict[str, FloatArray]:
        """Return the interval's metrics by the names of results, one number a copy, (E,) each.

        Returns:
            goodput_bps: application bytes received by all hosts, per second.
            queue_bytes: backlog of the fullest switch port at the end.
            queue_peak_bytes: highest backlog of any switch port within the interval.
            host_queue_bytes: highest backlog of any host interface (0 where it is not measured).
            rtt_us: mean smoothed RTT over the hosts that send; NaN where none has one.
            drops, marks, retransmits: packets, all ports or hosts together.
            jain: Jain's index over the bytes of the hosts that send; 1 where none sends.
            utilisation: highest transmit rate of any switch port over its link rate.
        """
        interval, ports = self._interval, self._interval.ports
        # Nothing rises in an interval of no length.
        tx_shares = interval.port_deltas["tx_bytes"] * 8 / self.seconds / interval.rates_bps
        return {
            "goodput_bps": self.goodput_bps,
            "queue_bytes": np.maximum.reduce(ports["backlog_bytes"], axis=-1),
            "queue_peak_bytes": np.maximum.reduce(ports["peak_bytes"], axis=-1),
            "host_queue_bytes": np.maximum.reduce(interval.hosts["backlog_bytes"], axis=-1),
            "rtt_us": self.rtt_us,
            "drops": self.drops,
            "marks": self.marks,
            "retransmits": self.retransmits,
            "jain": self.jain,
            "utilisation": np.maximum.reduce(tx_shares, axis=-1),
        }

    def metrics_of(self, env: int) -> dict[str, float]:
        """Return the metrics of one copy.

        Args:
            env: Number of the copy.
        """
        return {name: values.item(env) for name, values in self.metrics().items()}

    @Lazy
    def _counters(self) -> FloatArray:
        return np.add.reduceat(self._rose, self._layout.counter_starts, axis=-1)

    def _of_ports(self, counter: str) -> FloatArray:
        return self._counters[:, self._layout.port_columns[counter]]

    def _of_hosts(self, counter: str) -> FloatArray:
        return self._counters[:, self._layout.host_columns[counter]]

    @Lazy
    def _hosts(self) -> FloatArray:
        """Sums over the hosts, a row each, (9, E): see where they are taken apart."""
        tx_bytes, hosts = self._interval.host_deltas["tx_bytes"], self._interval.hosts
        active, parts = hosts["active_flows"], np.empty((9, *tx_bytes.shape))
        parts[0] = tx_bytes
        sending = np.minimum(np.maximum(active, tx_bytes), 1.0, out=parts[4])
        waiting = np.minimum(np.minimum(active, self._active_before), 1.0, out=parts[5])
        if self._is_hidden is not None:
            waiting[self._is_hidden] = np.minimum(tx_bytes[self._is_hidden], 1.0)
        sent_bytes = np.multiply(tx_bytes, waiting, out=parts[1])
        np.multiply(tx_bytes, tx_bytes, out=parts[2])
        np.multiply(sent_bytes, sent_bytes, out=parts[3])
        np.multiply(waiting, self._rates_bps, out=parts[6])
        rtt_ns = np.multiply(hosts["srtt_ns"], sending, out=parts[7])
        np.minimum(rtt_ns, 1.0, out=parts[8])
        return np.asarray(np.add.reduce(parts, axis=-1))

    @Lazy
    def _jain(self) -> FloatArray:
        """Jain's index over what was sent by hosts that send, and by hosts that wait, (2, E)."""
        sums = self._hosts
        total, whole = sums[0:2], sums[4:6] * sums[2:4]
        # All are whole numbers. Where nothing was sent, 0 / 0 becomes 1 / 1.
        nothing = 1.0 - np.minimum(whole, 1.0)
        index: FloatArray = (total * total + nothing) / (whole + nothing)
        return index

    @Lazy
    def seconds(self) -> FloatArray:
        """Length of each interval, above 0, (E, 1)."""
        return np.asarray(np.maximum(self._interval.duration_s, 1e-9))

    @Lazy
    def goodput_bps(self) -> FloatArray:
        """Application bytes that all hosts received, per second, (E,)."""
        found: FloatArray = self._of_hosts("rx_bytes") * 8 / self.seconds[:, 0]
        return found

    @property
    def drops(self) -> FloatArray:
        """Packets that full queues dropped, (E,)."""
        return self._of_ports("drops")

    @property
    def marks(self) -> FloatArray:
        """Packets that were marked, (E,)."""
        return self._of_ports("marks")

    @property
    def retransmits(self) -> FloatArray:
        """Packets that hosts sent again, (E,)."""
        return self._of_hosts("retransmits")

    @property
    def jain(self) -> FloatArray:
        """Jain's index over the bytes of the hosts that send, (E,); 1 where none does."""
        found: FloatArray = self._jain[0]
        return found

    @property
    def waiting_jain(self) -> FloatArray:
        """Jain's index over the bytes of the hosts that wait, (E,); 1 where none does."""
        found: FloatArray = self._jain[1]
        return found

    @property
    def rtt_us(self) -> FloatArray:
        """Mean smoothed round trip of the hosts that send, (E,); NaN where none has one."""
        count = self._hosts[8]
        mean: FloatArray = self._hosts[7] / np.where(count > 0, count, np.nan) / 1e3
        return mean

    @property
    def delivered(self) -> FloatArray:
        """What arrived over what the hosts that wait could have sent, 0 to 1, (E,)."""
        # Where nobody waits, more than 1 over 1.
        nobody = 1.0 - np.minimum(self._hosts[5], 1.0)
        could_bps = np.minimum(self._hosts[6], self._deliverable_bps)
        shares: FloatArray = (self.goodput_bps + nobody) / (could_bps + nobody)
        return np.minimum(shares, 1.0)

    @property
    def queue_peak(self) -> FloatArray:
        """Fill of the fullest queue, 0 to 1, (E,)."""
        interval = self._interval
        shares = interval.ports["backlog_bytes"] / interval.queue_limits_bytes
        return np.asarray(np.maximum.reduce(np.minimum(shares, 1.0), axis=-1, initial=0.0))
