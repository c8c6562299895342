"""The quick suite of congestion control: six policies on one bottleneck."""

from __future__ import annotations

from collections.abc import Mapping

from dcgym.suites.spec import Arguments
from dcgym.suites.suite import SUITES, Case, Suite, Training

__all__ = ["QUICK_ENV", "quick"]

# 10 Mbit/s and 400 KB are the setting of the congestion-control study that the suite starts from.
QUICK_ENV: Mapping[str, object] = {
    "topology": {"name": "dumbbell", "hosts": 4, "rate": "10Mbit", "queue": "400KB"},
    "traffic": "pairs",
    "interval": "50ms",
}


def quick(env: Arguments = QUICK_ENV) -> Suite:
    """Return the quick suite.

    Args:
        env: Arguments of the environment.
    """
    return Suite(
        name="quick",
        description="Congestion control on a dumbbell of 4 hosts with a 10 Mbit/s bottleneck.",
        cases=(Case(dict(env)),),
        policies=("cubic", "dctcp", "fair-share", "random", "ppo", "ddpg"),
        training=Training(seconds=120.0, envs=6),
    )


SUITES.add("quick", quick(), quick().description)
