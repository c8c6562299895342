"""How large flows are and how long things take: distributions, and the draws behind them."""

from dcgym.traffic.sizes.distributions import (
    DISTRIBUTION_KINDS,
    Distribution,
    bimodal,
    constant,
    empirical,
    exponential,
    lognormal,
    pareto,
    uniform,
)
from dcgym.traffic.sizes.draws import Draws
from dcgym.traffic.sizes.read import (
    SIZES,
    SizeKind,
    published,
    read_distribution,
    read_durations,
    read_sizes,
)
from dcgym.traffic.sizes.samplers import Sampler

__all__ = [
    "DISTRIBUTION_KINDS",
    "SIZES",
    "Distribution",
    "Draws",
    "Sampler",
    "SizeKind",
    "bimodal",
    "constant",
    "empirical",
    "exponential",
    "lognormal",
    "pareto",
    "published",
    "read_distribution",
    "read_durations",
    "read_sizes",
    "uniform",
]
