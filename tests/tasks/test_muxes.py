"""Muxes: how many, and what they add, beside the numbers that Duet publishes."""

from __future__ import annotations

import pytest

from dcgym.tasks.placement.muxes import (
    MUX_US,
    RTT_US,
    SWITCH_US,
    median_rtt_us,
    mux_latency_us,
    muxes_needed,
)

PACKET_BITS = 1500 * 8
FULL_PPS = 300_000


def test_an_overloaded_pool_jumps_and_one_switch_restores_it() -> None:
    """Duet's figure 11 (shape S1): three muxes at 200, then 400 Kpps each, then one switch."""
    full_bps = FULL_PPS * PACKET_BITS
    assert full_bps == 3.6e9
    added = [mux_latency_us(pps * PACKET_BITS / full_bps) for pps in (200_000, 400_000)]
    assert added[0] == pytest.approx(3 * MUX_US)
    within = median_rtt_us(0.0, 3 * 200_000 * PACKET_BITS, 200 / 300)
    beyond = median_rtt_us(0.0, 3 * 400_000 * PACKET_BITS, 400 / 300)
    on_switch = median_rtt_us(1.2e6 * PACKET_BITS, 0.0, 0.0)
    assert within == pytest.approx(RTT_US + 3 * MUX_US)
    assert beyond > 3 * within and on_switch <= 1.2 * within
    assert on_switch == pytest.approx(RTT_US + SWITCH_US)


def test_muxes_are_for_the_worst_of_three_not_for_their_sum() -> None:
    assert muxes_needed(15e12, 0.0, 0.0, 3_600_000_000) == 4167
    assert muxes_needed(1e9, 10e9, 2e9, 3_600_000_000) == 3
    assert muxes_needed(0.0, 0.0, 0.0, 3_600_000_000) == 0
