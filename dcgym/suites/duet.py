"""The suite of Duet's assignment of VIPs: its shapes beside the published numbers.

Numbers are those of R. Gandhi and others, SIGCOMM 2014, and of Gandhi's thesis, Purdue 2016, of a
production trace in a data centre of 1600 racks. The default is a fat-tree of 32 racks and a
synthetic trace; ``duet("duet", 30_000, "10Tbit")`` is of full size.
"""

from __future__ import annotations

from dcgym.config import check_int
from dcgym.suites.shapes import Check, Shape, Term
from dcgym.suites.suite import SUITES, Case, Published, Suite
from dcgym.units import format_rate, parse_rate

__all__ = ["DUET_POLICIES", "duet"]

DUET_POLICIES = ("muxes", "first-feasible", "duet", "duet-skip", "fewest-hops", "random")
LOADS = (0.125, 0.25, 0.5, 1.0)
SEEDS = 10
DUET = "Gandhi and others, Duet, SIGCOMM 2014"
RUBIK = "Gandhi, thesis, Purdue 2016, section 3.1"
MUXES = "muxes"


def duet(
    data_centre: str = "fat-tree-8", vips: int = 400, total: str = "380Gbit", seeds: int = SEEDS
) -> Suite:
    """Return the suite of Duet's numbers at the level of flows, without learners.

    Args:
        data_centre: Name of the data centre.
        vips: Number of VIPs.
        total: Their traffic at the highest of four loads; the others are 1/8, 1/4 and 1/2 of it.
        seeds: Number of seeds, each with a trace of its own.

    Raises:
        ConfigError: A value is not allowed.
    """
    vips = check_int("vips", vips, 1)
    most_bps = parse_rate(total, "total")
    env = {"env": "dcgym/VipPlacement-v0", "data_centre": data_centre}
    rates = {f"load-{load:g}": format_rate(round(load * most_bps)) for load in LOADS}
    cases = tuple(
        Case({**env, "vips": {"vips": vips, "total": rate}}, name) for name, rate in rates.items()
    )
    names = tuple(rates)
    return Suite(
        name="duet",
        description="Duet's greedy assignment of VIPs to switches, at four loads: flow level.",
        cases=cases,
        policies=DUET_POLICIES,
        seeds=seeds,
        jobs=0,
        # A VIP counts as a second.
        episode_s=float(vips),
        warmup_s=0.0,
        # On a small tree the order is asked for, not the factor: it has few switches.
        shapes=_shapes(names, *((8.0, 2.2) if data_centre == "duet" else (5.0, 1.0))),
        published=_published(names[-1]),
    )


def _shapes(names: tuple[str, ...], by_software: float, by_random: float) -> tuple[Shape, ...]:
    top = names[-1]
    return (
        Shape(
            "S2",
            f"Software alone needs {by_software:g} times Duet's muxes (published: 12 to 24)",
            DUET,
            tuple(
                Check(Term(MUXES, "muxes", name), ">", Term(MUXES, "duet", name, by_software))
                for name in names
            ),
        ),
        Shape(
            "S3",
            f"The first feasible switch takes {by_random:g} times Duet's muxes (2.2 to 4.1 there)",
            DUET,
            (Check(Term(MUXES, "first-feasible", top), ">", Term(MUXES, "duet", top, by_random)),),
        ),
        *_failures(names),
        Shape(
            "S8",
            "Duet's detours: MLU and hops above direct paths, those above the closest servers",
            RUBIK,
            tuple(
                Check(Term(left, "duet", top), ">", Term(right, "duet", top))
                for left, right in (
                    ("mlu", "mlu_direct"),
                    ("mlu_direct", "mlu_closest"),
                    ("hops", "hops_direct"),
                    ("hops_direct", "hops_closest"),
                )
            ),
        ),
    )


def _failures(names: tuple[str, ...]) -> tuple[Shape, ...]:
    kinds = [f"mlu_rise_{what}" for what in ("container", "switches")]
    return (
        Shape(
            "S7",
            "A failure raises the fullest link by less than the reserve of 20 points (16 at most)",
            DUET,
            tuple(Check(Term(kind, "duet", name), "<=", 0.2) for kind in kinds for name in names),
        ),
        Shape(
            "S7-order",
            "A container's failure raises it no more than that of three switches",
            DUET,
            (Check(Term(kinds[0], "duet", names[-1]), "<=", Term(kinds[1], "duet", names[-1])),),
        ),
    )


def _published(top: str) -> tuple[Published, ...]:
    numbers = {"mlu": 0.98, "hops": 5.47, "switch_share": 0.97, "core_detour": 0.44}
    found = [Published(RUBIK, name, "duet", value, top) for name, value in numbers.items()]
    found.append(Published(RUBIK, "container_detour", "duet", 0.16, top))
    return (*found, Published(DUET, "latency_us_p50", "duet", 474.0, top))


_SUITE = duet()
SUITES.add(_SUITE.name, _SUITE, _SUITE.description)
