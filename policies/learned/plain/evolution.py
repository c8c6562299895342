"""CMA-ES: evolution strategies with covariance matrix adaptation.

N. Hansen, "The CMA Evolution Strategy: A Tutorial", arXiv:1604.00772, with the constants of its
table 1; with many parameters the separable form, R. Ros and N. Hansen, "A Simple Modification in
CMA-ES Achieving Linear Time and Space Complexity", PPSN 2008.

The package `cma` does the same, but draws from NumPy's global generator and keeps its state as a
pickle. Here candidates depend on seed and generation alone, and the state is a few arrays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

__all__ = ["Evolution"]

Floats = npt.NDArray[np.float64]

MOST_FULL = 300
"""Parameters up to which all covariances are adapted; beyond, only the variances are."""

STATE = ("mean", "covariance", "path_sigma", "path_c")


class Evolution:
    """A normal distribution of candidates that moves to where losses are small.

    Attributes:
        mean: Mean of the candidates, (n,).
        sigma: Step size.
        covariance: Shape (n, n); (n,) in the separable form.
        generation: Generations so far.
        population: Candidates of a generation.
    """

    def __init__(self, mean: Floats, sigma: float, seed: int, population: int | None = None):
        """Begin at a point.

        Args:
            mean: The point, (n,).
            sigma: Deviation of each number.
            seed: Seed of the candidates.
            population: Candidates of a generation, 4 or more; None for 4 + 3 ln n.
        """
        n = len(mean)
        self.mean = np.array(mean, np.float64)
        self.sigma, self.generation, self._seed = float(sigma), 0, seed
        self.population = 4 + int(3 * math.log(n)) if population is None else population
        self._is_full = n <= MOST_FULL
        self.covariance = np.eye(n) if self._is_full else np.ones(n)
        self._path_sigma, self._path_c = np.zeros(n), np.zeros(n)
        n_parents = self.population // 2
        weights = math.log((self.population + 1) / 2) - np.log(np.arange(1, n_parents + 1))
        self._weights = weights / weights.sum()
        self._mu = mu = float(1 / (self._weights**2).sum())
        self._c_sigma = (mu + 2) / (n + mu + 5)
        self._damping = 1 + 2 * max(0.0, math.sqrt((mu - 1) / (n + 1)) - 1) + self._c_sigma
        self._c_c = (4 + mu / n) / (n + 4 + 2 * mu / n)
        c_1 = 2 / ((n + 1.3) ** 2 + mu)
        c_mu = 2 * (mu - 2 + 1 / mu) / ((n + 2) ** 2 + mu)
        # The separable form has n variances to learn, and may do so faster.
        faster = 1.0 if self._is_full else (n + 2) / 3
        self._c_1 = min(1.0, c_1 * faster)
        self._c_mu = min(1 - self._c_1, c_mu * faster)
        # The expected length of a normal vector.
        self._length = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2))

    def ask(self) -> Floats:
        """Return the candidates of the generation, (population, n); the same at each call."""
        generator = np.random.default_rng([self._seed, self.generation])
        normal = generator.standard_normal((self.population, len(self.mean)))
        root, _ = self._roots()
        return self.mean + self.sigma * self._times(normal, root)

    def tell(self, candidates: Floats, losses: Floats) -> None:
        """Move to where losses are small, and begin the next generation.

        Args:
            candidates: What `ask` returned.
            losses: One for each candidate; only their order counts.
        """
        best = np.argsort(losses, kind="stable")[: len(self._weights)]
        steps = (candidates[best] - self.mean) / self.sigma
        step = self._weights @ steps
        self.mean = self.mean + self.sigma * step
        _, inverse = self._roots()
        keep = 1 - self._c_sigma
        push = math.sqrt(self._c_sigma * (2 - self._c_sigma) * self._mu)
        self._path_sigma = keep * self._path_sigma + push * self._times(step, inverse)
        self.generation += 1
        length = float(np.linalg.norm(self._path_sigma))
        expected = self._length * math.sqrt(1 - keep ** (2 * self.generation))
        # Without it the path would run ahead while the step size still grows.
        stalls = length >= (1.4 + 2 / (len(self.mean) + 1)) * expected
        push = 0.0 if stalls else math.sqrt(self._c_c * (2 - self._c_c) * self._mu)
        self._path_c = (1 - self._c_c) * self._path_c + push * step
        lost = self._c_1 * self._c_c * (2 - self._c_c) if stalls else 0.0
        old = 1 - self._c_1 - self._c_mu + lost
        rank_one = self._product(self._path_c[None], np.ones(1))
        rank_mu = self._product(steps, self._weights)
        self.covariance = old * self.covariance + self._c_1 * rank_one + self._c_mu * rank_mu
        self.sigma *= math.exp(
            min(1.0, self._c_sigma / self._damping * (length / self._length - 1))
        )

    def state(self) -> dict[str, Floats]:
        """Return all that `restore` needs."""
        numbers = np.array([self.sigma, self.generation, self._seed], np.float64)
        arrays = (self.mean, self.covariance, self._path_sigma, self._path_c)
        return {**dict(zip(STATE, arrays, strict=True)), "numbers": numbers}

    def restore(self, state: Mapping[str, Floats]) -> None:
        """Bring back a state.

        Args:
            state: What `state` returned.

        Raises:
            ValueError: It is of another number of parameters.
        """
        if {*state} != {*self.state()}:
            raise ValueError("a state of CMA-ES has other arrays")
        for name, own in self.state().items():
            if state[name].shape != own.shape:
                raise ValueError(f"{name} has shape {state[name].shape}, not {own.shape}")
        self.mean, self.covariance, self._path_sigma, self._path_c = (state[one] for one in STATE)
        self.sigma = float(state["numbers"][0])
        self.generation, self._seed = (int(one) for one in state["numbers"][1:])

    def _roots(self) -> tuple[Floats, Floats]:
        """Return the square root of the covariance, and its inverse."""
        if not self._is_full:
            root = np.sqrt(self.covariance)
            return root, 1 / root
        values, vectors = np.linalg.eigh((self.covariance + self.covariance.T) / 2)
        lengths = np.sqrt(np.maximum(values, np.finfo(np.float64).tiny))
        return (vectors * lengths) @ vectors.T, (vectors / lengths) @ vectors.T

    def _times(self, rows: Floats, root: Floats) -> Floats:
        product: Floats = rows @ root if self._is_full else rows * root
        return product

    def _product(self, rows: Floats, weights: Floats) -> Floats:
        product: Floats = (rows.T * weights) @ rows if self._is_full else weights @ rows**2
        return product
