"""Latency curves of servers: fitted, shrunk to those of their peers, and stretched.

A curve has three numbers, a, b and c: the latency is a + b w + c w^2 at a share w.

One server's few latencies say little: at high load they differ between equal servers by as much as
their mean. `learn_curves` therefore believes what is common to more servers first, and of every
difference only what chance does not explain: first a shape for all of them, then the servers of
each configured weight, then each server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.policies.base import FloatArray

__all__ = ["Looks", "fit_curve", "latencies_of", "learn_curves", "shrunk", "stretch_of"]

CHANCE = 5.0
"""Mean square of a difference over the noise's, up to which it counts as chance; our choice."""

ORDERS = np.arange(3)
UNKNOWN = np.array([1.0, 0.0, 0.0])


@dataclass(frozen=True)
class Looks:
    """What was seen of servers: one row a round, one column a server.

    Attributes:
        shares: Shares of the flows, in any unit, above the least one of all.
        latencies_s: Latency at each of them; NaN where none was seen.
        flows: Flows behind each latency.
        useful: Which of them count.
    """

    shares: FloatArray
    latencies_s: FloatArray
    flows: FloatArray
    useful: npt.NDArray[np.bool_]

    def of(self, servers: npt.NDArray[np.intp]) -> Looks:
        """Return those of some servers.

        Args:
            servers: Their numbers.
        """
        return Looks(
            self.shares[:, servers],
            self.latencies_s[:, servers],
            self.flows[:, servers],
            self.useful[:, servers],
        )

    def mean_s(self) -> float:
        """Return the mean latency of all flows; NaN without any."""
        flows = np.where(self.useful, self.flows, 0.0)
        total = float((flows * np.nan_to_num(self.latencies_s)).sum())
        return total / float(flows.sum()) if flows.sum() > 0 else np.nan


def fit_curve(shares: FloatArray, latencies_s: FloatArray) -> FloatArray:
    """Return a, b, c of the latency a + b w + c w^2 with the least relative squared error.

    None of them is negative, so that the curve falls nowhere.

    Args:
        shares: Shares of the flows, shape (K,).
        latencies_s: The latency at each of them, above 0.
    """
    powers = shares[:, None] ** ORDERS / latencies_s[:, None]
    best, least = np.zeros(3), np.inf
    # Of three unknowns every set of those above 0 can be tried.
    for chosen in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        found = np.zeros(3)
        found[list(chosen)] = np.linalg.lstsq(powers[:, chosen], np.ones(len(shares)))[0]
        error = float(np.square(powers @ found - 1).sum())
        if (found >= 0).all() and error < least:
            best, least = found, error
    return best


def latencies_of(curves: FloatArray, shares: FloatArray) -> FloatArray:
    """Return the latency in s of each curve, (..., 3), at a share, (...)."""
    found: FloatArray = (curves * shares[..., None] ** ORDERS).sum(axis=-1)
    return found


def shrunk(own: FloatArray, common: FloatArray, shares: FloatArray, noise: float) -> FloatArray:
    """Return a curve with that part of its difference from the common one that chance leaves.

    Args:
        own: Curve of the latencies seen.
        common: The one that it had if nothing were known of it.
        shares: Where they were seen.
        noise: Mean square of the relative error of one of them.
    """
    mine, others = latencies_of(own, shares), latencies_of(common, shares)
    sums = np.maximum(mine + others, np.finfo(float).tiny)
    # Chance alone gives each of the three numbers of a fit the noise of one latency.
    square = float(np.square(2 * (mine - others) / sums).sum()) / len(ORDERS)
    by_chance = CHANCE * noise
    kept = 1 - by_chance / square if square > by_chance else 0.0
    return common + kept * (own - common)


def learn_curves(looks: Looks, groups: Sequence[npt.NDArray[np.intp]]) -> FloatArray:
    """Return the curve of each server, (N, 3).

    Args:
        looks: What was seen of them.
        groups: Numbers of the servers that are equal as far as is configured.
    """
    own, noise = _own_curves(looks)
    means_s = np.array([looks.of(group).mean_s() for group in groups])
    if not np.isfinite(means_s).any():
        return np.tile(UNKNOWN, (len(own), 1))
    means_s = np.where(np.isfinite(means_s), means_s, np.nanmean(means_s))
    scales = np.ones(len(own))
    for group, mean_s in zip(groups, means_s, strict=True):
        scales[group] = mean_s
    scaled = Looks(looks.shares, looks.latencies_s / scales, looks.flows, looks.useful)
    shape = _pooled_curve(scaled)
    curves = np.zeros_like(own)
    for group, mean_s in zip(groups, means_s, strict=True):
        part = looks.of(group)
        common = mean_s * shape
        if part.useful.any():
            common = shrunk(_pooled_curve(part), common, part.shares[part.useful], noise)
        for server in group:
            seen = looks.shares[looks.useful[:, server], server]
            curves[server] = shrunk(own[server], common, seen, noise) if len(seen) else common
    return curves


def _own_curves(looks: Looks) -> tuple[FloatArray, float]:
    """Return a curve for each server by what was seen of it, and the noise of one latency."""
    curves = np.zeros((looks.shares.shape[1], len(ORDERS)))
    errors, free = 0.0, 0
    for server, useful in enumerate(looks.useful.T):
        shares, latencies_s = looks.shares[useful, server], looks.latencies_s[useful, server]
        if not len(shares):
            continue
        curves[server] = fit_curve(shares, latencies_s)
        ratios = latencies_of(curves[server], shares) / latencies_s
        errors += float(np.square(ratios - 1).sum())
        free += max(len(shares) - len(ORDERS), 0)
    return curves, errors / max(free, 1)


def _pooled_curve(looks: Looks) -> FloatArray:
    """Return the curve of all flows together, at each share of each round by Little's law.

    The mean comes before the fit: the least relative error is that of the least latencies.
    """
    points = []
    for shares, latencies_s, flows, useful in zip(
        looks.shares, looks.latencies_s, looks.flows, looks.useful, strict=True
    ):
        for share in np.unique(shares[useful]):
            chosen = useful & (shares == share)
            points.append((share, np.average(latencies_s[chosen], weights=flows[chosen])))
    return fit_curve(*np.array(points).T)


def stretch_of(
    curve: FloatArray, share: float, latency_s: float, least_share: float = 0.0
) -> float:
    """Return the s for which a curve of w / s has this latency at this share.

    Args:
        curve: Its a, b and c.
        share: The share.
        latency_s: The latency; at or below the curve's least one it says nothing.
        least_share: Share at which the curve begins.

    Returns:
        Below 1 where the server has become slower; NaN where the latency says nothing.
    """
    a, b, c = curve
    if latency_s <= a or share <= 0:
        return np.nan
    beyond = latency_s - a
    # The root of c x^2 + b x - beyond, in a form that holds for c = 0 too.
    at = 2 * beyond / (b + np.sqrt(b * b + 4 * c * beyond))
    return float(share / (least_share + at))
