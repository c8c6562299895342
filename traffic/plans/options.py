"""Options that several kinds of traffic share, and the records they end in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.config import check_in, check_positive
from dcgym.errors import ConfigError
from dcgym.traffic.plans.patterns import Pairs
from dcgym.traffic.plans.records import FLOW_DTYPE, NONE, TRANSPORTS, Records
from dcgym.traffic.sizes.draws import Draws
from dcgym.traffic.sizes.read import read_sizes
from dcgym.traffic.sizes.samplers import Sampler, whole_numbers
from dcgym.units import parse_duration, parse_rate

if TYPE_CHECKING:
    from dcgym.topologies import Topology

__all__ = [
    "DEFAULT_DURATION",
    "MOST_FLOWS",
    "SENDING",
    "check_count",
    "draw_sizes",
    "make_records",
    "read_scaled_sizes",
    "read_time",
    "set_sending",
]

MOST_FLOWS = 5_000_000
"""Flows of one plan: 400 MB."""

DEFAULT_DURATION = "60s"
"""Length of the plan where a spec with an endless source of flows states none."""

SENDING = ("transport", "rate")
"""Options that `set_sending` reads."""

Spec = Mapping[str, object]
"""What a configuration holds of one piece of traffic."""


def make_records(pairs: Pairs) -> Records:
    """Return one flow a pair, TCP from time 0 without limits.

    Args:
        pairs: Indexes of source and destination.
    """
    records = np.zeros(len(pairs), FLOW_DTYPE)
    records["src"], records["dst"] = pairs[:, 0], pairs[:, 1]
    for name in ("size_bytes", "duration_ns", "rate_bps", "after"):
        records[name] = NONE
    records["repetitions"] = 1
    return records


def set_sending(records: Records, spec: Spec, topology: Topology) -> None:
    """Set transport and rate cap of all flows; UDP without a rate sends at the line rate.

    Args:
        records: The flows, changed in place.
        spec: ``transport`` and ``rate``.
        topology: The network.

    Raises:
        ConfigError: An option is not allowed.
    """
    transport = str(check_in("traffic.transport", spec.get("transport", "tcp"), TRANSPORTS))
    records["transport"] = TRANSPORTS.index(transport)
    if spec.get("rate") is not None:
        records["rate_bps"] = parse_rate(spec["rate"], "traffic.rate")
    elif transport == "udp":
        line_rates_bps = np.array([port.rate_bps for port in topology.host_ports], np.int64)
        records["rate_bps"] = line_rates_bps[records["src"]]


def read_time(spec: Spec, key: str, default: str | int = 0, positive: bool = False) -> int:
    """Return a duration of a spec in nanoseconds.

    Args:
        spec: The spec.
        key: Key of the duration.
        default: What it is where the spec has none.
        positive: Whether 0 is refused.

    Raises:
        ConfigError: It is no duration, or 0.
    """
    value = spec.get(key, default)
    time_ns = parse_duration(value, f"traffic.{key}")
    if positive and time_ns == 0:
        raise ConfigError(f"traffic.{key}", value, "a duration above 0")
    return time_ns


def read_scaled_sizes(spec: Spec) -> Sampler:
    """Return the size distribution of a spec, times its ``scale``.

    Args:
        spec: ``sizes`` and ``scale``.

    Raises:
        ConfigError: There are no sizes, or an option is not allowed.
    """
    if "sizes" not in spec:
        raise ConfigError("traffic.sizes", None, "a size, or a size distribution")
    scale = check_positive("traffic.scale", spec.get("scale", 1.0))
    return read_sizes(spec["sizes"], "traffic.sizes").scaled(scale)


def draw_sizes(sizes: Sampler, draws: Draws, count: int) -> npt.NDArray[np.int64]:
    """Draw flow sizes in whole bytes, at least 1.

    Args:
        sizes: Their distribution.
        draws: Random numbers.
        count: Number of flows.
    """
    return whole_numbers(sizes.quantile(draws.uniform(count)))


def check_count(expected: float, spec: Spec) -> None:
    """Refuse a spec that would make more flows than a plan may hold.

    Args:
        expected: Number of flows that it would make.
        spec: The spec, whose duration the error names.

    Raises:
        ConfigError: There are more than `MOST_FLOWS`.
    """
    if expected > MOST_FLOWS:
        value = spec.get("duration", DEFAULT_DURATION)
        allowed = f"a plan of at most {MOST_FLOWS} flows; this one would have {expected:.3g}"
        raise ConfigError("traffic.duration", value, allowed)
