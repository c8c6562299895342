"""The source's table of connections in the twin: connections that share a cell."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dcgym.backends.records import FLOWS
from dcgym.backends.simulation import AcceleratorTwin
from dcgym.native import require
from dcgym.tasks.accelerators.protocol import DeviceCommands, DeviceEpisode

pytestmark = pytest.mark.simulation

S = 10**9
HASHES = 2**16


def run(
    table: dict[str, Any], rate: float, until_s: float, record_limit: int = 0, **fields: Any
) -> AcceleratorTwin:
    """Serve requests on 4 devices on which nothing waits, in turn."""
    device = {"kind": "device", "workers": 65_536, "service": {"a": fields.pop("service", "1s")}}
    pool = {
        "groups": [{"name": "server", "count": 1, "devices": [device] * fields.pop("devices", 4)}],
        "applications": [{"name": "a"}],
        "latency_ns": 0,
        "connection_table": table,
        **fields,
    }
    twin = AcceleratorTwin(pool, record_limit=record_limit)
    twin.reset([DeviceEpisode(1, rate)])
    twin.apply(DeviceCommands(device_rule="device-ecmp"))
    twin.advance(int(until_s * S))
    return twin


def test_hashes_are_those_of_the_source() -> None:
    # The check value of CRC-16/ARC, P4's crc16.
    assert require("_simulation").crc16(b"123456789") == 0xBB3D


def test_one_cell_by_hand() -> None:
    """Requests A, B, ... come each second and take 2.5 s; the rule takes two devices in turn.

    B and C inherit A's device 0. A ends and frees the cell, D takes it with device 1. B ends: the
    cell says 1, so that it has lost its device, and frees the cell of D. E takes it with device 0,
    where C's last packet goes, by chance as before; and so on.
    """
    twin = run({"cells": 1}, 1, 9.9, 100, gaps="constant", service="2.5s", devices=2)
    seen = twin.read()
    assert np.sort(twin.records(FLOWS), order="request")["device"].tolist() == [0, 0, 0, 1, 0, 1, 0]
    assert (seen.inherited[0], seen.pcc_violations[0]) == (2, 1)


def test_connections_share_cells_as_often_as_their_hashes_do() -> None:
    # Of 65,536 hashes two share each of the first 15,536 of 50,000 cells. With a requests in a cell
    # on average one finds it in use with a chance of a / (1 + a), as Erlang's formula has it for
    # one server; at 200 connections cells that are freed too early do not matter.
    rate, cells = 200.0, 50_000
    share = np.where(np.arange(cells) < HASHES - cells, 2, 1) / HASHES
    expected = float((share * rate * share / (1 + rate * share)).sum())
    seen = run({"cells": cells}, rate, 5000.0).read()
    found, spread = seen.inherited[0] / seen.arrivals[0], math.sqrt(expected / seen.arrivals[0])
    assert abs(found - expected) < 4 * spread
    # An even spread over the cells would be told apart.
    assert abs(rate / cells - expected) > 4 * spread
    # Of two that share a cell the first one that ends frees it. The other one, which has the same
    # device, has lost it: all that inherit but those whose cell another one has taken meanwhile
    # with the same device.
    assert seen.pcc_violations[0] == pytest.approx(seen.inherited[0], rel=0.02)


@pytest.mark.parametrize(
    ("bits", "hashes", "values"), [(2**24, 4, HASHES), (2**11, 1, 2**11)], ids=["large", "small"]
)
def test_a_bloom_filter_knows_what_it_has_seen(bits: int, hashes: int, values: int) -> None:
    """Nothing is freed: n connections are new for as many as differ of n draws of so many values.

    They are hashes, of which the large filter takes next to none for another; or the bits of the
    small one.
    """
    table = {"cells": 50_000, "bloom_bits": bits, "bloom_hashes": hashes}
    count = 2 * values
    seen = run(table, 1000.0, 1000.0, requests=count).read()
    new, p = seen.arrivals[0] - seen.inherited[0], math.exp(-2)
    spread = math.sqrt(values * p * (1 - 3 * p))
    assert seen.arrivals[0] == count
    assert abs(new - values * (1 - p)) < 4 * spread


def test_a_full_filter_leaves_nothing_to_the_rules() -> None:
    twin = run({"cells": 1000, "bloom_bits": 64, "bloom_hashes": 1}, 1000.0, 50.0)
    twin.read()
    twin.advance(60 * S)
    seen = twin.read()
    assert seen.inherited[0] == seen.arrivals[0] > 0


def test_tables_of_entries_share_nothing_and_leave_requests_alone() -> None:
    plain, cells = (run(one, 50.0, 60.0, 10_000) for one in ({"cells": 0}, {"cells": 50_000}))
    rows = [np.sort(one.records(FLOWS), order="request") for one in (plain, cells)]
    assert (rows[0]["arrival_ns"] == rows[1]["arrival_ns"]).all()
    seen = plain.read()
    assert seen.inherited[0] == seen.pcc_violations[0] == 0
    # In turn: within one of each other, those under way left out.
    assert np.ptp(np.bincount(rows[0]["device"])) <= 1
