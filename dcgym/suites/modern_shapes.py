"""What is published, or known, of the rules of `modern-balancing`."""

from __future__ import annotations

from collections.abc import Sequence

from dcgym.suites.shapes import Check, Shape, Term

__all__ = ["modern_shapes"]

PREQUAL = "Wydrowski and others, NSDI 2024"
GRPC = "gRPC, proposal A58"
KNAPSACK = "Gandhi and Narayana, arXiv 2404.17783"
JIQ = "arXiv 1710.04357: not optimal in heavy traffic"
OURS = "our expectation"


def modern_shapes(ramp: Sequence[str], standing: str) -> tuple[Shape, ...]:
    """Return the shapes that the suite is expected to show.

    Args:
        ramp: Names of the cases of the ramp, from the least load to the largest.
        standing: Name of the case with antagonists that stay.
    """
    return (*_ramp_shapes(ramp), *_quantile_shapes(), *_other_shapes(ramp[-1], standing))


def _ramp_shapes(ramp: Sequence[str]) -> tuple[Shape, ...]:
    # 1.03 is the fourth step: from there on more is asked for than is allocated.
    beyond = ramp[3:]
    wrr, prequal = "wrr-utilisation", "prequal"
    return (
        Shape(
            "prequal-no-errors",
            "Prequal makes no errors up to 1.74 of the allocation",
            PREQUAL,
            tuple(Check(_errors(prequal, case), "<=", 0.0) for case in ramp),
        ),
        Shape(
            "wrr-time-out",
            "Round robin by utilisation loses requests from 1.03 of the allocation on",
            PREQUAL,
            tuple(Check(_errors(wrr, case), ">", 0.0) for case in beyond),
        ),
        Shape(
            "prequal-errors-where-wrr",
            "From 1.41 on Prequal loses fewer requests than round robin by utilisation",
            OURS,
            tuple(Check(_errors(prequal, c), "<", _errors(wrr, c)) for c in ramp[6:]),
        ),
        Shape(
            "prequal-tail",
            "Prequal's 99th percentile is below that of round robin by utilisation from 1.03 on",
            PREQUAL,
            tuple(Check(_tail(prequal, case), "<", _tail(wrr, case)) for case in beyond),
        ),
    )


def _quantile_shapes() -> tuple[Shape, ...]:
    good = [_tail("prequal", f"quantile-{quantile}") for quantile in ("0.7", "0.84")]
    claims = {
        "0": ("load-alone", "With unequal speeds, quantiles of 0.7 and 0.84 beat load alone"),
        "1": ("latency-alone", "With unequal speeds, quantiles of 0.7 and 0.84 beat latency alone"),
    }
    return tuple(
        Shape(
            name,
            claim,
            PREQUAL,
            tuple(Check(one, "<", _tail("prequal", f"quantile-{end}")) for one in good),
        )
        for end, (name, claim) in claims.items()
    )


def _other_shapes(heaviest: str, standing: str) -> tuple[Shape, ...]:
    even = "round-robin-weighted"
    return (
        Shape(
            "sinkhole",
            "A server that fails fast costs Prequal and LSQ more requests than taking turns",
            OURS,
            tuple(
                Check(_errors(rule, "sinkhole"), ">", _errors(even, "sinkhole"))
                for rule in ("prequal", "lsq")
            ),
        ),
        Shape(
            "error-penalty",
            "Counting errors as load keeps requests away from a server that fails fast",
            GRPC,
            (Check(_errors("wrr-utilisation", "sinkhole"), "<", _errors(even, "sinkhole")),),
        ),
        Shape(
            "idle-queues",
            "Where no server is idle, join-idle-queue has twice the 99th percentile of SED",
            JIQ,
            (Check(_tail("jiq", heaviest), ">", Term("fct_us_p99", "sed", heaviest, 2.0)),),
        ),
        Shape(
            "latency-curves",
            "With antagonists that stay, a knapsack over latency curves has a lower mean",
            KNAPSACK,
            (
                Check(
                    Term("fct_us_mean", "knapsack", standing),
                    "<",
                    Term("fct_us_mean", even, standing),
                ),
            ),
        ),
    )


def _errors(policy: str, case: str) -> Term:
    return Term("rejected", policy, case)


def _tail(policy: str, case: str) -> Term:
    return Term("fct_us_p99", policy, case)
