"""Rates, sizes and durations against known values."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

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

RATES = {
    "10Mbit": 10_000_000,
    "1.5 gbit": 1_500_000_000,
    "100kbps": 100_000,
    "2.5Gbit/s": 2_500_000_000,
    "1e6": 1_000_000,
    "1_000": 1_000,
    12: 12,
    10e6: 10_000_000,
    np.int64(7): 7,
    np.float32(8): 8,
}
SIZES = {
    "400KB": 400_000,
    "4MB": 4_000_000,
    "64KiB": 65_536,
    "1MiB": 1_048_576,
    "1500": 1_500,
    "1500B": 1_500,
    "0.5KB": 500,
    0: 0,
    30_000: 30_000,
}
DURATIONS = {
    "10ms": 10_000_000,
    "1.5s": 1_500_000_000,
    "20us": 20_000,
    "7ns": 7,
    "0.1ms": 100_000,
    "2min": 120_000_000_000,
    "1h": 3_600_000_000_000,
    2: 2_000_000_000,
    0.05: 50_000_000,
    # Exact, although 0.1 s has no exact binary form.
    0.1: 100_000_000,
    0: 0,
}


@pytest.mark.parametrize(
    ("parse", "known"), [(parse_rate, RATES), (parse_size, SIZES), (parse_duration, DURATIONS)]
)
def test_known_texts_and_numbers_are_read(
    parse: Callable[[Any], int], known: dict[Any, int]
) -> None:
    read = {written: parse(written) for written in known}
    assert read == known
    assert {type(amount) for amount in read.values()} == {int}


# No number, not finite, not positive, of another unit or of none, digits of another script.
NO_NUMBER = ("", "fast", "1..2", "nan", float("nan"), float("inf"), "1e99", None, True, [1])
NO_RATE = (*NO_NUMBER, "-1Mbit", -1, 0, "0bit", "10M", "10KB", "10 Mbit 5", "10\nMbit5", "٣Mbit")
NO_SIZE = (*NO_NUMBER, "-1KB", -1, "4Mbit", "1s")
NO_DURATION = (*NO_NUMBER, "-1ms", -0.5, "4MB", "1 day")


@pytest.mark.parametrize(
    ("parse", "values"),
    [(parse_rate, NO_RATE), (parse_size, NO_SIZE), (parse_duration, NO_DURATION)],
)
def test_what_is_no_amount_is_refused_by_field_and_value(
    parse: Callable[..., int], values: tuple[object, ...]
) -> None:
    for value in values:
        with pytest.raises(ConfigError) as caught:
            parse(value, field="core_rate")
        said = str(caught.value)
        assert said.startswith(f"core_rate: value {value!r} is not allowed; allowed: ")
        assert "\n" not in said


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
