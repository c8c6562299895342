"""Rates, sizes and durations against known values."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.units import (
    format_duration,
    format_rate,
    format_size,
    parse_duration,
    parse_rate,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "rate_bps"),
    [
        ("10Mbit", 10_000_000),
        ("1Gbit", 1_000_000_000),
        ("1.5 gbit", 1_500_000_000),
        ("100kbps", 100_000),
        ("2.5Gbit/s", 2_500_000_000),
        ("10M", None),
        ("1e6", 1_000_000),
        ("1_000", 1_000),
        (12, 12),
        (10e6, 10_000_000),
        (np.int64(7), 7),
        (np.float32(8), 8),
    ],
)
def test_rates(text: str | int, rate_bps: int | None) -> None:
    if rate_bps is None:
        with pytest.raises(ConfigError):
            parse_rate(text)
    else:
        rate = parse_rate(text)
        assert rate == rate_bps
        assert type(rate) is int


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("400KB", 400_000),
        ("4MB", 4_000_000),
        ("64KiB", 65_536),
        ("1MiB", 1_048_576),
        ("1500", 1_500),
        ("1500B", 1_500),
        ("0.5KB", 500),
        (0, 0),
        (30_000, 30_000),
    ],
)
def test_sizes(text: str | int, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("10ms", 10_000_000),
        ("1.5s", 1_500_000_000),
        ("20us", 20_000),
        ("7ns", 7),
        ("0.1ms", 100_000),
        ("2min", 120_000_000_000),
        ("1h", 3_600_000_000_000),
        (2, 2_000_000_000),
        (0.05, 50_000_000),
        # Exact, although 0.1 s has no exact binary form.
        (0.1, 100_000_000),
        (0, 0),
    ],
)
def test_durations(text: str | int | float, duration_ns: int) -> None:
    assert parse_duration(text) == duration_ns


@pytest.mark.parametrize(
    "value",
    [
        "",
        "fast",
        "-1Mbit",
        -1,
        0,
        "0bit",
        "10 Mbit 5",
        "1..2Mbit",
        "nan",
        float("nan"),
        None,
        True,
        float("inf"),
        "1e99",
        "10KB",
        [1],
        "10\nMbit5",
        "٣Mbit",
    ],
)
def test_what_is_no_rate_is_refused_by_field_and_value(value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rate(value, field="core_rate")  # type: ignore[arg-type]
    assert str(caught.value).startswith(f"core_rate: value {value!r} is not allowed; allowed: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", ["-1KB", "4Mbit", "1s", "", None, False, -1])
def test_what_is_no_size_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=r"^queue: value"):
        parse_size(value, field="queue")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["-1ms", "4MB", "1 day", "", None, True, -0.5])
def test_what_is_no_duration_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=r"^interval: value"):
        parse_duration(value, field="interval")  # type: ignore[arg-type]


def test_known_forms() -> None:
    assert format_rate(10_000_000) == "10Mbit"
    assert format_rate(1_234_567) == "1.234567Mbit"
    assert format_rate(999) == "999bit"
    assert format_size(400_000) == "400KB"
    assert format_size(0) == "0B"
    assert format_size(-1_500) == "-1.5KB"
    assert format_duration(50_000_000) == "50ms"
    assert format_duration(1_000_000_001) == "1.000000001s"


@pytest.mark.parametrize(
    ("write", "read"),
    [(format_rate, parse_rate), (format_size, parse_size), (format_duration, parse_duration)],
)
def test_what_is_written_reads_back_exactly(
    write: Callable[[int], str], read: Callable[[str], int]
) -> None:
    generator = random.Random(7)
    for bits in range(1, 62):
        amount = generator.getrandbits(bits) | 1 << (bits - 1)
        assert read(write(amount)) == amount
