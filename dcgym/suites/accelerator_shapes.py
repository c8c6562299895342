"""What is published of P4Mite, P4Hauler and P4Wise, as checks of their suites."""

from __future__ import annotations

from dcgym.suites.shapes import Check, Shape, Term
from dcgym.suites.suite import Published

__all__ = [
    "p4hauler_published",
    "p4hauler_shapes",
    "p4mite_shapes",
    "p4wise_published",
    "p4wise_shapes",
]

THESIS = "Tajbakhsh 2023"
OURS = "our expectation"
MEAN, P99, LOST, BATCH = "latency_ms_mean", "latency_ms_p99", "lost_share", "batch_s"
LEARNING = ("learning-0.3", "learning-0.5")
# Two curves that the text calls alike differ by less than this.
ALIKE = 1.1
# Of LUR in the largest batch, over the host alone.
PUBLISHED_GAIN = 0.132
# Figure 6.3: rewards of 100 actions come near 1000 within so many actions.
PUBLISHED_ACTIONS, BEST_REWARDS = 250.0, 1000.0
SCALES = (64, 128, 256)


def _less(metric: str, left: tuple[str, str], right: tuple[str, str], factor: float = 1.0) -> Check:
    """Return a check of (policy, case) against another one, times a factor."""
    return Check(Term(metric, *left), "<", Term(metric, *right, factor))


# Long because figures 4.3 and 4.4 are a list of claims.
def p4mite_shapes() -> tuple[Shape, ...]:
    """Return E1 to E3 of figures 4.3 and 4.4."""
    few, some, many = 300, 1000, 2000
    apps = ("dns", "vgg16", "knn")

    def micro(rate: float, limit: int) -> tuple[str, str]:
        return "p4mite", f"micro-{rate:g}-{limit}"

    def size(gflop: float, limit: int) -> tuple[str, str]:
        return "p4mite", f"size-{gflop:g}-{limit}"

    return (
        Shape(
            "e1-alike",
            "Up to 40 requests a second of 2 GFLOP all thresholds are alike",
            f"{THESIS}, figure 4.3a",
            tuple(
                _less(MEAN, micro(rate, one), micro(rate, other), ALIKE)
                for rate in (20, 40)
                for one, other in ((few, many), (many, few))
            ),
        ),
        Shape(
            "e1-order",
            "At 45 a second a lower threshold is better: 300 < 1000 < 2000 ms",
            f"{THESIS}, figure 4.3a",
            (
                _less(MEAN, micro(45, few), micro(45, some)),
                _less(MEAN, micro(45, some), micro(45, many)),
            ),
        ),
        Shape(
            "e2-small",
            "Requests of 2 GFLOP, 5 a second, are alike with all thresholds",
            f"{THESIS}, figure 4.3b",
            (
                _less(MEAN, size(2, few), size(2, many), ALIKE),
                _less(MEAN, size(2, many), size(2, few), ALIKE),
            ),
        ),
        Shape(
            "e2-middle",
            "Of 4 and 8 GFLOP thresholds that trigger are worse than leaving work on the server",
            f"{THESIS}, figure 4.3b",
            (
                _less(MEAN, size(4, many), size(4, few)),
                _less(MEAN, size(8, many), size(8, few)),
                _less(MEAN, size(8, many), size(8, some)),
            ),
        ),
        Shape(
            "e2-large",
            "From 15 GFLOP on the threshold of 2000 ms is best",
            f"{THESIS}, figure 4.3b",
            tuple(
                _less(MEAN, size(gflop, many), size(gflop, limit))
                for gflop in (15, 18)
                for limit in (few, some)
            ),
        ),
        Shape(
            "e3-host-fails",
            "At 90 % of the combined maximum the host alone loses requests",
            f"{THESIS}, figure 4.4",
            tuple(Check(Term(LOST, "server-only", f"{app}-0.9"), ">", 0.01) for app in apps),
        ),
        Shape(
            "e3-even-shares-fail",
            "Even shares lose requests at 60 %",
            f"{THESIS}, figure 4.4",
            tuple(Check(Term(LOST, "device-ecmp", f"{app}-0.6"), ">", 0.01) for app in apps),
        ),
        Shape(
            "e3-p4mite-carries",
            "At 90 % P4Mite loses fewer requests than the host alone",
            f"{THESIS}, figure 4.4",
            tuple(_less(LOST, ("p4mite", f"{a}-0.9"), ("server-only", f"{a}-0.9")) for a in apps),
        ),
        Shape(
            "e3-wrr-penalty",
            "At 30 % fixed shares have a longer tail than the host alone",
            f"{THESIS}, figure 4.4",
            tuple(_less(P99, ("server-only", f"{a}-0.3"), ("wrr", f"{a}-0.3")) for a in apps),
        ),
        Shape(
            "e3-no-penalty",
            "At 30 % P4Mite is as the host alone",
            f"{THESIS}, figure 4.4",
            tuple(
                _less(P99, ("p4mite", f"{a}-0.3"), ("server-only", f"{a}-0.3"), ALIKE) for a in apps
            ),
        ),
    )


