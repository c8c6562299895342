"""Size and arrival models against their analytic distributions."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special

from dcgym.errors import ConfigError
from dcgym.topologies import dumbbell
from dcgym.traffic import make_plan
from dcgym.traffic.sizes import exact
from dcgym.traffic.sizes.cdfs import CDFS
from dcgym.traffic.sizes.draws import Draws
from dcgym.traffic.sizes.empirical import Empirical
from dcgym.traffic.sizes.read import read_durations, read_sizes

FloatArray = npt.NDArray[np.float64]
Cdf = Callable[[float], float]

COUNT = 50_000
# Kolmogorov's distribution: D sqrt(n) exceeds 1.95 in one of a thousand samples. The seeds are
# fixed, so that a right sampler passes always and a wrong one fails always.
KS_LIMIT = 1.95
# The mean of a right sample lies within 4 standard errors, but for one in 16,000.
STANDARD_ERRORS = 4.0


def ks_distance(sample: FloatArray, cdf: Cdf) -> float:
    """Return the largest distance between the sample's distribution and the analytic one."""
    values, counts = np.unique(sample, return_counts=True)
    at = np.array([cdf(value) for value in values.tolist()])
    before = np.array([cdf(math.nextafter(value, -math.inf)) for value in values.tolist()])
    steps = np.cumsum(counts) / len(sample)
    return float(max(np.abs(steps - at).max(), np.abs(steps - counts / len(sample) - before).max()))


def exponential(mean: float) -> Cdf:
    return lambda x: 1 - math.exp(-x / mean) if x > 0 else 0.0


def log_normal(mu: float, sigma: float) -> Cdf:
    normal = NormalDist(mu, sigma)
    return lambda x: normal.cdf(math.log(x)) if x > 0 else 0.0


def pareto(least: float, shape: float, most: float = math.inf) -> Cdf:
    kept = 1 - (least / most) ** shape
    return lambda x: (1 - (least / min(max(x, least), most)) ** shape) / kept


def published(name: str, scale: float) -> Cdf:
    points = [(0.0, 0.0), *((size * scale, level) for size, level in CDFS[name].points)]

    def cdf(x: float) -> float:
        below = [point for point in points if point[0] <= x]
        above = [point for point in points if point[0] > x]
        if not below or not above:
            return 1.0 if below else 0.0
        (x0, p0), (x1, p1) = below[-1], above[0]
        # Mass at the first size is no slope from zero.
        return (
            p0
            if len(below) == 1 and p1 > 0 and CDFS[name].points[0][1] > 0
            else (p0 + (p1 - p0) * (x - x0) / (x1 - x0))
        )

    return cdf


def bounded_pareto_mean(least: float, shape: float, most: float) -> float:
    kept = 1 - (least / most) ** shape
    return least**shape / kept * shape / (shape - 1) * (least ** (1 - shape) - most ** (1 - shape))


def polygon_mean(name: str) -> float:
    """Return the area above the distribution function."""
    points = CDFS[name].points
    area = Fraction(points[0][0])  # nothing is smaller than the first size
    for (x0, p0), (x1, p1) in pairwise(points):
        area += Fraction(x1 - x0) * (1 - (Fraction(str(p0)) + Fraction(str(p1))) / 2)
    return float(area)


YAO = [(2e4, 36_316, 0.1), (1e5, 162_755, 0.8), (1e4, 8_886_111, 0.3)]

