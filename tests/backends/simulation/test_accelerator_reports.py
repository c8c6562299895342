"""Reports in the twin of servers with accelerators: nobody sees that agents catch up with them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from dcgym.backends.records import FLOWS
from dcgym.backends.simulation import AcceleratorTwin
from dcgym.tasks.accelerators.protocol import DeviceCommands, DeviceEpisode

pytestmark = pytest.mark.simulation

S = 10**9
# A loss that no draw is below: every report is made, sent and delivered at its own time.
NEVER_LOST = 1e-300
EVENTS = [
    {"at": 1.0, "kind": "rate", "value": 900.0},
    {"at": 2.0, "kind": "device-speed", "device": 0, "value": 0.5},
]


def device(time: str, workers: int = 1, **fields: object) -> dict[str, object]:
    return {"kind": "device", "workers": workers, "service": {"a": time}, **fields}


def pool(devices: list[dict[str, object]], **fields: object) -> dict[str, Any]:
    servers = fields.pop("servers", 1)
    return {
        "groups": [{"name": "server", "count": servers, "devices": devices}],
        "applications": [{"name": "a", "demand": fields.pop("demand", "exponential")}],
        **fields,
    }


@pytest.mark.parametrize("rule", ["wrr", "dynamic-wrr", "lur", "device-jsq", "prt", "device-po2"])
@pytest.mark.parametrize(
    "agents",
    [
        {"rate_per_s": 100},
        {"rate_per_s": 20, "window_ns": "1s", "delay_ns": "30ms"},
        {"rate_per_s": 10, "max_age_ns": "150ms", "delay_ns": 0},
    ],
    ids=["often", "late", "aged"],
)
@pytest.mark.parametrize(
    "arrivals",
    # Of one server that reports 100 times a second: requests come at the very times of reports.
    [{"servers": 20, "events": EVENTS}, {"gaps": "constant"}],
    ids=["random", "with-reports"],
)
def test_what_is_known_is_what_reports_at_their_own_times_would_say(
    agents: dict[str, object], arrivals: dict[str, object], rule: str
) -> None:
    absent = device("60ms", present=False)
    devices = [device("40ms", 2, queue_limit=30), absent, device("90ms"), device("150ms", 3)]
    seen = []
    for loss in (0.0, NEVER_LOST):
        spec = pool(devices, agents={**agents, "loss": loss}, **arrivals)
        twin = AcceleratorTwin(spec, record_limit=10**5)
        twin.reset([DeviceEpisode(5, 100.0)])
        twin.apply(DeviceCommands("wrr"))
        twin.advance(S // 3)
        twin.apply(DeviceCommands(rule))
        found = []
        for until_ns in (S // 2, S // 2 + 1, 19 * S // 10, 4 * S):
            twin.advance(until_ns)
            found.append(twin.read())
        seen.append((twin.records(FLOWS), found))
    (records, found), (expected_records, expected) = seen
    assert np.array_equal(records, expected_records) and len(records) > 100
    for one, other in zip(found, expected, strict=True):
        for field in dataclasses.fields(one):
            pair = (getattr(each, field.name) for each in (one, other))
            assert np.array_equal(*pair, equal_nan=True), field.name


def test_a_window_of_many_workers_is_divided_exactly() -> None:
    # 2^17 s of workers' time are more ns than the quick division takes: 32,768 of them are at work.
    for workers, share in ((65_536, 50), (50_000, 65)):
        spec = pool(
            [device("100s", workers)],
            demand="constant",
            requests=32_768,
            agents={"rate_per_s": 10, "window_ns": "2s", "delay_ns": 0},
        )
        twin = AcceleratorTwin(spec)
        twin.reset([DeviceEpisode(1, 1e6)])
        twin.advance(3 * S)
        seen = twin.read()
        assert (seen.arrivals[0], seen.reported_load[0, 0, 0]) == (32_768, share)
