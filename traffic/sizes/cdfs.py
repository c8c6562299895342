"""Published flow-size distributions, as points of their cumulative distribution function."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CDFS", "Cdf"]


class Cdf(NamedTuple):
    """Points of a cumulative distribution function, linear in between.

    Attributes:
        source: Where the distribution was published, and who read the points off.
        points: (bytes, probability of a flow of at most that many), both never decreasing. A
            first probability above 0, or two points at one size, put that mass on the size itself.
    """

    source: str
    points: tuple[tuple[float, float], ...]


_WEB_SEARCH = Cdf(
    "Alizadeh et al., Data Center TCP, SIGCOMM 2010, fig. 4; "
    "points of DCTCP_CDF.txt, HKUST TrafficGenerator",
    (
        (0, 0.0),
        (10_000, 0.15),
        (20_000, 0.2),
        (30_000, 0.3),
        (50_000, 0.4),
        (80_000, 0.53),
        (200_000, 0.6),
        (1_000_000, 0.7),
        (2_000_000, 0.8),
        (5_000_000, 0.9),
        (10_000_000, 0.97),
        (30_000_000, 1.0),
    ),
)

_DATA_MINING = Cdf(
    "Greenberg et al., VL2, SIGCOMM 2009, fig. 2; points of VL2_CDF.txt, HKUST TrafficGenerator",
    (
        (0, 0.0),
        (180, 0.1),
        (216, 0.2),
        (560, 0.3),
        (900, 0.4),
        (1_100, 0.5),
        (1_870, 0.6),
        (3_160, 0.7),
        (10_000, 0.8),
        (400_000, 0.9),
        (3_160_000, 0.95),
        (100_000_000, 0.98),
        (1_000_000_000, 1.0),
    ),
)

# The file counts packets of 1500 bytes.
_CACHE = Cdf(
    "Roy et al., Inside the Social Network's (Datacenter) Network, SIGCOMM 2015, fig. 6, cache "
    "follower; points of CDF_cache.txt, HKUST TrafficGenerator, times 1500 bytes",
    (
        (1_500, 0.36),
        (3_000, 0.4),
        (10_500, 0.46),
        (19_500, 0.5),
        (100_500, 0.6),
        (199_500, 0.7),
        (1_000_500, 0.78),
        (1_999_500, 0.8),
        (3_000_000, 0.9),
        (4_000_500, 0.99),
        (49_999_500, 1.0),
    ),
)

_HADOOP = Cdf(
    "Roy et al., Inside the Social Network's (Datacenter) Network, SIGCOMM 2015, fig. 6, Hadoop; "
    "points of FbHdp_distribution.txt, published with HPCC (Li et al., SIGCOMM 2019)",
    (
        (0, 0.0),
        (100, 0.01),
        (200, 0.02),
        (300, 0.05),
        (350, 0.15),
        (400, 0.2),
        (500, 0.3),
        (600, 0.4),
        (700, 0.5),
        (1_000, 0.6),
        (2_000, 0.67),
        (7_000, 0.7),
        (30_000, 0.72),
        (50_000, 0.82),
        (80_000, 0.87),
        (120_000, 0.9),
        (300_000, 0.95),
        (1_000_000, 0.975),
        (2_000_000, 0.99),
        (10_000_000, 1.0),
    ),
)

CDFS = {
    "web-search": _WEB_SEARCH,
    "data-mining": _DATA_MINING,
    "cache": _CACHE,
    "hadoop": _HADOOP,
}
"""Distributions by name."""
