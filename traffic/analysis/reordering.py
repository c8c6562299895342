"""What reordering cost the flows of an episode."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.traffic.analysis.ideal import payload_bytes

if TYPE_CHECKING:
    from dcgym.topologies import Topology

__all__ = ["REORDERING", "reordering_metrics"]

REORDERING = ("out_of_order", "reorderings", "spurious_retransmits")
"""Counts of a flow's record: segments that came before an earlier one (TCP_INFO's rcv_ooopack,
losses included), times that the sender saw that one was late and not lost (reord_seen), and
segments that the receiver reported to have come twice (dsack_dups)."""


def reordering_metrics(
    flow_records: npt.NDArray[np.void], topology: Topology, begin_ns: int
) -> dict[str, float]:
    """Reduce the records of an episode to how much was reordered.

    Args:
        flow_records: Records of the flows, those that the end of the episode cut included
            (`dcgym.traffic.generators.view.RECORD_DTYPE`).
        topology: The network.
        begin_ns: Flows that ended earlier are left out. Of the others all counts, since nobody
            knows when it was.

    Returns:
        The sums of `REORDERING`, and ``out_of_order_share``: segments out of order over all full
        ones that arrived; NaN where nothing did. Empty without records of TCP.
    """
    is_chosen = flow_records["end_ns"].astype(np.int64) >= begin_ns
    chosen = flow_records[is_chosen & (flow_records["transport"] == 0)]
    if not len(chosen):
        return {}
    sums = {name: float(chosen[name].sum()) for name in REORDERING}
    segments = float(np.ceil(chosen["bytes"] / payload_bytes(chosen, topology)).sum())
    share = sums["out_of_order"] / segments if segments else math.nan
    return sums | {"out_of_order_share": share}
