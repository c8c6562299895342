"""Processes of arrivals: gaps that pass at a rate, which may change by itself.

A process is a description alone. `arrival_times_ns` draws from it ahead, for plans and requests;
the compiled twin draws from it while it runs. Their drawn numbers differ, their model does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dcgym.traffic.sizes.distributions import Distribution
from dcgym.traffic.sizes.draws import Draws
from dcgym.traffic.sizes.samplers import Exponential, Sampler

__all__ = ["MAX_USERS", "Modulation", "Process", "Recording", "Users", "process_times_ns"]

MAX_USERS = 1_000_000

FloatArray = npt.NDArray[np.float64]

POISSON = Exponential(1.0)


@dataclass(frozen=True)
class Modulation:
    """How the rate of arrivals changes by itself: factors whose mean over time is 1.

    Attributes:
        factors: On the rate, one for each state.
        times_ns: How long each state lasts: on average where it is Markovian, else exactly.
        is_markov: Times are exponential, and any other state follows, each with the same chance;
            else the states follow on each other for ever.
        phase: Where in the turn of all states time 0 is, 0 to 1; None: drawn for each episode. A
            Markovian process is stationary from the start.
    """

    factors: tuple[float, ...]
    times_ns: tuple[int, ...]
    is_markov: bool
    phase: float | None = 0.0

    @classmethod
    def of_rates(
        cls,
        rates: tuple[float, ...],
        times_ns: tuple[int, ...],
        is_markov: bool,
        phase: float | None = 0.0,
    ) -> Modulation:
        """Return the modulation by rates in any unit, of which one or more are above 0.

        Args:
            rates: One for each state.
            times_ns: As of the class.
            is_markov: As of the class.
            phase: As of the class.
        """
        # Exactly rounded: `sum` of floats differs between versions of Python.
        whole = math.fsum(r * t for r, t in zip(rates, times_ns, strict=True))
        mean = whole / sum(times_ns)
        return cls(tuple(rate / mean for rate in rates), times_ns, is_markov, phase)


@dataclass(frozen=True)
class Recording:
    """Arrivals that were recorded: gaps in their order, for ever again from the first.

    Attributes:
        gaps: After each arrival, in units of their mean.
        rate_per_s: Arrivals a second of the recording itself.
        applications: Name of each arrival's application; none if it was not recorded.
        start: Where in the recording time 0 is, 0 to 1; None: drawn for each episode.
    """

    gaps: tuple[float, ...] = field(repr=False)
    rate_per_s: float
    applications: tuple[str, ...] = field(default=(), repr=False)
    start: float | None = 0.0


@dataclass(frozen=True)
class Users:
    """A closed loop: each user sends a flow, thinks once it has ended, and sends the next.

    Attributes:
        count: Number of users; all begin by thinking.
        think: Time from the end of a flow to the next one.
    """

    count: int
    think: Distribution


@dataclass(frozen=True)
class Process:
    """When flows arrive.

    Attributes:
        gaps: Distribution of the time between arrivals, in units of its mean.
        modulation: How the rate changes by itself; None: it stays.
        recording: Recorded gaps in the place of drawn ones.
        users: A closed loop, in the place of everything above.
    """

    gaps: Sampler = POISSON
    modulation: Modulation | None = None
    recording: Recording | None = None
    users: Users | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is a Poisson process of a constant rate."""
        is_bare = self.modulation is None and self.recording is None and self.users is None
        return is_bare and self.gaps == POISSON


def process_times_ns(
    process: Process,
    mean_gap_ns: float,
    duration_ns: int,
    draws: Draws,
    check: Callable[[float], None],
) -> FloatArray:
    """Draw the arrivals of an open process before a time.

    Args:
        process: What they follow; not of users.
        mean_gap_ns: Mean time between two of them.
        duration_ns: Length of the time.
        draws: Random numbers; a modulation has a stream of its own.
        check: Refuses a number of arrivals that is too large.
    """
    ends = _Pieces(process.modulation, duration_ns, draws.stream(0))
    # The time in which gaps pass evenly, in units of the mean gap.
    longest = ends.passed(duration_ns) / mean_gap_ns
    check(longest)
    passed = _passed(process, longest, draws, check)
    times_ns = ends.times_ns(passed * mean_gap_ns)
    return times_ns[times_ns < duration_ns]


