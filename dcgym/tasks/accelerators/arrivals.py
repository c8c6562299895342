"""The requests of an episode, drawn without serving them, bit for bit the same in every backend."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcgym.native import require
from dcgym.tasks.accelerators.pool import AcceleratorPool
from dcgym.traffic.sizes.distributions import Distribution, PlainLaw, plain_law

__all__ = ["draw_requests", "request_workload"]


def draw_requests(
    pool: AcceleratorPool, seed: int, rate_per_s: float, until_ns: int
) -> npt.NDArray[np.void]:
    """Return the requests that arrive in a pool, in each backend with this seed and rate.

    Args:
        pool: Applications, gaps and ``rate`` events.
        seed: Seed of the episode, 0 to 2**64 - 1.
        rate_per_s: Requests a second at its beginning.
        until_ns: End of the time that is drawn.

    Returns:
        A structured array as of `dcgym.tasks.balancing.arrivals.draw_arrivals`: requests are flows
        of one stage, whose demand is the time that the first server's processors take.

    Raises:
        FeatureNotSupported: The compiled module was not built.
    """
    first = pool.groups[0].devices[0]
    service_ns = [
        max(float(round(first.time_ns(one.name, one.gflop))), 1.0) for one in pool.applications
    ]
    rates = [
        (0, rate_per_s),
        *((event.at_ns, event.value) for event in pool.events if event.kind == "rate"),
    ]
    found: npt.NDArray[np.void] = require("_workload").requests(
        request_workload(pool), service_ns, rates, seed, until_ns
    )
    return found


def request_workload(pool: AcceleratorPool) -> dict[str, object]:
    """Return the requests for a pool as the plain numbers that the compiled modules read.

    Args:
        pool: The pool.
    """
    total = sum(one.share for one in pool.applications)
    return {
        "applications": [(one.share / total, _unit_law(one.demand)) for one in pool.applications],
        "gaps": _unit_law(pool.gaps),
        "requests": pool.requests or 0,
    }


def _unit_law(law: Distribution) -> PlainLaw:
    """Return a distribution whose mean is scaled to 1."""
    return plain_law(law, 1.0, law.mean_ns)
