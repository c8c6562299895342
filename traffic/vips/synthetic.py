"""Synthetic traces of VIPs with the statistics that Duet and Rubik publish.

The traces of the sources are of a production data centre and not public. What is known of them
(R. Gandhi, "Improving Cloud Middlebox Infrastructure for Online Services", Purdue 2016):

| statistic | value | where it is here |
|---|---|---|
| VIPs | 30,000 | `vips` |
| bytes of the top tenth | 90 % | deviation of the lognormal sizes |
| bytes from the Internet | 30 % | `internet` |
| racks that send to a VIP of the top tenth | 0 to 44.5 % | uniform |
| racks with its DIPs | 0 to 58 % | uniform, one DIP a rack at least |
| a VIP's racks, percentile 99 over median | 1 to 35, median 18 | uniform |
| VIPs that other VIPs call, and their bytes | 31.1 %, 27.6 % | a graph of three levels |

What is not published is ours. Smaller VIPs have sources in proportionally fewer racks, and DIPs
follow traffic. The largest VIP has 15 times the mean of the top tenth, but at most a twentieth of
all bytes. No VIP moves more through one rack than a part of what racks move on average with all
VIPs together (`hottest`). From one epoch to the next the logarithm of each VIP's size is an
autoregressive process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from dcgym.config import check_int, check_positive, check_range, read_numbers
from dcgym.traffic.vips.table import FloatArray, VipTable

__all__ = ["SyntheticVips"]

TOP, TOP_BYTES = 0.1, 0.9
# Of few VIPs each of the top tenth has more than a twentieth, and the limit is above their mean.
LARGEST_OVER_TOP_MEAN, LARGEST, LEAST_OVER_TOP_MEAN = 15.0, 0.05, 1.5
SOURCE_SPREAD, DIP_SPREAD = 0.445, 0.58
MOST_SKEW = 35.0
CALLED, CALLED_BYTES = 0.311, 0.276
CALLED_LEVELS = 2
LEAST_DIPS = 2
MOST_CALLERS = 100
SLACK = 1.5  # racks beyond those that could carry a VIP, so that they may differ
EPOCHS_PER_DAY = 144


@dataclass(frozen=True)
class SyntheticVips:
    """Draws traces.

    Attributes:
        vips: Number of VIPs.
        racks: Racks of the data centre.
        total_bps: Mean traffic of all VIPs together.
        servers: DIPs that all VIPs have together, about: each has two or more.
        most_dips: DIPs of one VIP at most.
        internet: Share of the bytes that come from the Internet.
        diurnal: Amplitude of the total over a day, as a share of its mean.
        churn: Standard deviation of the logarithm of a VIP's size over time.
        memory: Correlation of that logarithm between two epochs of ten minutes.
        hottest: Most that a VIP moves through a rack, over what a rack moves on average with all.
    """

    vips: int = 30_000
    racks: int = 1600
    total_bps: float = 10e12
    servers: int = 50_000
    most_dips: int = 512
    internet: float = 0.3
    diurnal: float = 0.1
    churn: float = 0.5
    memory: float = 0.9
    hottest: float = 0.25

    def __post_init__(self) -> None:
        """Check the numbers."""
        read_numbers(self)
        check_int("vips.vips", self.vips, 1, 10_000_000)
        check_int("vips.racks", self.racks, 1, 1_000_000)
        check_int("vips.servers", self.servers, 1)
        check_int("vips.most_dips", self.most_dips, LEAST_DIPS)
        check_positive("vips.total", self.total_bps)
        check_range("vips.internet", self.internet, 0.0, 1 - CALLED_BYTES)
        check_range("vips.diurnal", self.diurnal, 0.0, 0.9)
        check_range("vips.churn", self.churn, 0.0, 3.0)
        check_range("vips.memory", self.memory, 0.0, 1.0)
        check_range("vips.hottest", self.hottest, 0.01, 100.0)

    def draw(self, seed: int, epochs: int = 1) -> list[VipTable]:
        """Return a trace, an epoch of ten minutes each; DIPs stay where they are.

        Args:
            seed: Seed.
            epochs: Number of epochs.

        Raises:
            ConfigError: The number is not allowed.
        """
        epochs = check_int("vips.epochs", epochs, 1)
        generator = np.random.default_rng(seed)
        first = self._first(generator)
        tables, state = [first], np.zeros(self.vips)
        phase = generator.uniform(0, 2 * np.pi)
        for epoch in range(1, epochs):
            noise = generator.standard_normal(self.vips)
            state = self.memory * state + np.sqrt(1 - self.memory**2) * self.churn * noise
            day = 1 + self.diurnal * (
                np.sin(phase + 2 * np.pi * epoch / EPOCHS_PER_DAY) - np.sin(phase)
            )
            tables.append(self._at(first, np.exp(state), day))
        return tables

    def sizes(self) -> FloatArray:
        """Return the traffic of each VIP in bit/s, the largest first, (V,).

        They are quantiles of a lognormal distribution, cut off at the largest; its deviation is
        that at which the top tenth has its share of the bytes.
        """
        normal = NormalDist()
        ranks = (np.arange(self.vips) + 0.5) / self.vips
        scores = np.array([normal.inv_cdf(1 - rank) for rank in ranks])
        n_top = max(1, round(TOP * self.vips))
        mean = TOP_BYTES / n_top
        largest = max(min(LARGEST_OVER_TOP_MEAN * mean, LARGEST), LEAST_OVER_TOP_MEAN * mean)

        def shares(deviation: float) -> FloatArray:
            raw = np.exp(deviation * (scores - scores[0]))
            # The limit is of the whole, which it changes: a few rounds settle it.
            for _ in range(8):
                raw = np.minimum(raw, largest * raw.sum())
            share: FloatArray = raw / raw.sum()
            return share

        low, high = 0.0, 8.0
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (
                (low, middle) if shares(middle)[:n_top].sum() > TOP_BYTES else (middle, high)
            )
        return self.total_bps * shares(high)

    def _at(self, first: VipTable, factors: FloatArray, day: float) -> VipTable:
        """Return the table of an epoch: sizes times their factors, scaled to the day's total."""
        vip = np.repeat(np.arange(self.vips), first.n_sources)
        total = float((first.bps * factors).sum())
        factors = factors * (self.total_bps * day / total)
        return replace(
            first,
            source_bps=first.source_bps * factors[vip],
            internet_bps=first.internet_bps * factors,
        )

    def _first(self, generator: np.random.Generator) -> VipTable:
        sizes = self.sizes()
        level = self._levels(generator)
        dip_start, dip_rack, dip_count = self._dips(generator, sizes)
        internet = self._internet(generator, sizes, level)
        spread = np.minimum(sizes / sizes[max(0, round(TOP * self.vips) - 1)], 1.0)
        wanted = generator.uniform(0, SOURCE_SPREAD, self.vips) * spread * self.racks
        from_racks = sizes * (1 - internet)
        most_bps = self.hottest * self.total_bps / self.racks
        least = np.minimum(np.ceil(from_racks / most_bps * SLACK), self.racks)
        counts = np.clip(np.round(wanted), np.maximum(least, 1), self.racks).astype(np.int64)
        skews = generator.uniform(1, MOST_SKEW, self.vips)
        callers = [np.flatnonzero(level == one) for one in range(CALLED_LEVELS + 1)]
        racks, rates = [], []
        for vip in range(self.vips):
            own = counts[vip]
            above = callers[level[vip] - 1] if level[vip] else callers[0][:0]
            if len(above):
                pool = _callers_racks(generator, above, own, dip_start, dip_rack)
                chosen = generator.choice(pool, min(own, len(pool)), replace=False)
            else:
                chosen = generator.choice(self.racks, own, replace=False)
            # Percentile 99 over median of a lognormal distribution is exp(2.33 sigma).
            weight = np.exp(np.log(skews[vip]) / 2.326348 * generator.standard_normal(len(chosen)))
            racks.append(chosen)
            rates.append(_limited(weight, from_racks[vip], most_bps))
        lengths = [len(one) for one in racks]
        return VipTable(
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64),
            np.concatenate(racks).astype(np.uint32),
            np.concatenate(rates),
            sizes * internet,
            dip_start.astype(np.uint64),
            dip_rack.astype(np.uint32),
            dip_count.astype(np.uint32),
            level,
        )

    def _levels(self, generator: np.random.Generator) -> npt.NDArray[np.int64]:
        """Draw which VIPs others call: of large ones fewer, so that bytes and numbers fit."""
        n_top = round(TOP * self.vips)
        small = (CALLED - TOP / TOP_BYTES * CALLED_BYTES) / (
            1 - TOP - TOP * (1 - TOP_BYTES) / TOP_BYTES
        )
        large = (CALLED_BYTES - (1 - TOP_BYTES) * small) / TOP_BYTES
        chance = np.where(np.arange(self.vips) < n_top, large, small)
        # Systematic sampling: neighbours in size are not called together.
        offset = generator.uniform()
        total = np.cumsum(chance) + offset
        called = np.floor(total) > np.floor(total - chance)
        levels = generator.integers(1, CALLED_LEVELS + 1, self.vips)
        return np.where(called, levels, 0).astype(np.int64)

    def _internet(
        self, generator: np.random.Generator, sizes: FloatArray, level: npt.NDArray[np.int64]
    ) -> FloatArray:
        """Draw which share of each VIP's bytes the Internet sends: of called ones nothing."""
        drawn = np.where(level == 0, generator.uniform(0, 1, self.vips), 0.0)
        found = float((drawn * sizes).sum() / sizes.sum())
        if found <= 0:
            return drawn
        # A power moves the mean and leaves shares between 0 and 1.
        low, high = 0.0, 64.0
        for _ in range(50):
            power = (low + high) / 2
            mean = float((np.where(level == 0, drawn**power, 0.0) * sizes).sum() / sizes.sum())
            low, high = (power, high) if mean > self.internet else (low, power)
        return np.where(level == 0, drawn**high, 0.0)

    def _dips(
        self, generator: np.random.Generator, sizes: FloatArray
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Draw the DIPs: their numbers follow the traffic, their racks are any."""
        wanted = np.round(sizes / sizes.sum() * self.servers).astype(np.int64)
        dips = np.clip(wanted, LEAST_DIPS, self.most_dips)
        spread = generator.uniform(0, DIP_SPREAD, self.vips) * self.racks
        least = np.ceil(dips * self.racks / self.servers / self.hottest).astype(np.int64)
        most = np.minimum(dips, self.racks)
        counts = np.clip(np.round(spread).astype(np.int64), np.clip(least, 1, most), most)
        racks, numbers = [], []
        for n_dips, n_racks in zip(dips.tolist(), counts.tolist(), strict=True):
            racks.append(generator.choice(self.racks, n_racks, replace=False))
            each, rest = divmod(n_dips, n_racks)
            numbers.append(each + (np.arange(n_racks) < rest))
        start = np.concatenate([[0], np.cumsum(counts)])
        return start, np.concatenate(racks), np.concatenate(numbers)


def _limited(weight: FloatArray, total_bps: float, most_bps: float) -> FloatArray:
    """Divide a rate by weights, none above a limit but where all together must be."""
    most_bps = max(most_bps, total_bps / len(weight))
    rates: FloatArray = weight * (total_bps / weight.sum())
    for _ in range(len(weight)):
        over = rates >= most_bps
        if not (rates > most_bps * (1 + 1e-9)).any():
            break
        rates = np.where(over, most_bps, rates)
        rest = total_bps - most_bps * over.sum()
        rates[~over] *= rest / rates[~over].sum()
    return rates


def _callers_racks(
    generator: np.random.Generator,
    callers: npt.NDArray[np.int64],
    wanted: int,
    dip_start: npt.NDArray[np.int64],
    dip_rack: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Return the racks of the DIPs of some callers, as many as give the racks that are wanted."""
    pool = np.empty(0, np.int64)
    for number in generator.integers(len(callers), size=MOST_CALLERS).tolist():
        caller = callers[number]
        pool = np.union1d(pool, dip_rack[dip_start[caller] : dip_start[caller + 1]])
        if len(pool) >= wanted:
            break
    return pool