def _passed(
    process: Process, longest: float, draws: Draws, check: Callable[[float], None]
) -> FloatArray:
    if process.recording is not None:
        return _played(process.recording, longest, draws)
    block = 64 + int(1.1 * longest)
    times = np.zeros(1)
    while times[-1] < longest:
        check(len(times) / 4)
        more = process.gaps.quantile(draws.uniform(block))
        # With the last time in front, the sum runs on as if the block had no end.
        times = np.concatenate([times, np.cumsum(np.concatenate([times[-1:], more]))[1:]])
    return times[1:]


def _played(recording: Recording, longest: float, draws: Draws) -> FloatArray:
    gaps = np.array(recording.gaps)
    starts = np.concatenate([[0.0], np.cumsum(gaps)[:-1]])
    rounds = np.arange(2 + int(longest / len(gaps)))[:, None] * float(len(gaps))
    times: FloatArray = (starts + rounds).ravel()
    start = draws.uniform(1)[0] if recording.start is None else recording.start
    times = times - start * len(gaps)
    return times[(times >= 0) & (times < longest)]


class _Pieces:
    """A rate that is constant by pieces: times there, and the even time that has passed."""

    def __init__(self, modulation: Modulation | None, duration_ns: int, draws: Draws) -> None:
        if modulation is None:
            self._starts_ns, self._factors = np.zeros(1), np.ones(1)
        else:
            states, self._starts_ns = _states(modulation, duration_ns, draws)
            self._factors = np.array(modulation.factors)[states]
        steps = np.diff(self._starts_ns) * self._factors[:-1]
        self._passed = np.concatenate([[0.0], np.cumsum(steps)])

    def passed(self, time_ns: float) -> float:
        piece = int(np.searchsorted(self._starts_ns, time_ns, side="right")) - 1
        gone = self._passed[piece] + (time_ns - self._starts_ns[piece]) * self._factors[piece]
        return float(gone)

    def times_ns(self, passed: FloatArray) -> FloatArray:
        # To the right of a piece without arrivals, which ends where it began.
        piece = np.searchsorted(self._passed, passed, side="right") - 1
        factors = self._factors[piece]
        slow = np.where(factors > 0, factors, 1.0)
        inside = np.where(factors > 0, (passed - self._passed[piece]) / slow, np.inf)
        times_ns: FloatArray = self._starts_ns[piece] + inside
        return times_ns


def _states(
    modulation: Modulation, duration_ns: int, draws: Draws
) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Return the states that follow on each other, and when each begins; the first at 0."""
    count, lengths = len(modulation.factors), np.array(modulation.times_ns, np.float64)
    least = 64 + int(4 * duration_ns * count / lengths.sum())
    first = float(draws.uniform(1)[0]) if modulation.phase is None else modulation.phase
    if modulation.is_markov:
        first = float(draws.uniform(1)[0])
    ends = np.cumsum(lengths)
    at_ns = first * ends[-1]
    state = min(int(np.searchsorted(ends, at_ns, side="right")), count - 1)
    if not modulation.is_markov:
        states = (state + np.arange(least)) % count
        starts_ns = np.concatenate([[0.0], np.cumsum(lengths[states])[:-1]])
        starts_ns[1:] -= at_ns - (ends[state] - lengths[state])
        return states, starts_ns
    parts, stays_ns, total = [np.array([state])], [np.zeros(0)], 0.0
    while total < duration_ns:
        skips = draws.integers(least, max(count - 1, 1)) + 1
        block = (parts[-1][-1] + np.cumsum(skips)) % count
        stays = Exponential(1.0).quantile(draws.uniform(least))
        before = np.concatenate([parts[-1][-1:], block[:-1]])
        stays_ns.append(stays * lengths[before])
        parts.append(block)
        total += float(stays_ns[-1].sum())
    states = np.concatenate(parts)
    starts_ns = np.concatenate([[0.0], np.cumsum(np.concatenate(stays_ns))])
    return states, starts_ns
