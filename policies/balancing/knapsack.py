"""KnapsackLB: latency curves of the servers, and weights by a dynamic program over them.

Gandhi, Narayana: "KnapsackLB", arXiv 2404.17783. A controller learns each server's latency as a
function of its share of the flows, and picks the shares with the least mean latency: a
multiple-choice knapsack. When a measured latency leaves its curve, the curve is stretched.

What differs here, all of it our choice: the published controller sends requests of its own; this
one sees flows of its balancer, and takes their latency from Little's law, flows under way over
flows that end a second. It explores with half of the servers up and the other half down, in turn,
in the place of one server after the other. A dynamic program solves the knapsack, so that curves
need not be convex.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from dcgym.config import check_positive
from dcgym.policies.balancing.base import TIME_SLACK_S, SlowLoopPolicy
from dcgym.policies.base import Action, FloatArray, Info, Observation

__all__ = ["KnapsackPolicy", "fit_curve", "least_cost_units", "little_latency_s", "stretch_of"]

# Our choice, all of them but FULL, which is the paper's (second-hand).
PERIOD_S = 5.0
SETTLING = 0.2  # of a period, after a change of the weights
# Of the first share: a quarter of the servers at a time get half of it, then halves take turns.
LOW, OTHERS = 0.5, 7 / 6
HALVES = ((1.2, 0.8), (0.8, 1.2))
QUARTERS = 4
ROUNDS = 1 + QUARTERS + len(HALVES)
FULL = 5.0  # times a server's least latency
LEAST_RISE = 0.05  # of a curve, from no flows to the first share
LEFT = 2.0  # factor by which a latency has to leave its curve, up or down
MEMORY = 0.5  # of the mean latency, from period to period
GAIN = 0.2  # of a stretch, in its logarithm
MOST_STRETCH = 4.0
UNITS, UNITS_PER_SERVER = 100, 16


def little_latency_s(ongoing: FloatArray, completed: FloatArray, passed_s: float) -> FloatArray:
    """Return the mean time of flows at each server by Little's law; NaN where none was seen.

    Args:
        ongoing: Mean number of flows under way, over the moments at which it was looked at.
        completed: Flows that ended. Where none did, one is counted: the true time is longer.
        passed_s: Time in which they did.
    """
    found: FloatArray = ongoing * passed_s / np.maximum(completed, 1.0)
    return np.where(ongoing > 0, found, np.nan)


def fit_curve(shares: FloatArray, latencies_s: FloatArray) -> FloatArray:
    """Return a, b, c of the latency a + b w + c w^2 with the least relative squared error.

    None of them is negative, so that the curve falls nowhere.

    Args:
        shares: Shares of the flows, shape (K,).
        latencies_s: The latency at each of them, above 0.
    """
    powers = np.stack([np.ones_like(shares), shares, shares**2], axis=1) / latencies_s[:, None]
    best, least = np.zeros(3), np.inf
    # Of three unknowns every set of those above 0 can be tried.
    for chosen in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        found = np.zeros(3)
        found[list(chosen)] = np.linalg.lstsq(powers[:, chosen], np.ones(len(shares)))[0]
        error = float(np.square(powers @ found - 1).sum())
        if (found >= 0).all() and error < least:
            best, least = found, error
    return best


def explored_factors(number: int, servers: int) -> FloatArray:
    """Return the share of each server in a round of exploration, over its first share.

    Args:
        number: Number of the round, below `ROUNDS`. The first one is as configured; then a quarter
            of the servers after the other gets less; then one half, and then the other, gets more.
        servers: Number of servers.
    """
    index = np.arange(servers)
    if number == 0:
        return np.ones(servers)
    if number <= QUARTERS:
        return np.where(index % QUARTERS == number - 1, LOW, OTHERS)
    return np.where(index % 2 == 0, *HALVES[number - 1 - QUARTERS])


def least_cost_units(costs: Sequence[FloatArray], units: int) -> npt.NDArray[np.int64]:
    """Return how many units each server gets for the least sum of costs.

    Args:
        costs: For each server its cost with 1, 2, ... units; it cannot have more.
        units: Units that are given away, as many as there are servers or more.

    Returns:
        The units of each server, shape (N,), 1 or more; they add up to `units`.
    """
    best = np.full(units + 1, np.inf)
    best[0] = 0.0
    taken = np.zeros((len(costs), units + 1), np.int64)
    for server, cost in enumerate(costs):
        found = np.full(units + 1, np.inf)
        for count in range(1, min(len(cost), units) + 1):
            total = best[: units + 1 - count] + cost[count - 1]
            is_less = total < found[count:]
            found[count:][is_less] = total[is_less]
            taken[server, count:][is_less] = count
        best = found
    given = np.zeros(len(costs), np.int64)
    left = units
    for server in reversed(range(len(costs))):
        given[server] = taken[server, left]
        left -= given[server]
    return given


def stretch_of(curve: FloatArray, share: float, latency_s: float) -> float:
    """Return the s for which a curve of w / s has this latency at this share.

    Args:
        curve: Its a, b and c.
        share: The share.
        latency_s: The latency; at or below the curve's least one it says nothing.

    Returns:
        Below 1 where the server has become slower; NaN where the latency says nothing.
    """
    a, b, c = curve
    if latency_s <= a or share <= 0:
        return np.nan
    beyond = latency_s - a
    # The root of c x^2 + b x - beyond, in a form that holds for c = 0 too.
    at = 2 * beyond / (b + np.sqrt(b * b + 4 * c * beyond))
    return float(share / at)


class KnapsackPolicy(SlowLoopPolicy):
    """Learn the servers' latency curves, then give each the flows that cost all of them least.

    One balancer an agent: shares are those of its flows.
    """

    def __init__(self, period_s: float = PERIOD_S) -> None:
        """Choose the period.

        Args:
            period_s: Seconds between two updates of the weights; the first seven explore.
        """
        super().__init__("knapsack", "round-robin-learned", check_positive("period_s", period_s))

    @property
    def curves(self) -> FloatArray | None:
        """Latency in s of each server by its share, a + b w + c w^2, (N, 3); None at first."""
        return self._curves

    @property
    def shares(self) -> FloatArray:
        """Share of the flows that each server gets now, (N,)."""
        return self._shares.copy()

    def act(self, observation: Observation, info: Info) -> Action:
        """Count the flows under way, and return the weights in force.

        Args:
            observation: Not looked at.
            info: What `reset` or `step` returned last.
        """
        self._now_s = float(info["time_s"])
        begins = self._now_s == 0 or not self._weights.size
        servers: Mapping[str, FloatArray] = info["servers"]
        if not begins:
            self._count(servers)
        action = super().act(observation, info)
        if begins:
            self._restart(servers)
        return action

    def _begin(self) -> FloatArray:
        n = len(self.task.configured_weights)
        weights = np.asarray(self.task.configured_weights, np.float64)
        first: FloatArray = weights / weights.sum()
        self._first, self._shares = first, first
        self._means_s = np.full(n, np.nan)
        self._seen: list[tuple[FloatArray, FloatArray]] = []
        self._curves: FloatArray | None = None
        self._stretches = np.ones(n)
        self._changed_s = self._now_s
        return first.copy()

    def _update(self, weights: FloatArray, servers: Mapping[str, FloatArray]) -> FloatArray:
        latencies_s = self._latencies_s(servers)
        if self._curves is None:
            self._shares = self._explore(latencies_s)
        else:
            self._stretch(latencies_s)
            self._shares = self._programme()
        self._changed_s = self._now_s
        self._restart(servers)
        return self._shares.copy()

    def _restart(self, servers: Mapping[str, FloatArray]) -> None:
        """Begin to count flows."""
        self._from_s = self._now_s
        self._completed = np.asarray(servers["completed"], np.float64).copy()
        self._ongoing, self._looks = np.zeros(len(self._completed)), 0

    def _count(self, servers: Mapping[str, FloatArray]) -> None:
        if self._now_s < self._changed_s + SETTLING * self._period_s - TIME_SLACK_S:
            return self._restart(servers)
        # Flows that a full server turned away stay in the table until they time out.
        begun = np.asarray(servers["flows"], np.float64) - servers["completed"]
        self._ongoing += np.clip(begun, 0.0, servers["ongoing"])
        self._looks += 1

    def _latencies_s(self, servers: Mapping[str, FloatArray]) -> FloatArray:
        passed_s = self._now_s - self._from_s
        if not self._looks or passed_s <= 0:
            return np.full(len(self._shares), np.nan)
        completed = np.asarray(servers["completed"], np.float64) - self._completed
        return little_latency_s(self._ongoing / self._looks, completed, passed_s)

    def _explore(self, latencies_s: FloatArray) -> FloatArray:
        """Keep what a round has shown, and return the shares of the next one, or the best."""
        self._seen.append((self._shares.copy(), latencies_s))
        if len(self._seen) == ROUNDS:
            self._curves = self._fit()
            return self._programme()
        factors = explored_factors(len(self._seen), len(self._shares))
        wanted = np.minimum(factors * self._first, self._most())
        shares: FloatArray = wanted / wanted.sum()
        return shares

    def _most(self) -> FloatArray:
        """Return how much each server may get: half of what it was full with."""
        shares, known = (np.array(part) for part in zip(*self._seen, strict=True))
        is_full = np.isfinite(known) & ~self._useful()
        most: FloatArray = np.where(is_full, shares / 2, np.inf).min(axis=0)
        return most

    def _useful(self) -> npt.NDArray[np.bool_]:
        """Tell which latencies are those of servers that were not full, shape (rounds, N)."""
        known = np.array([found for _, found in self._seen])
        least = np.where(np.isfinite(known), known, np.inf).min(axis=0)
        useful: npt.NDArray[np.bool_] = known < FULL * least
        return useful

    def _fit(self) -> FloatArray:
        """Return the curve of each server, (N, 3); the mean of the others' where none is known."""
        n, useful = len(self._shares), self._useful()
        curves = np.full((n, 3), np.nan)
        for server in range(n):
            points = np.array([(shares[server], found[server]) for shares, found in self._seen])
            points = points[useful[:, server]]
            if len(points):
                curves[server] = fit_curve(points[:, 0], points[:, 1])
        is_known = np.isfinite(curves[:, 0])
        mean = curves[is_known].mean(axis=0) if is_known.any() else np.array([1.0, 0.0, 0.0])
        curves = np.where(is_known[:, None], curves, mean)
        # A curve that is flat by chance could neither be stretched nor say when it is enough.
        curves[:, 1] = np.maximum(curves[:, 1], LEAST_RISE * curves[:, 0] / self._first)
        return curves

    def _stretch(self, latencies_s: FloatArray) -> None:
        """Stretch the curves that the mean of measured latencies has left."""
        assert self._curves is not None
        kept = np.where(np.isfinite(self._means_s), MEMORY, 0.0)
        means_s = kept * np.nan_to_num(self._means_s) + (1 - kept) * latencies_s
        self._means_s = np.where(np.isfinite(means_s), means_s, self._means_s)
        for server, latency_s in enumerate(self._means_s):
            at = self._shares[server] / self._stretches[server]
            expected_s = float(self._curves[server] @ [1.0, at, at * at])
            if np.isnan(latency_s) or 1 / LEFT <= latency_s / expected_s <= LEFT:
                continue
            found = stretch_of(self._curves[server], self._shares[server], latency_s)
            if np.isfinite(found):
                step = (found / self._stretches[server]) ** GAIN
                stretched = np.clip(self._stretches[server] * step, 1 / MOST_STRETCH, MOST_STRETCH)
                self._stretches[server] = stretched

    def _programme(self) -> FloatArray:
        """Return the shares of the least mean latency, none beyond what was explored."""
        assert self._curves is not None
        n = len(self._shares)
        units = max(UNITS, UNITS_PER_SERVER * n)
        explored = np.where(self._useful(), [shares for shares, _ in self._seen], 0.0).max(axis=0)
        most = np.maximum(explored * self._stretches * units, 1.0)
        if most.sum() < units + n:
            most *= (units + n) / most.sum()
        costs = []
        for (a, b, c), stretch, limit in zip(self._curves, self._stretches, most, strict=True):
            shares = np.arange(1, min(int(limit), units) + 1) / units
            at = shares / stretch
            costs.append(shares * (a + b * at + c * at * at))
        found: FloatArray = least_cost_units(costs, units) / units
        return found
