"""The suites `held-out-balancing` and `held-out-congestion`: what nobody trains or tunes on."""

from __future__ import annotations

from dcgym.suites.scores import Scoring
from dcgym.suites.suite import SUITES, Case, Suite
from dcgym.tasks.common.splits import SPLITS, Split

__all__ = ["BALANCING_POLICIES", "CONGESTION_POLICIES", "held_out_balancing", "held_out_congestion"]

BALANCING_POLICIES = (
    *("oracle", "earliest-finish", "sed-half", "sed", "sed2", "hlb", "lsq", "lsq2"),
    *("peak-ewma", "wcmp", "ecmp", "random"),
)
CONGESTION_POLICIES = (
    *("fair-share", "cubic", "reno", "dctcp", "new-vegas", "bbr", "swift", "copa", "random"),
)


def held_out_balancing() -> Suite:
    """Return the balancing rules on the held-out scenarios of ``balancing-v1``, in the twin."""
    return Suite(
        name="held-out-balancing",
        description="Balancing rules on 43 pools that nobody trains on, with normalised scores.",
        cases=_cases(SPLITS["balancing-v1"]),
        policies=BALANCING_POLICIES,
        episode_s=60.0,
        warmup_s=10.0,
        scoring=Scoring(("fct_us_mean", "fct_us_p99"), "random", "oracle"),
    )


def held_out_congestion() -> Suite:
    """Return congestion controls on the held-out scenarios of ``congestion-v2``, in the twin."""
    return Suite(
        name="held-out-congestion",
        description="Congestion controls on 33 networks that nobody trains on, normalised scores.",
        cases=_cases(SPLITS["congestion-v2"]),
        policies=CONGESTION_POLICIES,
        episode_s=10.0,
        warmup_s=2.0,
        scoring=Scoring(("goodput_bps", "fct_us_p99", "reward_mean"), "random", "fair-share"),
    )


def _cases(split: Split) -> tuple[Case, ...]:
    """Return a case for each held-out scenario; one training serves all of them."""
    return tuple(
        Case(env, name, train_env=split.train, train_name="train")
        for name, env in split.held_out.items()
    )


for _suite in (held_out_balancing(), held_out_congestion()):
    SUITES.add(_suite.name, _suite, _suite.description)
