"""Planned HTTP requests: what servers do with them, and what the results tell."""

from __future__ import annotations

import itertools
import os
import socket
import struct
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dcgym.errors import BackendError, ConfigError
from dcgym.testing.star import Star
from dcgym.traffic.generators.generator import Generator
from dcgym.traffic.http import (
    REQUEST_DTYPE,
    HttpServer,
    RequestKind,
    RequestPlan,
    Resource,
    ServerRows,
    cpu_and_io,
    make_requests,
)
from tests.support.http_rig import (
    CUT,
    FAILED,
    FINISHED,
    LOST,
    MS,
    PATIENCE_S,
    REFUSED,
    REJECTED,
    RESET,
    SERVER,
    TIMED_OUT,
    completed,
    connect,
    cpu_seconds,
    inside,
    plan_of,
    run_requests,
)
from tests.support.pairs import Pair
from tests.support.waiting import wait_for

pytestmark = pytest.mark.emulation


def test_planned_requests_are_served_and_recorded(generator: Generator, rows: ServerRows) -> None:
    kinds = (RequestKind("page", ("cpu", "io")), RequestKind("gone", (), "/nowhere"))
    requests = np.zeros(3, REQUEST_DTYPE)
    requests["start_ns"] = (0, 30 * MS, 10 * MS)
    requests["application"] = (0, 0, 1)
    requests["bytes"] = (1, 500_000, 7)
    demands = [[2 * MS, 3 * MS], [MS, 0], [0, 0]]
    plan = RequestPlan("three", 0, ("h1",), ((SERVER, 8000),), kinds, requests, demands)
    results = run_requests(generator, plan)
    wait_for(lambda: results.finished)
    origin = int(results.header()["start_ns"])
    records = results.records()
    assert records["outcome"].tolist() == [FINISHED, FINISHED, FAILED]
    assert records["status"].tolist() == [200, 200, 404]
    assert records["bytes"].tolist() == [1, 500_000, 0]
    assert records["server"].tolist() == [0, 0, 0]
    steps = [records[name] for name in ("start_ns", "established_ns", "first_byte_ns", "end_ns")]
    assert all((earlier <= later).all() for earlier, later in itertools.pairwise(steps))
    assert (records["start_ns"] >= origin + requests["start_ns"]).all()
    assert (records["first_byte_ns"] - records["start_ns"] >= plan.demands_ns.sum(axis=1)).all()
    assert sorted(results.ended_from(0).tolist()) == [0, 1, 2]
    table = results.table()
    assert table["application"].to_list() == ["page", "page", "gone"]
    assert table["outcome"].to_list() == ["finished", "finished", "failed"]
    results.close()


def test_a_full_backlog_resets_the_next_request(pair: Pair, generator: Generator) -> None:
    made = generator.serve([HttpServer("h2", cpu_and_io(2), backlog=3)])
    assert made is not None
    # Five fit: two in service and three waiting.
    results = run_requests(generator, plan_of([60_000 * MS] * 9, np.arange(9) * 5 * MS))
    wait_for(lambda: results.ended == 4)
    state = made.read()[0]
    assert (state["busy"], state["waiting"], state["workers_busy"]) == (5, 3, 2)
    assert (state["accepted"], state["rejected"]) == (5, 4)
    assert generator.stop() == 5
    records = results.records()
    assert records["outcome"].tolist() == [CUT] * 5 + [REJECTED] * 4
    assert records["server"].tolist() == [0] * 9
    results.close()


def test_drain_finishes_what_there_is_and_takes_nothing_more(
    pair: Pair, generator: Generator, rows: ServerRows
) -> None:
    results = run_requests(generator, plan_of([500 * MS]))
    wait_for(lambda: rows.read()["accepted"].item() == 1)
    generator.change_server(0, "drain")
    with pytest.raises(ConnectionRefusedError):
        inside(pair, connect)
    wait_for(lambda: results.finished)
    assert results.records()["outcome"].tolist() == [FINISHED]
    assert rows.read()["heartbeat_ns"].item() > 0
    results.close()


def test_a_killed_server_resets_and_comes_back_empty(
    pair: Pair, generator: Generator, rows: ServerRows
) -> None:
    results = run_requests(generator, plan_of([5000 * MS] * 3))
    wait_for(lambda: rows.read()["busy"].item() == 3)
    generator.change_server(0, "kill")
    wait_for(lambda: results.finished)
    assert results.records()["outcome"].tolist() == [LOST] * 3
    state = rows.read()[0]
    assert (state["busy"], state["heartbeat_ns"]) == (0, 0)
    results.close()
    assert completed(generator, plan_of([MS]))["outcome"].tolist() == [REFUSED]
    generator.change_server(0, "restart")
    assert completed(generator, plan_of([MS]))["outcome"].tolist() == [FINISHED]


