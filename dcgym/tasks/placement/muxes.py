"""Software muxes: how many a data centre needs, and what they add to round trips.

Constants are those of Ananta's muxes as Duet measures them (R. Gandhi et al., SIGCOMM 2014,
figure 1): an idle mux adds 196 us in the median and 1 ms at the 90th percentile, and it is full at
300,000 packets/s, which are 3.6 Gbit/s of packets of 1500 bytes. Between the two the latency grows
as that of a queue does, with 1 / (1 - utilisation); it ends at what a full queue holds.
"""

from __future__ import annotations

import math
from statistics import NormalDist

__all__ = ["MUX_US", "RTT_US", "SWITCH_US", "median_rtt_us", "mux_latency_us", "muxes_needed"]

RTT_US = 381.0
"""Median round trip in a data centre without load balancer."""

MUX_US, MUX_US_P90 = 196.0, 1000.0
SWITCH_US = 10.0
"""What a switch adds."""

FULL_US = 20_000.0
"""What a mux adds whose queue is full. Ours: the source shows that it exceeds 6 ms."""

_NORMAL = NormalDist()
_DEVIATION = math.log(MUX_US_P90 / MUX_US) / _NORMAL.inv_cdf(0.9)
_ROUNDS = 60


def muxes_needed(
    unplaced_bps: float, failover_bps: float, transit_bps: float, mux_bps: float
) -> int:
    """Return the muxes that a data centre needs: for the worst of three, not for their sum.

    Args:
        unplaced_bps: Traffic of VIPs that are on no switch.
        failover_bps: Traffic of VIPs whose switches fail together.
        transit_bps: Traffic of VIPs that move at the same time.
        mux_bps: What a mux forwards.
    """
    return math.ceil(max(unplaced_bps, failover_bps, transit_bps) / mux_bps - 1e-9)


def mux_latency_us(utilisation: float) -> float:
    """Return the median latency that a mux adds.

    Args:
        utilisation: Its load over its capacity; 1 and above is overload.
    """
    if utilisation >= 1:
        return FULL_US
    return min(MUX_US / (1 - max(utilisation, 0.0)), FULL_US)


def median_rtt_us(switch_bps: float, mux_bps: float, utilisation: float) -> float:
    """Return the median round trip over all bytes.

    Those of switches take `RTT_US` and `SWITCH_US`; what muxes add is lognormal.

    Args:
        switch_bps: Traffic that switches handle.
        mux_bps: Traffic that muxes handle.
        utilisation: Load of the muxes over their capacity.
    """
    total = switch_bps + mux_bps
    if total <= 0:
        return math.nan
    by_switch, median = switch_bps / total, mux_latency_us(utilisation)
    low, high = 0.0, 100 * FULL_US
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        share = by_switch * (middle >= SWITCH_US) + (1 - by_switch) * _below(middle, median)
        low, high = (middle, high) if share < 0.5 else (low, middle)
    return RTT_US + high


def _below(added_us: float, median_us: float) -> float:
    """Return the share of packets to which a mux adds less than that."""
    if added_us <= 0:
        return 0.0
    return _NORMAL.cdf(math.log(added_us / median_us) / _DEVIATION)
