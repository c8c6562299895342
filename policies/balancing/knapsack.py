"""KnapsackLB: latency curves of the servers, and weights by a dynamic program over them.

Gandhi, Narayana: "KnapsackLB", arXiv 2404.17783. A controller learns each server's latency as a
function of its share of the flows, and picks the shares with the least mean latency: a
multiple-choice knapsack. When a measured latency leaves its curve, the curve is stretched.

What differs here, all of it our choice: the published controller sends requests of its own; this
one sees flows of its balancer, and takes their latency from Little's law, flows under way over
flows that end a second. It explores with half of the servers up and the other half down, in turn,
in the place of one server after the other. A dynamic program solves the knapsack, so that curves
need not be convex.

At high load the latencies of equal servers differ by as much as their mean. So that this is not
taken for a difference between them, curves are over the configured share; they are shrunk to those
of servers of the same configured weight (`curves.py`); and a curve is stretched alone only where
its server has left it by far more than half of the servers have left theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from dcgym.config import check_seconds
from dcgym.policies.balancing.base import TIME_SLACK_S, SlowLoopPolicy
from dcgym.policies.balancing.curves import Looks, latencies_of, learn_curves, stretch_of
from dcgym.policies.base import Action, FloatArray, Info, Observation

__all__ = ["KnapsackPolicy", "least_cost_units", "little_latency_s"]

# Our choice, all of them but FULL, which is the paper's (second-hand).
PERIOD_S = 5.0
SETTLING = 0.2  # of a period, after a change of the weights
FLOWS = 8.0  # that half of the servers in the pool end in a round; until then it goes on
# Of the first share: a quarter of the servers at a time get half of it, then halves take turns.
LOW, OTHERS = 0.5, 7 / 6
HIGHEST = 1.2
HALVES = ((HIGHEST, 0.8), (0.8, HIGHEST))
QUARTERS = 4
ROUNDS = 1 + QUARTERS + len(HALVES)
FILLING = 4  # passes that share out what full servers leave
BEYOND = 1.2  # times the largest share explored, the most that a server gets
FULL = 5.0  # times a server's least latency
LEAST_RISE = 0.05  # of a curve over its least latency; that one over the one at the first share
LEFT = 2.0  # factor by which a latency has to leave its curve, up or down
TYPICAL = 4.0  # times the deviation of half of the servers, likewise
MEMORY_FLOWS = 100.0  # of a server, over which its deviation is averaged
GAIN = 0.2  # of a stretch at most, in its logarithm
MOST_STRETCH = 4.0
UNITS, UNITS_PER_SERVER = 100, 32


def little_latency_s(ongoing: FloatArray, completed: FloatArray, passed_s: float) -> FloatArray:
    """Return the mean time of flows at each server by Little's law; NaN where none was seen.

    Args:
        ongoing: Mean number of flows under way, over the moments at which it was looked at.
        completed: Flows that ended. Where none did, one is counted: the true time is longer.
        passed_s: Time in which they did.
    """
    found: FloatArray = ongoing * passed_s / np.maximum(completed, 1.0)
    return np.where(ongoing > 0, found, np.nan)


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


def _half_of(values: FloatArray) -> FloatArray:
    """Return what half of the servers, on the last axis, have or less: the lower median."""
    middle: FloatArray = np.sort(values, axis=-1)[..., (values.shape[-1] - 1) // 2]
    return middle


class KnapsackPolicy(SlowLoopPolicy):
    """Learn the servers' latency curves, then give each the flows that cost all of them least.

    One balancer an agent: shares are those of its flows.
    """

    def __init__(self, period_s: float = PERIOD_S) -> None:
        """Choose the period.

        Args:
            period_s: Seconds between two updates of the weights; the first seven explore, and are
                longer where few flows end.
        """
        super().__init__("knapsack", "round-robin-learned", check_seconds("period_s", period_s))

    @property
    def curves(self) -> FloatArray | None:
        """Latency in s of each server, a + b x + c x^2, (N, 3); None at first.

        x is the share over the configured one, above the least one explored.
        """
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
        self._peers = [np.flatnonzero(weights == weight) for weight in np.unique(weights)]
        self._seen: list[tuple[FloatArray, FloatArray, FloatArray]] = []
        self._least = 0.0
        self._left, self._typical = np.zeros(n), 0.0
        self._curves: FloatArray | None = None
        self._stretches = np.ones(n)
        self._changed_s = self._now_s
        return first.copy()

    def _update(self, weights: FloatArray, servers: Mapping[str, FloatArray]) -> FloatArray:
        completed = np.asarray(servers["completed"], np.float64) - self._completed
        latencies_s = self._latencies_s(completed)
        if self._curves is None:
            # Queues forget with the flows that they serve, not with seconds.
            serving = completed[np.asarray(servers["eligible"], np.bool_)]
            if not len(serving) or _half_of(serving) < FLOWS:
                return weights
            self._shares = self._explore(latencies_s, completed)
        else:
            self._stretch(latencies_s, completed)
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

    def _latencies_s(self, completed: FloatArray) -> FloatArray:
        passed_s = self._now_s - self._from_s
        if not self._looks or passed_s <= 0:
            return np.full(len(self._shares), np.nan)
        return little_latency_s(self._ongoing / self._looks, completed, passed_s)

    def _explore(self, latencies_s: FloatArray, completed: FloatArray) -> FloatArray:
        """Keep what a round has shown, and return the shares of the next one, or the best."""
        self._seen.append((self._shares.copy(), latencies_s, np.maximum(completed, 1.0)))
        if len(self._seen) == ROUNDS:
            self._curves = self._fit()
            return self._programme()
        factors = explored_factors(len(self._seen), len(self._shares))
        wanted: FloatArray = factors * self._first / (factors @ self._first)
        # What full servers leave must not fill the others: they keep what nobody else may have.
        most = np.minimum(np.maximum(wanted, HIGHEST * self._first), self._most())
        shares: FloatArray = np.minimum(wanted, most)
        for _ in range(FILLING):
            shares = np.minimum(shares / shares.sum(), most)
        taken = np.maximum(wanted - shares, 0.0)
        shares += taken * ((1.0 - shares.sum()) / max(taken.sum(), np.finfo(float).tiny))
        return shares

    def _most(self) -> FloatArray:
        """Return how much each server may get: half of what it was full with."""
        shares, known, _ = (np.array(part) for part in zip(*self._seen, strict=True))
        is_full = np.isfinite(known) & ~self._useful()
        most: FloatArray = np.where(is_full, shares / 2, np.inf).min(axis=0)
        return most

    def _useful(self) -> npt.NDArray[np.bool_]:
        """Tell which latencies are those of servers that were not full, shape (rounds, N)."""
        known = np.array([found for _, found, _ in self._seen])
        known = np.where(np.isfinite(known), known, np.inf)
        least = known.min(axis=0)
        for peers in self._peers:
            # The least of some noisy latencies is too low; that of their medians is less so.
            least[peers] = np.maximum(least[peers], np.median(known[:, peers], axis=1).min())
        risen = known / np.where(np.isfinite(least), least, 1.0)
        # Where half of the servers have risen, it is the load of all.
        half = np.maximum(_half_of(risen), 1.0)
        useful: npt.NDArray[np.bool_] = np.isfinite(known) & (risen < FULL * half[:, None])
        return useful

    def _fit(self) -> FloatArray:
        """Return the curve of each server by its share over the first one, (N, 3)."""
        shares, latencies_s, flows = (np.array(part) for part in zip(*self._seen, strict=True))
        useful = self._useful()
        # Peers have the same factor, but for the last digits.
        factors = np.round(shares / self._first, 9)
        self._least = float(factors[useful].min(initial=1.0))
        above = np.maximum(factors - self._least, 0.0)
        curves = learn_curves(Looks(above, latencies_s, flows, useful), self._peers)
        # A curve that is flat by chance, or begins at 0, could not be stretched.
        at_first_s = latencies_of(curves, np.full(len(curves), 1.0 - self._least))
        curves[:, 0] = np.maximum(curves[:, 0], LEAST_RISE * at_first_s)
        curves[:, 1] = np.maximum(curves[:, 1], LEAST_RISE * curves[:, 0])
        return curves

    def _above(self, shares: FloatArray, stretches: FloatArray) -> FloatArray:
        """Return where on the curves shares are."""
        found: FloatArray = np.maximum(shares / stretches - self._least, 0.0)
        return found

    def _stretch(self, latencies_s: FloatArray, completed: FloatArray) -> None:
        """Stretch the curves that the latencies have left, and others' have not."""
        assert self._curves is not None
        factors = self._shares / self._first
        expected_s = latencies_of(self._curves, self._above(factors, self._stretches))
        known = np.where(np.isfinite(latencies_s), latencies_s, expected_s * np.exp(self._left))
        kept = np.exp(-np.maximum(completed, 1.0) / MEMORY_FLOWS)
        self._left = kept * self._left + (1 - kept) * np.log(known / expected_s)
        gain = np.minimum(GAIN, 1 - kept)
        for server, left in enumerate(self._significant(float(kept.max()))):
            latency_s = expected_s[server] * np.exp(left)
            found = stretch_of(self._curves[server], factors[server], latency_s, self._least)
            if left and np.isfinite(found):
                step = (found / self._stretches[server]) ** gain[server]
                stretched = np.clip(self._stretches[server] * step, 1 / MOST_STRETCH, MOST_STRETCH)
                self._stretches[server] = stretched
        # What the stretch explains has not left the curve.
        now_s = latencies_of(self._curves, self._above(factors, self._stretches))
        self._left += np.log(expected_s / now_s)

    def _significant(self, kept: float) -> FloatArray:
        """Return how far each server has left its curve, as a logarithm; 0 for what is chance.

        Args:
            kept: Weight of the past in the typical deviation.
        """
        common = np.zeros(len(self._left))
        for peers in self._peers:
            common[peers] = _half_of(self._left[peers])
        own = self._left - common
        self._typical = kept * self._typical + (1 - kept) * float(_half_of(np.abs(own)))
        chance = TYPICAL * self._typical
        found = np.where(np.abs(own) > max(np.log(LEFT), chance), self._left, 0.0)
        for peers in self._peers:
            if np.abs(common[peers[0]]) > max(np.log(LEFT), chance / np.sqrt(len(peers))):
                others = peers[found[peers] == 0]
                found[others] = common[others]
        return found

    def _programme(self) -> FloatArray:
        """Return the shares of the least mean latency, none far beyond what was explored."""
        assert self._curves is not None
        n = len(self._shares)
        units = max(UNITS, UNITS_PER_SERVER * n)
        explored = np.where(self._useful(), [seen[0] for seen in self._seen], 0.0).max(axis=0)
        most = np.maximum(BEYOND * explored * self._stretches * units, 1.0)
        if most.sum() < units + n:
            most *= (units + n) / most.sum()
        costs = []
        for server, limit in enumerate(most):
            shares = np.arange(1, min(int(limit), units) + 1) / units
            at = self._above(shares / self._first[server], self._stretches[server])
            costs.append(shares * latencies_of(self._curves[server], at))
        found: FloatArray = least_cost_units(costs, units) / units
        return found
