"""Random numbers that are the same on every machine and with every version of NumPy.

Only two things of NumPy are used, both with a documented promise of a fixed stream (NEP 19):
`SeedSequence`, and the raw 64-bit words of `PCG64`. Everything else, from uniform doubles to
permutations, is computed from these words here; NumPy's `Generator` methods may change.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["Draws"]


class Draws:
    """One stream of random numbers; streams of different keys are independent."""

    def __init__(self, seed: int, *key: int) -> None:
        """Begin a stream.

        Args:
            seed: Seed of the plan.
            key: Which of the plan's streams, such as the number of a part and of its use.
        """
        self._seed, self._key = seed, key
        self._words = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key))

    def stream(self, *key: int) -> Draws:
        """Return the stream below this one with that key, from its beginning."""
        return Draws(self._seed, *self._key, *key)

    def uniform(self, count: int) -> npt.NDArray[np.float64]:
        """Return numbers strictly between 0 and 1, on a grid of 2^-52.

        Args:
            count: How many.
        """
        words = self._words.random_raw(count)
        return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52

    def integers(self, count: int, below: int) -> npt.NDArray[np.int64]:
        """Return whole numbers from 0 to ``below`` - 1; the bias is under below / 2^52.

        Args:
            count: How many.
            below: One more than the largest.
        """
        return (self.uniform(count) * below).astype(np.int64)

    def permutation(self, count: int) -> npt.NDArray[np.int64]:
        """Return 0 to ``count`` - 1 in random order.

        Args:
            count: How many.
        """
        return np.argsort(self.uniform(count), kind="stable")

    def derangement(self, count: int) -> npt.NDArray[np.int64]:
        """Return a random order that leaves none of 0 to ``count`` - 1 in place.

        Args:
            count: How many.
        """
        order = np.arange(count)
        drawn = self.permutation(count)
        # One permutation in e has no fixed point, whatever the number of entries.
        while np.any(drawn == order):
            drawn = self.permutation(count)
        return drawn