# Spec, analytic distribution function, analytic mean.
MODELS: dict[str, tuple[Any, Cdf, float]] = {
    "exponential": ({"name": "exponential", "mean": "100KB"}, exponential(1e5), 1e5),
    "lognormal-mean": (
        {"name": "lognormal", "mean": "50KB", "sigma": 1.5},
        log_normal(math.log(50_000) - 1.5**2 / 2, 1.5),
        50_000,
    ),
    # The mice of Yao's three-mode mix: LN(12, 0.8^2).
    "lognormal-median": (
        {"name": "lognormal", "median": round(math.exp(12)), "sigma": 0.8},
        log_normal(math.log(round(math.exp(12))), 0.8),
        224_134,
    ),
    "pareto": ({"name": "pareto", "min": "10KB", "shape": 2.5}, pareto(1e4, 2.5), 1e4 * 2.5 / 1.5),
    "pareto-bounded": (
        {"name": "pareto", "min": "10KB", "shape": 1.2, "max": "10MB"},
        pareto(1e4, 1.2, 1e7),
        bounded_pareto_mean(1e4, 1.2, 1e7),
    ),
    "web-search": ("web-search", published("web-search", 1), polygon_mean("web-search")),
    "data-mining": ("data-mining", published("data-mining", 1), polygon_mean("data-mining")),
    "cache": ("cache", published("cache", 1), polygon_mean("cache")),
    "hadoop": ("hadoop", published("hadoop", 1), polygon_mean("hadoop")),
    # Yao's three modes: LN(10.5, 0.1^2), LN(12, 0.8^2), LN(16, 0.3^2); mean 893,035.
    "mixture": (
        {
            "name": "mixture",
            "parts": [
                {"weight": w, "sizes": {"name": "lognormal", "median": m, "sigma": s}}
                for w, m, s in YAO
            ],
        },
        lambda x: sum(w * log_normal(math.log(m), s)(x) for w, m, s in YAO) / 130_000,
        893_035,
    ),
    "hadoop-scaled": (
        {"name": "hadoop", "scale": 0.1},
        published("hadoop", 0.1),
        polygon_mean("hadoop") / 10,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_sizes_follow_their_distribution(name: str) -> None:
    spec, cdf, mean = MODELS[name]
    sizes = read_sizes(spec)
    sample = sizes.quantile(Draws(7, 1).uniform(COUNT))
    assert ks_distance(sample, cdf) * math.sqrt(COUNT) < KS_LIMIT
    error = STANDARD_ERRORS * float(sample.std()) / math.sqrt(COUNT)
    assert abs(float(sample.mean()) - mean) < error
    assert sizes.mean == pytest.approx(mean, rel=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_the_distribution_function_inverts_the_quantile(name: str) -> None:
    sizes = read_sizes(MODELS[name][0])
    u = np.linspace(0.401, 0.999, 500)  # above the mass at cache's first size
    if name != "mixture":
        assert np.allclose(sizes.cdf(sizes.quantile(u)), u, atol=1e-12)
    analytic = [MODELS[name][1](x) for x in sizes.quantile(u).tolist()]
    assert np.allclose(sizes.cdf(sizes.quantile(u)), analytic, atol=1e-9)


def test_constant_sizes_and_durations() -> None:
    assert set(read_sizes("64KB").quantile(Draws(1).uniform(9)).tolist()) == {64_000.0}
    assert read_sizes({"name": "constant", "value": "64KB", "scale": 0.5}).mean == 32_000
    assert read_durations("5ms", "think").mean == 5e6


def test_published_means_agree_with_the_literature() -> None:
    # Linear interpolation of the same points: 1.711 MB and 12.66 MB (HKUST TrafficGenerator).
    assert read_sizes("web-search").mean == pytest.approx(1.711e6, rel=1e-3)
    assert read_sizes("data-mining").mean == pytest.approx(12.66e6, rel=1e-3)
    # Roy et al., section 5.1: the median Hadoop flow is under 1 KB, under 5 % exceed 1 MB.
    assert read_sizes("hadoop").cdf(np.array([1000.0]))[0] >= 0.5
    assert read_sizes("hadoop").cdf(np.array([1e6]))[0] > 0.95
    # Mass at a point: 36 % of the cache followers' flows are one packet.
    assert read_sizes("cache").cdf(np.array([1499.0, 1500.0])).tolist() == [0.0, 0.36]


# Share of the short gaps: both kinds bring half of the time, the variance is nine squared means.
HYPER = (1 + math.sqrt(8 / 10)) / 2
ARRIVALS: dict[str, tuple[Any, Cdf]] = {
    "poisson": ("poisson", exponential(1e6)),
    "lognormal": ({"name": "lognormal", "sigma": 2.0}, log_normal(math.log(1e6) - 2, 2.0)),
    "pareto": ({"name": "pareto", "shape": 2.5}, pareto(1e6 * 1.5 / 2.5, 2.5)),
    "erlang": (
        {"name": "erlang", "phases": 5},
        # What `stats.gamma.cdf` calls, in a hundredth of its time.
        lambda x: float(special.gammainc(5, x / (1e6 / 5))),
    ),
    "hyperexponential": (
        {"name": "hyperexponential", "variation": 3.0},
        lambda x: (
            HYPER * exponential(1e6 / (2 * HYPER))(x)
            + (1 - HYPER) * exponential(1e6 / (2 - 2 * HYPER))(x)
        ),
    ),
}


@pytest.mark.parametrize("name", ARRIVALS)
def test_arrivals_follow_their_distribution(name: str) -> None:
    arrivals, cdf = ARRIVALS[name]
    spec = {
        "name": "poisson",
        "arrivals": arrivals,
        "sizes": 1,
        "flows_per_s": 1000,
        "duration": "50s",
    }
    starts_ns = make_plan(spec, dumbbell(), 3).records["start_ns"]
    gaps_ns = np.diff(starts_ns, prepend=0)
    # Whole nanoseconds against gaps of a millisecond move the distance by less than 1e-6.
    assert ks_distance(gaps_ns + 0.5, cdf) * math.sqrt(len(gaps_ns)) < KS_LIMIT
    error = STANDARD_ERRORS * float(gaps_ns.std()) / math.sqrt(len(gaps_ns))
    assert abs(float(gaps_ns.mean()) - 1e6) < error
    assert starts_ns.min() >= 0 and starts_ns.max() < 50e9


def test_poisson_counts_have_the_variance_of_their_mean() -> None:
    spec = {"name": "poisson", "sizes": 1, "flows_per_s": 1000, "duration": "50s"}
    starts_ns = make_plan(spec, dumbbell(), 5).records["start_ns"]
    counts = np.bincount(starts_ns // 10_000_000, minlength=5000)
    # Index of dispersion: 1, with standard deviation sqrt(2 / n).
    assert counts.var() / counts.mean() == pytest.approx(1.0, abs=4 * math.sqrt(2 / 5000))


def test_periodic_arrivals() -> None:
    spec = {"name": "poisson", "arrivals": "periodic", "sizes": 1, "flows_per_s": 4}
    starts_ns = make_plan({**spec, "duration": "1s", "start": "2s"}, dumbbell()).records["start_ns"]
    assert starts_ns.tolist() == [2_250_000_000, 2_500_000_000, 2_750_000_000]


def test_think_times_follow_their_distribution() -> None:
    spec = {
        "name": "closed-loop",
        "sizes": {"name": "exponential", "mean": "10KB"},
        "think": {"name": "exponential", "mean": "20ms"},
        "requests": 10_000,
    }
    records = make_plan(spec, dumbbell(), 3).records
    assert ks_distance(records["start_ns"] + 0.5, exponential(20e6)) * math.sqrt(20_000) < KS_LIMIT
    assert (
        ks_distance(records["size_bytes"] - 0.0, exponential(10e3)) * math.sqrt(20_000) < KS_LIMIT
    )


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[10, 0.5], [5, 1]], "cdf, point 2, amount: value 5 .* 10.0 or more: a CDF is monotone"),
        ([[10, 0.5], [20, 0.4]], "cdf, point 2, probability: value 0.4 .* monotone"),
        ([[10, 0.5], [20, 0.9]], "cdf, point 2, probability: value 0.9 .* 1 for the last"),
        ([[-1, 0.5], [20, 1]], "cdf, point 1, amount: value -1"),
        ([[1, 0.5], [20, 1.5]], "cdf, point 2, probability: value 1.5"),
        ([[1, 0.5], [20]], "cdf, point 2: value"),
        ([[1, 0.5], "xy"], "cdf, point 2: value 'xy'"),
        ([[1, math.nan]], "cdf, point 1: value"),
        ([[0, 1]], "point 1, amount: value 0.0 .* more than 0"),
        ([[1, 50], [20, 99]], "cdf, point 1, probability: value 50 .* 0.0 to 1: a CDF"),
        ([[1, 50], [20, 40], [30, 100]], "cdf, point 2, probability: value 40 .* 50.0 to 100"),
        ([[10**400, 1]], "cdf, point 1: value .* two finite numbers"),
        ([], "one point"),
    ],
)
def test_wrong_points_are_named(points: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Empirical(points)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("web-serach", "did you mean 'web-search'"),
        ({"name": "exponential"}, "sizes.mean: value None"),
        ({"name": "exponential", "mean": 0}, "sizes.mean: value 0"),
        ({"name": "exponential", "mean": "1KB", "sigma": 2}, "sizes field: value 'sigma'"),
        ({"name": "lognormal", "sigma": 1}, "either a mean or a median"),
        ({"name": "lognormal", "sigma": 11, "mean": 1}, "sizes.sigma: value 11"),
        ({"name": "pareto", "min": "1KB", "shape": 1, "max": 10}, "more than min"),
        ({"name": "cdf"}, "either points or a file"),
        ({"name": "mixture", "parts": [{"weight": 0, "sizes": 1}]}, r"parts\[0\].weight: value 0"),
        ({"name": "mixture", "parts": [3]}, r"parts\[0\]: value 3"),
        ({"name": "cdf", "file": "missing"}, "No such file"),
        ({"name": "cdf", "points": 3}, "a list of pairs"),
        ({"name": "cdf", "points": [[1, 1]], "unit": "1B"}, "sizes.unit: value '1B' .* not beside"),
        ({"name": "cdf", "file": "missing", "unit": 0}, "sizes.unit: value 0"),
        (0, "1 byte or more"),
        (None, "sizes: value None"),
    ],
)
def test_wrong_size_specs_are_named(spec: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_sizes(spec)


def test_cdf_files_of_other_tools(tmp_path: Path) -> None:
    path = tmp_path / "sizes.txt"
    path.write_text("# bytes share\n0 0\n10000\t0.15\n\n20000, 1\n", encoding="utf-8")
    sizes = read_sizes({"name": "cdf", "file": str(path)})
    assert sizes.mean == pytest.approx(0.15 * 5000 + 0.85 * 15000)
    path.write_text("0 0\n\n10 0.5\n20 0.4\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"sizes\.txt, line 4, probability: value 0\.4"):
        read_sizes({"name": "cdf", "file": str(path)})
    path.write_text("0 0\nten 1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"sizes\.txt, line 2: value 'ten 1'"):
        read_sizes({"name": "cdf", "file": str(path)})
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="the file holds text in UTF-16"):
        read_sizes({"name": "cdf", "file": str(path)})


def test_functions_are_exact_to_the_last_place_but_one() -> None:
    u = Draws(1).uniform(10_000)
    normal = NormalDist()
    for x in [*u[:2000].tolist(), *(u[:2000] * 1e9).tolist(), 1.0, 2.0**-50, 2.0**80]:
        assert abs(float(exact.log(x)) - math.log(x)) <= 2 * math.ulp(math.log(x))
    for x in ((u[:2000] - 0.5) * 1400).tolist():
        assert abs(float(exact.exp(x)) - math.exp(x)) <= 2 * math.ulp(math.exp(x))
    for p in [*u[:2000].tolist(), 1e-16, 1e-5, 0.5, 1 - 1e-10]:
        assert float(exact.normal_quantile(p)) == pytest.approx(normal.inv_cdf(p), abs=1e-12)


def test_streams_are_the_documented_ones() -> None:
    """The words of PCG64 and the functions give these bits on every machine."""
    u = Draws(1, 2).uniform(10_000)
    assert (u.min() > 0) and (u.max() < 1)
    numbers = np.concatenate(
        [u, exact.log(u), exact.exp(u * 100), exact.normal_quantile(u)]
    ).astype("<f8")
    digest = hashlib.sha256(numbers.tobytes()).hexdigest()
    assert digest[:16] == "596ae84b803b8005"
    assert not np.array_equal(u, Draws(1, 3).uniform(10_000))
    assert np.array_equal(Draws(1).stream(2).uniform(10), u[:10])


def test_orders() -> None:
    draws = Draws(5)
    assert sorted(draws.permutation(100).tolist()) == list(range(100))
    for _ in range(50):
        drawn = draws.derangement(4)
        assert sorted(drawn.tolist()) == [0, 1, 2, 3] and not np.any(drawn == np.arange(4))
    counts = np.bincount(draws.integers(70_000, 7), minlength=7)
    # Chi-squared with 6 degrees of freedom exceeds 22.46 in one of a thousand samples.
    assert float(((counts - 10_000) ** 2 / 10_000).sum()) < 22.46