@pytest.mark.parametrize(("linger_s", "outcome"), [(None, LOST), (0, RESET)])
def test_only_its_own_server_ends_a_connection_in_order(
    pair: Pair, generator: Generator, linger_s: int | None, outcome: int
) -> None:
    with inside(pair, lambda: socket.create_server((SERVER, 8001)), side=1) as listener:
        results = run_requests(generator, plan_of([MS], port=8001))
        listener.settimeout(PATIENCE_S)
        with listener.accept()[0] as connection:
            assert b"GET" in connection.recv(65_536)
            if linger_s is not None:
                # Closed so, it is reset (RFC 9293, ABORT).
                option = struct.pack("ii", 1, linger_s)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)
    wait_for(lambda: results.finished)
    assert results.records()["outcome"].tolist() == [outcome]
    results.close()


def test_reset_forgets_everything_but_the_server(
    pair: Pair, generator: Generator, rows: ServerRows
) -> None:
    generator.set_server(0, speed=0.001, colocated=3)
    results = run_requests(generator, plan_of([1000 * MS] * 2))
    wait_for(lambda: rows.read()["busy"].item() == 2)
    assert generator.stop() == 2
    assert results.records()["outcome"].tolist() == [CUT] * 2
    results.close()
    generator.change_server(0, "reset")
    assert rows.read()[["busy", "accepted", "completed", "rejected"]].tolist() == [(0, 0, 0, 0)]
    records = completed(generator, plan_of([MS]))
    assert records["outcome"].tolist() == [FINISHED]
    assert rows.read()["mean_service_ns"].item() == MS


def test_a_client_gives_up_after_its_timeout(generator: Generator, rows: ServerRows) -> None:
    records = completed(generator, plan_of([2000 * MS], timeout_ns=50 * MS))
    assert records["outcome"].tolist() == [TIMED_OUT]
    assert records["end_ns"] - records["start_ns"] >= 50 * MS


def test_wrong_commands_leave_the_servers_alone(generator: Generator, rows: ServerRows) -> None:
    with pytest.raises(ConfigError, match="server: value 1 "):
        generator.change_server(1, "kill")
    with pytest.raises(ConfigError, match="change: value 'explode' "):
        generator.change_server(0, "explode")
    with pytest.raises(ConfigError, match="speed: value 0 "):
        generator.set_server(0, speed=0)
    with pytest.raises(BackendError, match=r"bind of the server on 10\.9\.9\.9:1"):
        generator.serve([HttpServer("h2", address="10.9.9.9", port=1)])
    fd = os.memfd_create("too-small")
    with pytest.raises(BackendError, match="rows is too small"):
        generator.serve([HttpServer("h2")], fd)
    os.close(fd)
    assert generator.serve([HttpServer("h2")]) is not None
    assert completed(generator, plan_of([MS]))["outcome"].tolist() == [FINISHED]


def test_speed_and_colocated_load_change_the_service(
    generator: Generator, rows: ServerRows
) -> None:
    def service_ns(**change: float) -> int:
        generator.change_server(0, "reset")
        generator.set_server(0, **change)  # type: ignore[arg-type]
        completed(generator, plan_of([10 * MS]))
        return int(rows.read()["mean_service_ns"].item())

    # The station's own time is exact, whenever this machine looks at it.
    assert service_ns(speed=1.0) == 10 * MS
    assert service_ns(speed=0.5) == 20 * MS
    assert service_ns(colocated=1.0) == 20 * MS
    assert service_ns(speed=2.0, colocated=3.0) == 20 * MS


def test_colocated_load_comes_at_its_time(generator: Generator, rows: ServerRows) -> None:
    results = run_requests(generator, plan_of([2000 * MS]))
    wait_for(lambda: rows.read()["busy"].item() == 1)
    generator.set_server(0, colocated=1, at_ns=time.monotonic_ns() + 100 * MS)
    wait_for(lambda: results.finished)
    results.close()
    # Alone at first, then with half of the processor: between 2 and 4 s.
    assert 2000 * MS < rows.read()["mean_service_ns"].item() < 4000 * MS


def test_sharing_serves_all_at_once(generator: Generator) -> None:
    made = generator.serve([HttpServer("h2", cpu_and_io(discipline="processor-sharing", slots=3))])
    assert made is not None
    results = run_requests(generator, plan_of([10_000 * MS] * 5))
    wait_for(lambda: made.read()["busy"].item() == 5)
    assert made.read()[["waiting", "workers_busy", "later"]].tolist() == [(2, 1, 0)]
    generator.stop()
    results.close()


DISK = (Resource("cpu"), Resource("disk", 2), Resource("gpu", limit=2))


@pytest.mark.parametrize("cpu", ["timed", "burnt"])
def test_later_resources_have_queues_of_their_own(generator: Generator, cpu: str) -> None:
    made = generator.serve([HttpServer("h2", DISK, cpu)])
    assert made is not None
    results = run_requests(generator, plan_of([500 * MS] * 5, kinds=[RequestKind("a", ("disk",))]))
    wait_for(lambda: made.read()["later"].item() == 5)
    assert made.read()[["busy", "waiting", "workers_busy"]].tolist() == [(5, 0, 0)]
    wait_for(lambda: results.finished)
    records = results.records()
    results.close()
    assert records["outcome"].tolist() == [FINISHED] * 5
    # The last of five waits for two that wait for two, and each is served at full speed.
    assert records["end_ns"].max() - records["start_ns"].min() >= 1500 * MS
    if cpu == "timed":
        assert made.read()["mean_service_ns"].item() == 500 * MS