# Long because figures 5.7 and 5.10 are a list of claims.
def p4hauler_shapes() -> tuple[Shape, ...]:
    """Return E5 to E7 and E10 of figures 5.7 to 5.10 and 5.12 to 5.14."""
    low = {"vgg16": 30, "knn": 8, "anomaly-detection": 500, "text-retrieval": 30}
    high = {"vgg16": 68, "knn": 20, "anomaly-detection": 1250, "text-retrieval": 68}
    heavy = ("vgg16", "knn")
    return (
        Shape(
            "e5-prt-low",
            "At low rates prioritisation is as the host alone",
            f"{THESIS}, figure 5.7",
            tuple(
                _less(P99, ("prt", f"{a}-{r}"), ("server-only", f"{a}-{r}"), ALIKE)
                for a, r in low.items()
            ),
        ),
        Shape(
            "e5-lur-worst",
            "The least utilised device has the longest tail for heavy applications at low rates",
            f"{THESIS}, figure 5.7",
            tuple(
                _less(P99, (policy, f"{a}-{low[a]}"), ("lur", f"{a}-{low[a]}"))
                for a in heavy
                for policy in ("server-only", "prt", "wrr")
            ),
        ),
        Shape(
            "e5-wrr-high",
            "Beyond the host's rate fixed shares have the shortest tail",
            f"{THESIS}, figure 5.7",
            tuple(
                _less(P99, ("wrr", f"{a}-{r}"), (policy, f"{a}-{r}"))
                for a, r in high.items()
                for policy in ("server-only", "prt", "lur")
            ),
        ),
        Shape(
            "e5-more-load",
            "With a SmartNIC more is served than by the host alone beyond its rate",
            f"{THESIS}, figure 5.7: 25 to 27 %",
            tuple(
                Check(
                    Term("throughput_per_s", policy, f"{a}-{r}"),
                    ">",
                    Term("throughput_per_s", "server-only", f"{a}-{r}", 1.05),
                )
                for a, r in high.items()
                for policy in ("prt", "wrr")
            ),
        ),
        Shape(
            "e7-knee",
            "More reports shorten the tail up to some 20 a second, and hardly beyond 100",
            f"{THESIS}, figure 5.10",
            (
                _less(P99, ("lur", "reports-20"), ("lur", "reports-1")),
                _less(P99, ("lur", "reports-100"), ("lur", "reports-200"), 1.1),
            ),
        ),
        *_batch_shapes(),
        *_scale_shapes(),
    )


def _batch_less(case: str, left: str, right: str, factor: float = 1.0) -> Check:
    return _less(BATCH, (left, case), (right, case), factor)


