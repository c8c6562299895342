"""The suites of Rubik's locality and of Duet's migrations: shapes beside the published numbers.

Numbers are those of R. Gandhi's thesis, Purdue 2016: of a production trace in a data centre of 1600
racks, over 24 hours. The defaults are a fat-tree of 32 racks and synthetic traces.
"""

from __future__ import annotations

from dcgym.config import check_int
from dcgym.suites.shapes import Check, Shape, Term
from dcgym.suites.suite import SUITES, Case, Published, Suite
from dcgym.tasks.placement.data_centre import make_data_centre
from dcgym.units import parse_rate

__all__ = ["MIGRATION_POLICIES", "RUBIK_POLICIES", "duet_migration", "rubik"]

RUBIK_POLICIES = ("duet", "rubik-lo", "rubik", "greedy")
MIGRATION_POLICIES = ("one-time", "sticky", "non-sticky", "random")
RUBIK = "Gandhi, thesis, Purdue 2016, section 3.8"
DUET = "Gandhi and others, Duet, SIGCOMM 2014, section 8.6"
# The source moves 1 % of the DIPs an hour, over a day; here a day's moves come at once.
HOUR, DAY, UNLIMITED = "hour", "day", "unlimited"
MOVES = {HOUR: 0.01, DAY: 0.24, UNLIMITED: 1.0}
MOST_STEPS = 100_000
EPOCH_S = 600.0


def rubik(
    data_centre: str = "fat-tree-8", vips: int = 400, total: str = "380Gbit", seeds: int = 10
) -> Suite:
    """Return the suite of Rubik's numbers at the level of flows, without learners.

    Args:
        data_centre: Name of the data centre.
        vips: Number of VIPs.
        total: Their traffic.
        seeds: Number of seeds, each with VIPs and calls of its own.

    Raises:
        ConfigError: A value is not allowed.
    """
    vips = check_int("vips", vips, 1)
    parse_rate(total, "total")
    env = {
        **_env("dcgym/DipPlacement-v0", data_centre, vips, total),
        # All racks: a plan may leave out those that send most.
        "candidates": make_data_centre(data_centre).n_racks,
    }
    return Suite(
        name="rubik",
        description="Rubik's local mappings and moves of DIPs, at three limits: flow level.",
        cases=tuple(Case({**env, "dips": {"moves": share}}, name) for name, share in MOVES.items()),
        policies=RUBIK_POLICIES,
        seeds=seeds,
        jobs=0,
        # A decision counts as a second; episodes end by themselves.
        episode_s=float(MOST_STEPS),
        warmup_s=0.0,
        shapes=(*_locality(), *_detours(), _moves()),
        published=_published(),
    )


def duet_migration(
    data_centre: str = "fat-tree-8",
    vips: int = 400,
    total: str = "380Gbit",
    epochs: int = 17,
    seeds: int = 10,
) -> Suite:
    """Return the suite of Duet's migrations over three hours, without learners.

    Args:
        data_centre: Name of the data centre.
        vips: Number of VIPs.
        total: Their mean traffic.
        epochs: Epochs of ten minutes after the first placement.
        seeds: Number of seeds, each with a trace of its own.

    Raises:
        ConfigError: A value is not allowed.
    """
    vips = check_int("vips", vips, 1)
    epochs = check_int("epochs", epochs, 1)
    env = {**_env("dcgym/VipMigration-v0", data_centre, vips, total), "epochs": epochs}
    return Suite(
        name="duet-migration",
        description="Duet's One-time, Sticky and Non-sticky over three hours: flow level.",
        cases=(Case(env, "three-hours"),),
        policies=MIGRATION_POLICIES,
        seeds=seeds,
        jobs=0,
        episode_s=epochs * EPOCH_S,
        warmup_s=0.0,
        shapes=_migration("three-hours"),
        published=_published_migration("three-hours"),
    )


def _env(name: str, data_centre: str, vips: int, total: str) -> dict[str, object]:
    return {"env": name, "data_centre": data_centre, "vips": {"vips": vips, "total": total}}


