"""What is published, or known, of the rules of `modern-balancing`."""

from __future__ import annotations

from collections.abc import Mapping

from dcgym.suites.shapes import Check, Shape, Term

__all__ = ["modern_shapes"]

PREQUAL = "Wydrowski and others, NSDI 2024"
GRPC = "gRPC, proposal A58"
KNAPSACK = "Gandhi and Narayana, arXiv 2404.17783"
JIQ = "arXiv 1710.04357: not optimal in heavy traffic"
OURS = "our expectation"
EVEN = "round-robin-weighted"


def modern_shapes(ramp: Mapping[str, float], standing: str | None = None) -> tuple[Shape, ...]:
    """Return the shapes that the suite is expected to show.

    Args:
        ramp: The load of each case of the ramp, from the least to the largest, by name.
        standing: Name of the case with antagonists that stay, and there are cases for quantiles;
            None where there are neither.
    """
    shapes = (*_ramp_shapes(ramp), *_other_shapes([*ramp][-1]))
    return shapes if standing is None else (*shapes, *_quantile_shapes(), _curves(standing))


def _ramp_shapes(ramp: Mapping[str, float]) -> tuple[Shape, ...]:
    # More is asked for than is allocated.
    beyond = [case for case, load in ramp.items() if load > 1]
    heavy = [case for case in beyond if ramp[case] >= 1.41]
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
            tuple(Check(_errors(prequal, c), "<", _errors(wrr, c)) for c in heavy),
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


def _curves(standing: str) -> Shape:
    mean = "fct_us_mean"
    return Shape(
        "latency-curves",
        "With antagonists that stay, a knapsack over latency curves has a lower mean",
        KNAPSACK,
        (Check(Term(mean, "knapsack", standing), "<", Term(mean, EVEN, standing)),),
    )


def _other_shapes(heaviest: str) -> tuple[Shape, ...]:
    return (
        Shape(
            "sinkhole",
            "A server that fails fast costs Prequal and LSQ more requests than taking turns",
            OURS,
            tuple(
                Check(_errors(rule, "sinkhole"), ">", _errors(EVEN, "sinkhole"))
                for rule in ("prequal", "lsq")
            ),
        ),
        Shape(
            "error-penalty",
            "Counting errors as load keeps requests away from a server that fails fast",
            GRPC,
            (Check(_errors("wrr-utilisation", "sinkhole"), "<", _errors(EVEN, "sinkhole")),),
        ),
        Shape(
            "idle-queues",
            "Where no server is idle, join-idle-queue has twice the 99th percentile of SED",
            JIQ,
            (Check(_tail("jiq", heaviest), ">", Term("fct_us_p99", "sed", heaviest, 2.0)),),
        ),
    )


def _errors(policy: str, case: str) -> Term:
    return Term("rejected", policy, case)


def _tail(policy: str, case: str) -> Term:
    return Term("fct_us_p99", policy, case)