# Long because figures 5.8 and 5.9 are a list of claims.
def _batch_shapes() -> tuple[Shape, ...]:
    low = ("vgg16-batch-30-1000", "knn-batch-8-250")
    high = ("vgg16-batch-65-1000", "knn-batch-18-250")
    return (
        Shape(
            "e6-low",
            "At low rates a batch takes as long with fixed shares and PRT as on the host alone",
            f"{THESIS}, figure 5.8",
            tuple(_batch_less(a, one, "server-only", ALIKE) for a in low for one in ("wrr", "prt")),
        ),
        Shape(
            "e6-lur-low",
            "LUR takes longer than the host alone up to 60 a second of VGG16, 16 of KNN",
            f"{THESIS}, figures 5.8 and 5.9",
            tuple(
                _batch_less(case, "server-only", "lur")
                for case in (*low, "vgg16-batch-60-1000", "knn-batch-16-250")
            ),
        ),
        Shape(
            "e6-wrr",
            "At 65 a second of VGG16 and 18 of KNN fixed shares take the least time",
            f"{THESIS}, figure 5.8",
            tuple(
                _batch_less(case, "wrr", one)
                for case in high
                for one in ("server-only", "lur", "prt")
            ),
        ),
        Shape(
            "e6-lur-high",
            "At 65 a second of VGG16 and 18 of KNN LUR takes less time than the host alone",
            f"{THESIS}, figure 5.8",
            tuple(_batch_less(case, "lur", "server-only") for case in high),
        ),
        Shape(
            "e6-batch",
            "Beyond the host's rate LUR is slower in small batches and faster in large ones",
            f"{THESIS}, figure 5.9",
            (
                _batch_less("vgg16-batch-70-400", "server-only", "lur"),
                _batch_less("vgg16-batch-70-1000", "lur", "server-only"),
                _batch_less("knn-batch-20-100", "server-only", "lur"),
                _batch_less("knn-batch-20-250", "lur", "server-only"),
            ),
        ),
        Shape(
            "e6-gain",
            "At 20 a second of KNN LUR takes 13 % less time for 250 requests than the host alone",
            f"{THESIS}, figure 5.9: 17.32 s, below 15 s",
            (_batch_less("knn-batch-20-250", "lur", "server-only", 1 - PUBLISHED_GAIN),),
        ),
    )


def p4hauler_published() -> tuple[Published, ...]:
    """Return the numbers of figure 5.9 that the text states."""
    case, source = "knn-batch-20-250", f"{THESIS}, figure 5.9"
    return (
        Published(source, BATCH, "server-only", 17.32, case),
        Published(source, BATCH, "lur", 17.32 * (1 - PUBLISHED_GAIN), case),
    )


# Long because figures 5.12 to 5.14 are a list of claims.
def _scale_shapes() -> tuple[Shape, ...]:
    return (
        Shape(
            "e10-knee",
            "The processors alone serve 16 requests a second of a server, and not 20",
            f"{THESIS}, figure 5.12",
            tuple(
                check
                for n in SCALES
                for check in (
                    Check(Term("throughput_per_s", "server-only", f"{n}-16"), ">", 15.5 * n),
                    Check(Term("throughput_per_s", "server-only", f"{n}-20"), "<", 19.0 * n),
                )
            ),
        ),
        Shape(
            "e10-throughput",
            "At 26 a second fixed shares serve more than LUR, and LUR more than processors alone",
            f"{THESIS}, figure 5.12",
            tuple(
                _less("throughput_per_s", (less, f"{n}-26"), (more, f"{n}-26"))
                for n in SCALES
                for less, more in (("lur", "wrr"), ("server-only", "lur"))
            ),
        ),
        Shape(
            "e10-tail",
            "At 98 % of the processors fixed shares have the shortest tail, then prioritisation",
            f"{THESIS}, figure 5.13",
            tuple(
                _less(P99, (first, f"{n}-17.8"), (second, f"{n}-17.8"))
                for n in SCALES
                for first, second in (("wrr", "prt"), ("prt", "server-only"))
            ),
        ),
        Shape(
            "e10-spread",
            "At 20 a second utilisation differs most with prioritisation, least with fixed shares",
            f"{THESIS}, figure 5.14: WRR < LUR < PRT",
            tuple(
                _less("utilisation_spread", (first, f"{n}-20"), (second, f"{n}-20"))
                for n in (64, 128)
                for first, second in (("wrr", "lur"), ("lur", "prt"))
            ),
        ),
    )


