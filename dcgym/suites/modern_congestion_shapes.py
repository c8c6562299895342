"""What is published, or known, of the controls and rules of `modern-congestion`."""

from __future__ import annotations

from collections.abc import Sequence

from dcgym.suites.shapes import Check, Shape, Term

__all__ = ["modern_congestion_shapes"]

DCTCP = "Alizadeh and others, SIGCOMM 2010"
DRILL = "Ghorbani and others, SIGCOMM 2017"
LETFLOW = "Vanini and others, NSDI 2017"
HULA = "Katta and others, SOSR 2016"
POWER = "Addanki and others, NSDI 2022"
OURS = "our expectation"
TAIL, MEAN = "slowdown_p99", "slowdown_mean"


def modern_congestion_shapes(web: Sequence[str], asymmetric: str) -> tuple[Shape, ...]:
    """Return the shapes that the suite is expected to show.

    Args:
        web: Kinds of traffic of web search, from the least load to the largest.
        asymmetric: Kind of traffic over unequal core links.
    """
    return (*_control_shapes(web), *_path_shapes(web[-1]), *_asymmetric_shapes(asymmetric))


def _control_shapes(web: Sequence[str]) -> tuple[Shape, ...]:
    return (
        Shape(
            "dctcp-queue",
            "With web search, DCTCP's queues are below half of CUBIC's",
            DCTCP,
            tuple(
                Check(_by_ecmp("queue_bytes_mean", "dctcp", kind), "<", _half_of_cubic(kind))
                for kind in web
            ),
        ),
        Shape(
            "dctcp-incast",
            "In bursts of incast, DCTCP's tail is below that of CUBIC and of Reno",
            DCTCP,
            tuple(
                Check(_by_ecmp(TAIL, "dctcp", "incast"), "<", _by_ecmp(TAIL, other, "incast"))
                for other in ("cubic", "reno")
            ),
        ),
        Shape(
            "swift-tail",
            "With web search at the largest load, Swift's tail is below CUBIC's",
            OURS,
            (Check(_by_ecmp(TAIL, "swift", web[-1]), "<", _by_ecmp(TAIL, "cubic", web[-1])),),
        ),
        Shape(
            "powertcp-timely",
            "With web search, theta-PowerTCP's tail is below TIMELY's",
            POWER,
            tuple(
                Check(_by_ecmp(TAIL, "theta-powertcp", kind), "<", _by_ecmp(TAIL, "timely", kind))
                for kind in web
            ),
        ),
    )


def _path_shapes(loaded: str) -> tuple[Shape, ...]:
    bulk = "goodput_bps"
    return (
        Shape(
            "drill-fills",
            "Bulk flows between pods get 1.5 times ECMP's goodput with DRILL",
            OURS,
            (Check(_with_dctcp(bulk, "drill", "stride-8"), ">", _ecmp(bulk, "stride-8", 1.5)),),
        ),
        Shape(
            "drill-mean",
            "With web search at the largest load, DRILL's mean is below ECMP's",
            DRILL,
            (Check(_with_dctcp(MEAN, "drill", loaded), "<", _ecmp(MEAN, loaded)),),
        ),
        Shape(
            "hula-mean",
            "With web search at the largest load, HULA's mean is below ECMP's",
            HULA,
            (Check(_with_dctcp(MEAN, "hula", loaded), "<", _ecmp(MEAN, loaded)),),
        ),
    )


def _asymmetric_shapes(asymmetric: str) -> tuple[Shape, ...]:
    return (
        Shape(
            "letflow-asymmetry",
            "Where core links are slow, LetFlow's mean is below ECMP's",
            LETFLOW,
            (Check(_with_dctcp(MEAN, "letflow", asymmetric), "<", _ecmp(MEAN, asymmetric)),),
        ),
        Shape(
            "blind-asymmetry",
            "Where core links are slow, LetFlow's mean is below spray's and DRILL's",
            LETFLOW,
            tuple(
                Check(
                    _with_dctcp(MEAN, "letflow", asymmetric),
                    "<",
                    _with_dctcp(MEAN, blind, asymmetric),
                )
                for blind in ("spray", "drill")
            ),
        ),
        Shape(
            "plb-asymmetry",
            "Where core links are slow, PLB's tail is below ECMP's",
            OURS,
            (Check(_with_dctcp(TAIL, "plb", asymmetric), "<", _ecmp(TAIL, asymmetric)),),
        ),
    )


def _by_ecmp(metric: str, control: str, traffic: str, factor: float = 1.0) -> Term:
    return Term(metric, "ecmp", f"{control}-{traffic}", factor)


def _half_of_cubic(traffic: str) -> Term:
    return _by_ecmp("queue_bytes_mean", "cubic", traffic, 0.5)


def _with_dctcp(metric: str, rule: str, traffic: str) -> Term:
    return Term(metric, rule, f"dctcp-{traffic}")


def _ecmp(metric: str, traffic: str, factor: float = 1.0) -> Term:
    return _by_ecmp(metric, "dctcp", traffic, factor)
