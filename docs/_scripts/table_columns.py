"""What the measured tables of pages show of their runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from table_baselines import BASELINES
from table_cells import Cells, Gap, Spread, Writer, pivot, policies, provenance, scores, shapes
from table_rates import RATE_TABLES
from table_runs import GAPS, LIMITS, PRINTED, SERVICES, TWIN_ERRORS

from dcgym.suites.balancing import QUICK_POLICIES
from dcgym.suites.modern import MODERN_POLICIES
from dcgym.suites.modern_congestion import CONTROLS, PATH_POLICIES
from dcgym.suites.results import load_records

__all__ = ["TABLES"]


def text_of(name: str, language: str | None = None) -> Writer:
    """Return a writer of a file of the results.

    Args:
        name: Its name.
        language: That of a block around it; none if not given.
    """

    def write(folder: Path) -> str:
        text = (folder / name).read_text(encoding="utf-8").rstrip()
        return text if language is None else f"```{language}\n{text}\n```"

    return write


def swept(name: str, write: Writer) -> Writer:
    """Return a writer of a sweep of a tutorial.

    Args:
        name: Name of its folder.
        write: Writes its table.
    """

    def written(folder: Path) -> str:
        runs = folder / "runs" / name
        return f"{write(runs)}\n\n{provenance('dcgym sweep', load_records(runs))}"

    return written


SHORT, LONG = "10 KB to 100 KB", "over 1 MB"
MEDIAN, TAIL = ("slowdown_p50",), ("slowdown_p50", "slowdown_p99")
LATE, BULK, FCT = ("out_of_order_share",), ("goodput_bps",), ("fct_us_mean",)
SHOWN = (
    *("reward_mean", "goodput_bps", "queue_bytes_mean", "queue_bytes_p99", "rtt_us_p50"),
    "jain",
)
"""Metrics of a dumbbell."""


def path_rules(short: Sequence[str], long: Sequence[str]) -> Writer:
    """Return a writer of path rules with DCTCP.

    Args:
        short: Metrics of short flows.
        long: Metrics of long ones.
    """
    web, slow = "dctcp-web-search-0.8", "dctcp-asymmetric-0.5"
    columns = (
        Cells("bulk, Mbit/s", "dctcp-stride-8", BULK, 1e6),
        Cells("load 0.8: short", web, short, sizes=SHORT),
        Cells("long", web, long, sizes=LONG),
        Cells("out of order, %", web, LATE, 0.01),
        Cells("slow core links: short", slow, short, sizes=SHORT),
        Cells("long", slow, MEDIAN, sizes=LONG),
        Cells("out of order, %", slow, LATE, 0.01),
        Cells("incast", "dctcp-incast", TAIL),
    )
    return pivot("rule", PATH_POLICIES, columns)


def controls(short: Sequence[str], long: Sequence[str]) -> Writer:
    """Return a writer of congestion controls with ECMP.

    Args:
        short: Metrics of short flows.
        long: Metrics of long ones.
    """
    heavy = "{}-web-search-0.8"
    columns = (
        Cells("load 0.3: short", "{}-web-search-0.3", short, sizes=SHORT, policy="ecmp"),
        Cells("0.5: short", "{}-web-search-0.5", short, sizes=SHORT, policy="ecmp"),
        Cells("0.8: short", heavy, short, sizes=SHORT, policy="ecmp"),
        Cells("0.8: long", heavy, long, sizes=LONG, policy="ecmp"),
        Cells("0.8: queue, KB", heavy, ("queue_bytes_mean",), 1e3, policy="ecmp"),
        Cells("incast", "{}-incast", TAIL, policy="ecmp"),
        Cells("incast: drops", "{}-incast", ("drops",), policy="ecmp"),
        Cells("bulk, Mbit/s", "{}-stride-8", BULK, 1e6, policy="ecmp"),
    )
    return pivot("control", CONTROLS, columns)


def production_rules(cases: Sequence[str]) -> Writer:
    """Return a writer of production's rules: 99th percentiles, and rejected requests in brackets.

    Args:
        cases: The cases.
    """
    tail = ("fct_us_p99",)
    columns = [Cells(case, case, tail, 1e3, in_brackets="rejected") for case in cases]
    lost = Cells("`sinkhole`: rejected", "sinkhole", ("rejected",))
    return pivot("rule", MODERN_POLICIES, [*columns, lost])


DUMBBELL = (
    ("reward", "reward_mean", 1.0),
    ("goodput, Mbit/s", "goodput_bps", 1e6),
    ("queue, KB", "queue_bytes_mean", 1e3),
)
LETFLOW = pivot(
    "`flowlet_gap`",
    GAPS,
    (
        Cells("bulk, Mbit/s", "{}-dctcp-stride-8", BULK, 1e6, policy="letflow"),
        Cells("out of order, %", "{}-dctcp-stride-8", LATE, 0.01, policy="letflow"),
        Cells(
            "slow core links: mean slowdown",
            "{}-dctcp-asymmetric-0.5",
            ("slowdown_mean",),
            policy="letflow",
        ),
        Cells("out of order, %", "{}-dctcp-asymmetric-0.5", LATE, 0.01, policy="letflow"),
    ),
)
HANDSHAKES = pivot(
    "service",
    tuple(SERVICES),
    [
        Cells(f"{title}, limit {limit}", f"{{}}-{count}-{limit}", FCT, 1e3, policy=rule, digits=3)
        for rule, title, settings in (
            ("random-server", "random", LIMITS[:1]),
            ("lsq", "LSQ", LIMITS[:2]),
            ("jiq-own", "`jiq-own`", LIMITS[:2]),
            ("lsq", "LSQ of four", LIMITS[2:]),
            ("jiq-own", "`jiq-own` of four", LIMITS[2:]),
        )
        for count, limit in settings
    ],
)
THREE_FLOWS = pivot(
    "policy",
    ("cubic", "dctcp", "fair-share"),
    (
        Cells("FCT mean, s", "", FCT, 1e6, digits=3),
        Cells("FCT p50, s", "", ("fct_us_p50",), 1e6, digits=3),
        Cells("queue mean, KB", "", ("queue_bytes_mean",), 1e3),
    ),
)
LATE_FLOWS = pivot(
    "control",
    ("copa", "bbr"),
    [
        Spread(f"{title}, {name}", case, metric, divisor)
        for title, metric, divisor in (
            ("queue mean, KB", "queue_bytes_mean", 1e3),
            ("Jain", "jain", 1.0),
        )
        for case, name in (("emulation", "kernel"), ("simulation", "twin"))
    ],
)
LONE_FLOWS = pivot(
    "control",
    ("cubic",),
    (
        Cells("10 KB", "", ("slowdown_mean",), sizes="up to 10 KB"),
        Cells("100 KB", "", ("slowdown_mean",), sizes=SHORT),
        Cells("1 MB", "", ("slowdown_mean",), sizes="100 KB to 1 MB"),
        Cells("10 MB", "", ("slowdown_mean",), sizes=LONG),
    ),
)
FRONT_END = pivot(
    "policy",
    ("cubic", "dctcp", "shared-aimd"),
    [
        Cells(f"{clients} clients: {title}", f"clients={clients}", (metric,), divisor)
        for clients in (2, 8)
        for title, metric, divisor in DUMBBELL
    ],
)
OVER_RATES = pivot(
    "link",
    ("5Mbit", "10Mbit", "20Mbit"),
    [
        Cells(f"`{policy}`: {title}", "rate={}", (metric,), divisor, policy=policy)
        for title, metric, divisor in DUMBBELL
        for policy in ("dctcp", "ppo")
    ],
)
ABOVE_ORACLE = pivot(
    "policy",
    QUICK_POLICIES,
    [
        Gap(f"{title}, s", case, "fct_us_mean", 1e6, "oracle")
        for case, title in (
            ("right-weights", "right weights"),
            ("wrong-weights", "wrong weights"),
            ("capacity-step", "capacity step"),
        )
    ],
)

TABLES: Mapping[str, tuple[str, Writer]] = {
    "modern-balancing": (
        "modern-balancing",
        production_rules(
            ("ramp-0.75", "ramp-1.03", "ramp-1.41", "ramp-1.74", "standing-1.27", "speeds")
        ),
    ),
    "modern-balancing-shapes": ("modern-balancing", shapes),
    "modern-balancing-emulation": (
        "modern-balancing-emulation",
        production_rules(("ramp-0.75", "ramp-1.03", "ramp-1.41", "ramp-1.74", "speeds")),
    ),
    "path-rules": ("modern-congestion", path_rules(TAIL, ("slowdown_p50", "slowdown_p95"))),
    "controls": ("modern-congestion", controls(TAIL, ("slowdown_p50", "slowdown_p95"))),
    "modern-congestion-shapes": ("modern-congestion", shapes),
    "path-rules-emulation": ("modern-congestion-emulation", path_rules(MEDIAN, MEDIAN)),
    "controls-emulation": ("modern-congestion-emulation", controls(MEDIAN, MEDIAN)),
    "letflow-gaps": ("letflow-gaps", LETFLOW),
    "held-out-balancing": ("held-out-balancing", scores),
    "balancing-quick": ("balancing-quick", ABOVE_ORACLE),
    "handshakes": ("handshakes", HANDSHAKES),
    "three-flows": ("three-flows", THREE_FLOWS),
    "late-flows": ("late-flows", LATE_FLOWS),
    "lone-flows": ("lone-flows", LONE_FLOWS),
    "beat-sed": ("beat-sed", text_of(PRINTED, "text")),
    "dctcp-and-ppo": ("dctcp-and-ppo", text_of(PRINTED, "text")),
    "carries": ("dctcp-and-ppo", swept("carries", OVER_RATES)),
    "front-end": ("front-end", swept("front-end", FRONT_END)),
    "quick": ("quick", policies(*SHOWN)),
    "quick-trained-in-twin": ("quick-trained-in-twin", policies(*SHOWN)),
    "twin-error-balancing": ("twin-error-balancing", text_of(TWIN_ERRORS)),
    "twin-error-congestion-others": ("twin-error-congestion-others", text_of(TWIN_ERRORS)),
    "twin-error-congestion": ("twin-error-congestion", text_of(TWIN_ERRORS)),
    "twin-error-fat-tree": ("twin-error-fat-tree", text_of(TWIN_ERRORS)),
    **RATE_TABLES,
    **{f"baselines-{name}": (f"baselines-{name}", one.write) for name, one in BASELINES.items()},
}
"""Source and writer of each table, by the name that stands in the pages."""