def _locality() -> tuple[Shape, ...]:
    return (
        Shape(
            "S9",
            "Rubik's MLU is below Rubik-LO's, and that below Duet's (22.9, 51, 98 %)",
            RUBIK,
            (
                Check(Term("mlu", "rubik", DAY), "<", Term("mlu", "rubik-lo", DAY)),
                Check(Term("mlu", "rubik-lo", DAY), "<", Term("mlu", "duet", DAY)),
            ),
        ),
        Shape(
            "S9-factor",
            "Rubik's MLU is half of Duet's at most (4.3 times less there)",
            RUBIK,
            (Check(Term("mlu", "duet", DAY), ">=", Term("mlu", "rubik", DAY, 2.0)),),
        ),
        Shape(
            "S9-share",
            "All of them have 97 % of the bytes on switches",
            RUBIK,
            tuple(
                Check(Term("switch_share", policy, DAY), ">=", 0.97)
                for policy in ("duet", "rubik-lo", "rubik")
            ),
        ),
        Shape(
            "S9-bytes",
            "Rubik loads core and other links half as much as Duet (3.68, 3.47 times less there)",
            RUBIK,
            tuple(
                Check(Term(name, "duet", DAY), ">=", Term(name, "rubik", DAY, 2.0))
                for name in ("core_bps", "container_bps")
            ),
        ),
    )


def _detours() -> tuple[Shape, ...]:
    pairs = (
        ("mlu", "mlu_direct"),
        ("mlu_direct", "mlu_closest"),
        ("hops", "hops_direct"),
        ("hops_direct", "hops_closest"),
    )
    return (
        Shape(
            "S8",
            "Duet's detours: MLU and hops above direct paths, those above the closest servers",
            RUBIK,
            tuple(
                Check(Term(left, "duet", DAY), ">", Term(right, "duet", DAY))
                for left, right in pairs
            ),
        ),
    )


def _moves() -> Shape:
    return Shape(
        "S10",
        "A day's moves localise 85 % of what unlimited ones do (8.7 % less there)",
        RUBIK,
        (
            Check(
                Term("local_share", "rubik", DAY),
                ">=",
                Term("local_share", "rubik", UNLIMITED, 0.85),
            ),
        ),
    )


def _published() -> tuple[Published, ...]:
    numbers = {
        ("duet", "mlu"): 0.98,
        ("rubik-lo", "mlu"): 0.51,
        ("rubik", "mlu"): 0.229,
        ("rubik-lo", "local_share"): 0.348,
        ("rubik", "local_share"): 0.63,
        ("duet", "hops"): 5.47,
        ("duet", "hops_direct"): 3.94,
        ("duet", "hops_closest"): 1.78,
        ("duet", "mlu_direct"): 0.46,
        ("duet", "mlu_closest"): 0.08,
    }
    return (
        *(Published(RUBIK, name, policy, value, DAY) for (policy, name), value in numbers.items()),
        Published(RUBIK, "moved_share", "rubik", 0.137, UNLIMITED),
    )


def _published_migration(case: str) -> tuple[Published, ...]:
    shares = {"one-time": 0.752, "sticky": 0.951, "non-sticky": 0.9567}
    moved = {"sticky": 0.035, "non-sticky": 0.374}
    return (
        *(Published(DUET, "switch_share", name, value, case) for name, value in shares.items()),
        *(Published(DUET, "moved_share", name, value, case) for name, value in moved.items()),
    )


def _migration(case: str) -> tuple[Shape, ...]:
    share = {policy: Term("switch_share", policy, case) for policy in MIGRATION_POLICIES}
    return (
        Shape(
            "S6",
            "Sticky has about the share of Non-sticky (95.1, 95.7 %), One-time less (75.2 %)",
            DUET,
            (
                Check(share["sticky"], ">=", Term("switch_share", "non-sticky", case, 0.98)),
                Check(share["one-time"], "<", share["sticky"]),
            ),
        ),
        Shape(
            "S6-moved",
            "Sticky moves a fifth of the bytes that Non-sticky moves, or less (3.5, 37.4 %)",
            DUET,
            (
                Check(
                    Term("moved_share", "non-sticky", case),
                    ">=",
                    Term("moved_share", "sticky", case, 5.0),
                ),
            ),
        ),
        Shape(
            "S6-muxes",
            "Non-sticky needs more muxes than Sticky",
            DUET,
            (Check(Term("muxes", "non-sticky", case), ">", Term("muxes", "sticky", case)),),
        ),
    )


for _suite in (rubik(), duet_migration()):
    SUITES.add(_suite.name, _suite, _suite.description)
