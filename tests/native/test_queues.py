"""The queue reader against the kernel's own tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.native

Scenario = Callable[[str, dict[str, Any]], Any]


def test_the_reader_sees_what_tc_sees(run_scenario: Scenario) -> None:
    busy, idle = run_scenario("queues", {"sent": 30, "bytes": 1000})
    # Two namespaces; 8 bit/s lets none through between the two looks.
    assert busy["read"] == busy["tc"] and idle["read"] == idle["tc"]
    # Tokens for 1600 bytes let one packet pass, ten fit the queue, the rest is refused.
    seen = busy["read"]
    assert (seen["tx_packets"], seen["tx_bytes"]) == (1, 1000)
    assert (seen["backlog_bytes"], seen["drops"]) == (10_000, 19)
    assert not any(idle["read"].values())
