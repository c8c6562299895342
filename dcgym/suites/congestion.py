"""Congestion control on a dumbbell of 10 Mbit/s: the quick suite, and Iroko's."""

from __future__ import annotations

from collections.abc import Mapping

from dcgym.suites.shapes import Check, Shape, Term
from dcgym.suites.suite import SUITES, Case, Suite, Training
from dcgym.tasks.common.presets import PRESETS

__all__ = ["QUICK_ENV", "iroko_dumbbell_10m", "quick"]

# 10 Mbit/s and 400 KB are the setting of the congestion-control study that the suite starts from.
QUICK_ENV: Mapping[str, object] = {
    "topology": {"name": "dumbbell", "hosts": 4, "rate": "10Mbit", "queue": "400KB"},
    "traffic": "pairs",
    "interval": "50ms",
}


def quick(
    traffic: object = QUICK_ENV["traffic"],
    backend: object = None,
    generator: str | None = None,
) -> Suite:
    """Return the quick suite.

    Args:
        traffic: What the environment's argument takes.
        backend: The same, of learners too; the environment's own if None.
        generator: The same; the environment's own if None.
    """
    asked = {"backend": backend, "generator": generator}
    given = {name: value for name, value in asked.items() if value is not None}
    return Suite(
        name="quick",
        description="Congestion control on a dumbbell of 4 hosts with a 10 Mbit/s bottleneck.",
        cases=(Case({**QUICK_ENV, "traffic": traffic, **given}),),
        policies=("cubic", "dctcp", "fair-share", "random", "ppo", "ddpg"),
        training=Training(seconds=120.0, envs=6),
        maker=quick,
    )


def iroko_dumbbell_10m() -> Suite:
    """Return Iroko's dumbbell of 10 Mbit/s (thesis, figures 5.2 and 5.3), in the packet twin.

    The thesis scores learners by its own reward, eq. 4.3; its figures have no numbers. Its fair
    solution is 5 Mbit/s a pair.
    """
    source = "Ruffy 2019, section 5.4"
    env = {**PRESETS["iroko-dumbbell-10mbit"], "env": "CongestionControl-v2"}
    goodput = [Term("goodput_bps", policy) for policy in ("new-vegas", "dctcp")]
    queues = [Term("queue_bytes_mean", policy) for policy in ("dctcp", "cubic")]
    return Suite(
        name="iroko-dumbbell-10m",
        description="Iroko's dumbbell: two pairs on 10 Mbit/s, DCTCP with RED, New Vegas.",
        cases=(Case({**env, "backend": "simulation"}),),
        policies=("dctcp", "new-vegas", "cubic", "fair-share", "random"),
        seeds=5,
        episode_s=20.0,
        training=Training(seconds=300.0, envs=8),
        shapes=(
            Shape(
                "iroko-new-vegas",
                "New Vegas underperforms at 10 Mbit/s: less arrives than with DCTCP",
                source,
                (Check(goodput[0], "<", goodput[1]),),
            ),
            Shape(
                "iroko-queues",
                "DCTCP keeps its queue below that of a control that fills it",
                source,
                (Check(queues[0], "<", queues[1]),),
            ),
        ),
    )


for _suite in (quick(), iroko_dumbbell_10m()):
    SUITES.add(_suite.name, _suite, _suite.description)
