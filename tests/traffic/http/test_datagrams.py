"""Requests over UDP: one datagram each way, the same servers and results."""

from __future__ import annotations

import socket
from pathlib import Path

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.traffic.generators.generator import Generator
from dcgym.traffic.http import (
    REQUEST_DTYPE,
    HttpServer,
    RequestKind,
    RequestPlan,
    ServerRows,
    cpu_and_io,
    load_requests,
    save_requests,
)
from tests.support.http_rig import (
    CUT,
    FINISHED,
    MS,
    PATIENCE_S,
    REFUSED,
    REJECTED,
    SERVER,
    TIMED_OUT,
    completed,
    inside,
    plan_of,
    run_requests,
)
from tests.support.pairs import Pair
from tests.support.waiting import wait_for

pytestmark = pytest.mark.emulation


def plan_of_sizes(*sizes: int) -> RequestPlan:
    """Return a plan of requests for answers of these sizes."""
    requests = np.zeros(len(sizes), REQUEST_DTYPE)
    requests["bytes"] = sizes
    kinds, demands = (RequestKind("work"),), np.full((len(sizes), 1), MS)
    targets = ((SERVER, 8000),)
    return RequestPlan("t", 0, ("h1",), targets, kinds, requests, demands, transport="udp")


def test_requests_are_served_and_recorded(
    pair: Pair, generator: Generator, rows: ServerRows
) -> None:
    records = completed(generator, plan_of_sizes(0, 1, 1400, 12_288, 60_000))
    assert records["outcome"].tolist() == [FINISHED] * 5
    assert records["bytes"].tolist() == [0, 1, 1400, 12_288, 60_000]
    assert set(records["status"]) == {200} and set(records["server"]) == {0}
    assert (records["end_ns"] - records["start_ns"] >= MS).all()
    state = rows.read()[0]
    assert (state["accepted"], state["completed"], state["busy"]) == (5, 5, 0)
    assert "8000" not in pair.run(0, "ss -Htan"), "no connection of TCP was made"


def test_a_full_backlog_rejects(pair: Pair, generator: Generator) -> None:
    made = generator.serve([HttpServer("h2", cpu_and_io(2), backlog=3)])
    assert made is not None
    plan = plan_of([60_000 * MS] * 9, np.arange(9) * 5 * MS, transport="udp")
    results = run_requests(generator, plan)
    wait_for(lambda: results.ended == 4)
    state = made.read()[0]
    assert (state["busy"], state["waiting"], state["workers_busy"]) == (5, 3, 2)
    assert (state["accepted"], state["rejected"]) == (5, 4)
    assert generator.stop() == 5
    assert results.records()["outcome"].tolist() == [CUT] * 5 + [REJECTED] * 4
    results.close()


def test_a_server_that_is_gone_refuses_and_one_that_says_nothing_times_out(
    pair: Pair, generator: Generator, rows: ServerRows
) -> None:
    slow = plan_of([5000 * MS], transport="udp", timeout_ns=50 * MS)
    assert completed(generator, slow)["outcome"].tolist() == [TIMED_OUT]
    generator.change_server(0, "kill")
    assert completed(generator, plan_of([MS], transport="udp"))["outcome"].tolist() == [REFUSED]
    generator.change_server(0, "restart")
    assert completed(generator, plan_of([MS], transport="udp"))["outcome"].tolist() == [FINISHED]


def test_what_is_no_request_gets_no_answer(
    pair: Pair, generator: Generator, rows: ServerRows
) -> None:
    good = b"GET /work?cpu_us=1&bytes=3 HTTP/1.1\r\nHost: a\r\n\r\n"
    wrong = [b"", b"\0" * 100, good[:-2], good.replace(b"/work", b"/none"), b"x" * 4000]

    def ask() -> bytes:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.settimeout(PATIENCE_S)
            asking.connect((SERVER, 8000))
            for datagram in [*wrong, good]:
                asking.send(datagram)
            return asking.recv(2048)

    assert b"Content-Length: 3\r\n" in inside(pair, ask)
    assert rows.read()["accepted"].item() == 1


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_plan_keeps_its_transport_in_a_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"plan{suffix}"
    for plan in (plan_of_sizes(1, 2), plan_of([MS])):
        save_requests(plan, path)
        assert load_requests(path) == plan


def test_answers_are_no_longer_than_a_datagram() -> None:
    with pytest.raises(ConfigError, match="60000"):
        plan_of_sizes(60_001)
    with pytest.raises(ConfigError, match=r"plan\.transport"):
        plan_of([MS], transport="sctp")