# Long because figures 6.2 to 6.7 are a list of claims.
def p4wise_shapes() -> tuple[Shape, ...]:
    """Return E11 to E13 of figures 6.2 to 6.7."""

    def at(load: float, threshold: float) -> tuple[str, str]:
        suffix = "" if threshold == 0.6 else f"-at-{threshold:g}"
        return "threshold", f"128-{load:g}{suffix}"

    return (
        Shape(
            "e11-too-early",
            "At 55 % of the processors' rate a controller that switches at 50 % is too early",
            f"{THESIS}, figure 6.2",
            (_less(P99, at(0.55, 0.6), at(0.55, 0.5)),),
        ),
        Shape(
            "e11-too-late",
            "At 70 % a controller that switches at 70 % is too late",
            f"{THESIS}, figure 6.2",
            (_less(P99, at(0.7, 0.6), at(0.7, 0.7)),),
        ),
        Shape(
            "e12-converges",
            "A table's rewards of 100 actions are near their best after 250 actions",
            f"{THESIS}, figure 6.3: 250",
            tuple(
                Check(Term("actions_to_90", "p4wise", case), "<=", PUBLISHED_ACTIONS)
                for case in LEARNING
            ),
        ),
        Shape(
            "e12-level",
            "In the end the rewards of 100 actions are 900 of 1000 or more",
            f"{THESIS}, figure 6.3: 1000",
            tuple(
                Check(Term("last_100_rewards", "p4wise", case), ">=", 0.9 * BEST_REWARDS)
                for case in LEARNING
            ),
        ),
        Shape(
            "e12-rate",
            "A learning rate of 0.5 is faster than 0.3",
            f"{THESIS}, figure 6.3",
            (_less("actions_to_90", ("p4wise", LEARNING[1]), ("p4wise", LEARNING[0])),),
        ),
        Shape(
            "e13-low",
            "At 40 % the processors alone have a shorter tail than 5:1",
            f"{THESIS}, figures 6.4 to 6.7",
            tuple(_less(P99, ("server-only", f"{n}-0.4"), ("wrr", f"{n}-0.4")) for n in SCALES),
        ),
        Shape(
            "e13-high",
            "At 80 % 5:1 has a shorter tail than the processors alone",
            f"{THESIS}, figures 6.4 to 6.7",
            tuple(_less(P99, ("wrr", f"{n}-0.8"), ("server-only", f"{n}-0.8")) for n in SCALES),
        ),
        Shape(
            "e13-envelope",
            "The oracle is never worse than 5:1 or the processors alone by more than a tenth",
            OURS,
            tuple(
                _less(P99, ("oracle", f"{n}-{load:g}"), (policy, f"{n}-{load:g}"), ALIKE)
                for n in SCALES
                for load in (0.4, 0.6, 0.8)
                for policy in ("server-only", "wrr")
            ),
        ),
    )


def p4wise_published() -> tuple[Published, ...]:
    """Return the numbers of figure 6.3 that the text states."""
    source = f"{THESIS}, figure 6.3"
    return tuple(
        Published(source, metric, "p4wise", value, case)
        for case in LEARNING
        for metric, value in (
            ("actions_to_90", PUBLISHED_ACTIONS),
            ("last_100_rewards", BEST_REWARDS),
        )
    )