@pytest.mark.parametrize(
    ("cpu", "transport"), [("timed", "tcp"), ("timed", "udp"), ("burnt", "tcp")]
)
def test_a_resource_at_its_limit_refuses(generator: Generator, cpu: str, transport: str) -> None:
    made = generator.serve([HttpServer("h2", DISK, cpu)])
    assert made is not None
    kinds = [RequestKind("a", ("cpu", "gpu"))]
    plan = plan_of([[0, 60_000 * MS]] * 5, kinds=kinds, transport=transport)
    results = run_requests(generator, plan)
    wait_for(lambda: results.ended == 3)
    assert made.read()[["later", "completed", "rejected"]].tolist() == [(2, 0, 3)]
    generator.stop()
    records = results.records()
    results.close()
    assert sorted(records["status"]) == [0, 0, 503, 503, 503]
    assert sorted(records["outcome"]) == [CUT] * 2 + [FAILED] * 3


def test_a_resource_that_the_server_has_not_is_a_bad_request(generator: Generator) -> None:
    generator.serve([HttpServer("h2", (Resource("cpu"), Resource("disk")))])
    records = completed(generator, plan_of([MS], kinds=[RequestKind("a", ("io",))]))
    assert records[["outcome", "status"]].tolist() == [(FAILED, 400)]


def test_burnt_time_is_used_up(generator: Generator) -> None:
    made = generator.serve(
        [HttpServer("h2", cpu_and_io(2, discipline="processor-sharing", slots=8), cpu="burnt")]
    )
    assert made is not None
    plan = plan_of(
        [[100 * MS, 5 * MS, 20 * MS]] * 2, kinds=[RequestKind("a", ("cpu", "io", "cpu"))]
    )
    before_s = cpu_seconds(generator.pid)
    records = completed(generator, plan)
    assert records["outcome"].tolist() == [FINISHED] * 2
    assert cpu_seconds(generator.pid) - before_s >= 0.23  # of 0.24; read in steps of 10 ms
    assert made.read()["mean_service_ns"].item() >= 125 * MS


def test_burnt_time_is_shared_in_turns(generator: Generator) -> None:
    server = HttpServer(
        "h2", cpu_and_io(discipline="processor-sharing", slots=2), cpu="burnt", backlog=0
    )
    made = generator.serve([server])
    assert made is not None
    records = completed(generator, plan_of([500 * MS] * 2))
    # One after the other, the first would have ended after 500 ms.
    assert (records["end_ns"] - records["start_ns"]).min() >= 600 * MS
    generator.change_server(0, "kill")
    assert made.read()["heartbeat_ns"].item() == 0


def test_requests_travel_over_ipv6(pair: Pair, generator: Generator, rows: ServerRows) -> None:
    for side in range(2):
        pair.run(side, f"ip addr add fd00::{side + 1}/64 dev eth0 nodad")
    requests = np.zeros(3, REQUEST_DTYPE)
    plan = RequestPlan(
        "six", 0, ("h1",), (("fd00::2", 8000),), (RequestKind("a"),), requests, [MS] * 3
    )
    records = completed(generator, plan)
    assert records["outcome"].tolist() == [FINISHED] * 3
    assert records["server"].tolist() == [0] * 3


def test_many_requests_at_a_time_all_end(generator: Generator) -> None:
    made = generator.serve([HttpServer("h2", cpu_and_io(8), backlog=4096)])
    assert made is not None
    records = completed(generator, plan_of(np.full(3000, MS // 10)))
    assert (records["outcome"] == FINISHED).all()
    wait_for(lambda: made.read()["busy"].item() == 0)
    assert made.read()[["accepted", "completed", "rejected"]].tolist() == [(3000, 3000, 0)]


def test_applications_run_in_a_star(tmp_path: Path) -> None:
    with Star(3) as star, Generator(star.hosts(), star.names) as generator:
        generator.serve([HttpServer("h2", cpu_and_io(4)), HttpServer("h3", cpu_and_io(4))])
        spec = {"name": "wiki", "requests_per_s": 300, "duration": "1s", "cpu": "1ms", "io": "1ms"}
        targets = [(address, 8000) for address in star.addresses[1:]]
        plan = make_requests(spec, ["h1"], targets, seed=4)
        results = run_requests(generator, plan)
        wait_for(lambda: results.finished, PATIENCE_S)
        records = results.records()
        results.write(tmp_path / "requests.parquet")
        written = pl.read_parquet(tmp_path / "requests.parquet")
        results.close()
    assert (records["outcome"] == FINISHED).all()
    assert records["bytes"].tolist() == plan.requests["bytes"].tolist()
    # Each target is the server of that number, whom the results name without asking.
    assert records["server"].tolist() == plan.requests["target"].tolist()
    assert set(written["application"]) == {"page", "static"}
    assert written["bytes"].to_list() == plan.requests["bytes"].tolist()
