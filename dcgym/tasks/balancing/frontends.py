"""Front ends of a pool: each virtual address at each balancer, balancer by balancer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dcgym.config import check_in, check_int
from dcgym.tasks.balancing.pool import ServerPool
from dcgym.tasks.balancing.scenario import Scenario

__all__ = ["frontend_name", "frontend_numbers", "frontend_rates_per_s"]


def frontend_name(pool: ServerPool, number: int, between: str = ".") -> str:
    """Return the number of a front end's balancer, and its address where there are several.

    Args:
        pool: The balancers and their addresses.
        number: Number of the front end.
        between: What stands between the two.
    """
    balancer, vip = divmod(number, len(pool.vips))
    return f"{balancer}{between}{pool.vips[vip].name}" if len(pool.vips) > 1 else str(balancer)


def frontend_numbers(
    pool: ServerPool, balancers: Sequence[int] | None = None, vip: str | int | None = None
) -> tuple[int, ...]:
    """Return the numbers of some front ends.

    Args:
        pool: The balancers and their addresses.
        balancers: Numbers of the balancers; None for all.
        vip: Name or number of the address; None for all.

    Raises:
        ConfigError: There is no such balancer or address.
    """
    names = [one.name for one in pool.vips]
    if isinstance(vip, str):
        vip = names.index(check_in("vip", vip, names))
    vips = range(len(names)) if vip is None else (check_int("vip", vip, 0, len(names) - 1),)
    chosen = range(pool.balancers) if balancers is None else balancers
    numbers = [check_int("balancer", one, 0, pool.balancers - 1) for one in chosen]
    return tuple(number * len(names) + at for number in numbers for at in vips)


def frontend_rates_per_s(scenario: Scenario) -> npt.NDArray[np.float64]:
    """Return the flows a second that each front end gets on average, (B,).

    Args:
        scenario: The pool and its traffic.
    """
    rates = np.zeros(len(scenario.pool.vips))
    np.add.at(rates, list(scenario.vips_asked), scenario.rates_per_s)
    return np.tile(rates / scenario.balancers, scenario.balancers)
