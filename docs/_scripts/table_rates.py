"""Tables and pictures of the two sweeps of the load."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from printed import ROOT
from table_cells import Cells, Writer, markdown, pivot, shapes

from dcgym.suites import balancing_rates as balancing
from dcgym.suites import congestion_rates as congestion
from dcgym.suites.comparisons import gap_of
from dcgym.suites.reports.curves import curve_columns, curve_figure, points_of
from dcgym.suites.reports.exports import MADE_FILE, exporting
from dcgym.suites.results import Records, load_records, read_json
from dcgym.suites.samples import Sample, differences, sample_of
from dcgym.suites.suite import Suite

__all__ = ["RATE_TABLES"]

IMAGES = ROOT / "docs" / "images" / "rates"


@dataclass(frozen=True)
class Picture:
    """A metric over the load, a curve a policy.

    Attributes:
        metric: Name of the metric.
        policies: Names of the policies.
        where: Values of other swept arguments.
    """

    metric: str
    policies: Sequence[str]
    where: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path, name: str) -> str:
        """Draw it into the documentation's images, and return how a page shows it.

        Args:
            folder: Folder of the results.
            name: Name of its file.
        """
        own = [run for run in load_records(folder) if self.where.items() <= run["sweep"].items()]
        records = [run for policy in self.policies for run in own if run["policy"] == policy]
        column = next(one for one in curve_columns(records) if one.metric == self.metric)
        with tempfile.TemporaryDirectory() as scratch:
            with exporting(Path(scratch) / "figure", folder, ("svg",)):
                curve_figure(records, points_of(records), "load", column)
            made = read_json(Path(scratch) / "figure" / MADE_FILE)["files"]
            (file, about) = next(iter(made.items()))
            IMAGES.mkdir(exist_ok=True)
            shutil.copyfile(Path(scratch) / "figure" / file, IMAGES / f"{name}.svg")
        return f"![{about['title']}](../images/{IMAGES.name}/{name}.svg)"


def pictures(name: str, *drawn: Picture) -> Writer:
    """Return a writer of pictures beside each other.

    Args:
        name: What the names of their files begin with.
        *drawn: The pictures.
    """
    return lambda folder: "\n".join(
        one.write(folder, f"{name}-{number}") for number, one in enumerate(drawn, 1)
    )


@dataclass(frozen=True)
class Pair:
    """Two policies whose ranking a page follows over the load.

    Attributes:
        title: What stands in front of the row.
        metric: Name of the metric.
        first: The policy whose metric is divided.
        second: The policy by whose metric it is.
        case: Name of the case; the load stands for ``{}``.
    """

    title: str
    metric: str
    first: str
    second: str
    case: str

    def write(self, records: Records, load: float) -> str:
        """Return the ratio of the means at a load; in italics where chance may have turned it.

        Args:
            records: Records of all runs.
            load: The load.
        """
        first, second = (self._sample(records, one, load) for one in (self.first, self.second))
        gap = gap_of(differences({"": first}, {"": second}))
        if not gap.pairs:
            return ""
        ratio = f"{first.mean / second.mean:.2f}"
        return ratio if abs(gap.mean) > gap.half_width else f"*{ratio}*"

    def _sample(self, records: Records, policy: str, load: float) -> Sample:
        at = (policy, self.case.format(f"{load:g}"))
        return sample_of(
            [run for run in records if (run["policy"], run["scenario"]) == at], self.metric
        )


def turns(loads: Sequence[float], *pairs: Pair) -> Writer:
    """Return a writer of the ratios of pairs, a column a load.

    Args:
        loads: The loads.
        *pairs: The pairs.
    """

    def write(folder: Path) -> str:
        records = load_records(folder)
        heading = ["pair", *(f"{load:g}" for load in loads)]
        rows = [[one.title, *(one.write(records, load) for load in loads)] for one in pairs]
        return markdown([heading, *rows])

    return write


def by_load(
    policies: Sequence[str],
    case: str,
    loads: Sequence[float],
    metrics: Sequence[str],
    divisor: float = 1.0,
    in_brackets: str = "",
) -> Writer:
    """Return a writer of a row a policy and a column a load.

    Args:
        policies: Names of the policies.
        case: Name of the case; the load stands for ``{}``.
        loads: The loads.
        metrics: What a cell shows.
        divisor: What the metrics are divided by.
        in_brackets: A metric that follows in brackets where it is not 0.
    """
    return pivot(
        "policy",
        policies,
        [
            Cells(
                f"{load:g}",
                case.format(f"{load:g}"),
                metrics,
                divisor,
                in_brackets=in_brackets,
                digits=3,
            )
            for load in loads
        ],
    )


MEAN, TAIL = "fct_us_mean", "fct_us_p99"
POOL = "load-{}"
RULES = ("oracle", "sed", "lsq", "wcmp", "hlb", "prequal", "c3-rank", "peak-ewma")
LEARNED = ("sed", "wcmp", *balancing.LEARNED)
BALANCERS = (*balancing.CLASSIC, *balancing.MODERN, *balancing.LEARNED)

SHORT, LONG = "slowdown_p99_short", "slowdown_mean_long"
SLOWDOWN, QUEUE = "slowdown_p99", "queue_bytes_mean"
MEANS = ("slowdown_mean_short", LONG)
WEB, MINING, INCAST = (f"{kind}-{{}}" for kind in congestion.TRAFFIC)
DRAWN = ("cubic", "reno", "dctcp", "new-vegas", "bbr", "swift", "timely", "theta-powertcp")
LIMITS = ("cubic", "dctcp", "fair-share", *congestion.LEARNED)
CONTROLS = (*congestion.CONTROLS, *congestion.REFERENCES, *congestion.LEARNED)


def _balancing() -> Mapping[str, Writer]:
    loads = balancing.LOADS
    every = (BALANCERS, POOL, loads)
    pairs = [
        Pair("SED over WCMP, mean", MEAN, "sed", "wcmp", POOL),
        Pair("SED over WCMP, p99", TAIL, "sed", "wcmp", POOL),
        Pair("SED over LSQ, mean", MEAN, "sed", "lsq", POOL),
        Pair("`hlb` over SED, mean", MEAN, "hlb", "sed", POOL),
        Pair("`prequal` over `wrr-utilisation`, p99", TAIL, "prequal", "wrr-utilisation", POOL),
        Pair("`jiq` over LSQ, p99", TAIL, "jiq", "lsq", POOL),
        *(Pair(f"`{one}` over SED, mean", MEAN, one, "sed", POOL) for one in balancing.LEARNED),
    ]
    return {
        "": pictures("balancing", *(Picture(metric, RULES) for metric in (MEAN, TAIL, "regret"))),
        "learned": pictures(
            "balancing-learned", *(Picture(metric, LEARNED) for metric in (MEAN, TAIL))
        ),
        "turns": turns(loads, *pairs),
        "shapes": shapes,
        "mean": by_load(*every, (MEAN,), 1e3, "rejected"),
        "p99": by_load(*every, (TAIL,), 1e3),
        "regret": by_load(*every, ("regret",), 1e3),
    }


def _congestion() -> Mapping[str, Writer]:
    loads = congestion.LOADS
    pairs = [
        Pair("DCTCP over CUBIC", SHORT, "dctcp", "cubic", WEB),
        Pair("the same, long flows", LONG, "dctcp", "cubic", WEB),
        Pair("the same, data mining", SHORT, "dctcp", "cubic", MINING),
        Pair("the same, incast", SLOWDOWN, "dctcp", "cubic", INCAST),
        Pair("Swift over DCTCP", SHORT, "swift", "dctcp", WEB),
        Pair("the same, long flows", LONG, "swift", "dctcp", WEB),
        *(Pair(f"`{one}` over CUBIC", SHORT, one, "cubic", WEB) for one in congestion.LEARNED),
    ]
    web, mining, incast = congestion.TRAFFIC
    both = (SHORT, LONG)
    return {
        "": _drawn("congestion-web", web, DRAWN, both),
        "mining-pictures": _drawn("congestion-mining", mining, DRAWN, both),
        "incast-pictures": _drawn(
            "congestion-incast", incast, DRAWN, (SLOWDOWN, "queue_bytes_mean")
        ),
        "learned": _drawn("congestion-learned", web, LIMITS, (*both, "reward_mean")),
        "turns": turns(loads, *pairs),
        "shapes": shapes,
        "web": by_load(CONTROLS, WEB, loads, both),
        "mining": by_load(CONTROLS, MINING, loads, both),
        "incast": by_load(CONTROLS, INCAST, loads, (SLOWDOWN,)),
    }


def _drawn(name: str, traffic: str, policies: Sequence[str], metrics: Sequence[str]) -> Writer:
    where = {"traffic": traffic}
    return pictures(name, *(Picture(metric, policies, where) for metric in metrics))


def _emulated(
    suite: Suite, case: str, metrics: Sequence[str], divisor: float = 1.0
) -> Mapping[str, Writer]:
    loads = [float(str(one.sweep["load"])) for one in suite.cases]
    return {"": by_load(suite.policies, case, loads, metrics, divisor), "shapes": shapes}


POOLS, NETWORKS = "rate-sweep-balancing", "rate-sweep-congestion"
RATE_TABLES: Mapping[str, tuple[str, Writer]] = {
    "-".join(filter(None, (source, name))): (source, write)
    for source, writers in (
        (POOLS, _balancing()),
        (
            f"{POOLS}-emulation",
            _emulated(balancing.rate_sweep_balancing("emulation"), POOL, (MEAN, TAIL), 1e3),
        ),
        (NETWORKS, _congestion()),
        (
            f"{NETWORKS}-emulation",
            _emulated(congestion.rate_sweep_congestion("emulation"), WEB, MEANS),
        ),
    )
    for name, write in writers.items()
}
"""Source and writer of each table and picture."""
