"""One flow, or one repeated flow, for each pair of a pattern."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dcgym.config import check_int
from dcgym.traffic.plans.options import (
    SENDING,
    Spec,
    draw_sizes,
    make_records,
    read_time,
    set_sending,
)
from dcgym.traffic.plans.patterns import Pattern
from dcgym.traffic.plans.records import Records
from dcgym.traffic.sizes.draws import Draws
from dcgym.traffic.sizes.read import read_sizes

if TYPE_CHECKING:
    from dcgym.topologies import Topology

__all__ = ["OPTIONS", "bulk"]

OPTIONS = (*SENDING, "size", "duration", "start", "repetitions", "gap")
"""What a spec may hold besides its name."""


def bulk(pattern: Pattern, spec: Spec, topology: Topology, draws: Draws) -> Records:
    """Compile a pattern.

    Args:
        pattern: Who sends to whom.
        spec: Any of `OPTIONS`; without size and duration the flows are endless.
        topology: The network.
        draws: Random numbers.
    """
    records = make_records(pattern(topology, draws.stream(0)))
    set_sending(records, spec, topology)
    if spec.get("size") is not None:
        sizes = read_sizes(spec["size"], "traffic.size")
        records["size_bytes"] = draw_sizes(sizes, draws.stream(1), len(records))
    if spec.get("duration") is not None:
        records["duration_ns"] = read_time(spec, "duration", positive=True)
    records["start_ns"] = read_time(spec, "start")
    records["gap_ns"] = read_time(spec, "gap")
    if "repetitions" in spec:
        repetitions = check_int("traffic.repetitions", spec["repetitions"], 0, 2**60)
        records["repetitions"] = repetitions
    return records
