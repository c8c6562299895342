"""HTTP servers and clients of the generator: two namespaces joined by a veth pair."""

from __future__ import annotations

import ctypes
import http.client
import itertools
import json
import os
import shutil
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
import pytest
from pairs import ADDRESSES, LEAD_NS, Pair, wait_for

from dcgym.errors import BackendError, ConfigError
from dcgym.testing.star import Star
from dcgym.traffic.generator import Generator
from dcgym.traffic.http import (
    REQUEST_DTYPE,
    HttpServer,
    RequestKind,
    RequestPlan,
    RequestResults,
    ServerRows,
    make_requests,
)
from experiments import real_servers

pytestmark = pytest.mark.emulation

TOOL_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"

FINISHED, CUT, REFUSED, RESET, TIMED_OUT, REJECTED, FAILED = range(1, 8)
CLIENT, SERVER = ADDRESSES
MS = 1_000_000
PATIENCE_S = 20.0
CLONE_NEWNET = 0x40000000  # linux/sched.h
LIBC = ctypes.CDLL(None, use_errno=True)

Result = TypeVar("Result")


def inside(pair: Pair, work: Callable[[], Result], side: int = 0) -> Result:
    """Run a function in a thread that lives in the namespace of one side."""
    outcome: list[Result] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            with open(f"/proc/{pair.holders[side].pid}/ns/net", encoding="ascii") as namespace:
                if LIBC.setns(namespace.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            outcome.append(work())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


def connect(port: int = 8000) -> socket.socket:
    return socket.create_connection((SERVER, port), timeout=PATIENCE_S)


def exchange(raw: bytes, port: int = 8000) -> bytes:
    """Send bytes and return everything that comes back; b"" where the connection is reset."""
    with connect(port) as client:
        try:
            client.sendall(raw)
            client.shutdown(socket.SHUT_WR)
            answer = b""
            while part := client.recv(65_536):
                answer += part
        except ConnectionError:
            return b""
        return answer


def plan_of(demands_ns: Any, starts_ns: Any = 0, port: int = 8000, **options: Any) -> RequestPlan:
    """Requests with one CPU stage from h1."""
    demands = np.atleast_1d(np.asarray(demands_ns, np.int64))
    requests = np.zeros(len(demands), REQUEST_DTYPE)
    requests["start_ns"] = starts_ns
    kinds = options.pop("kinds", (RequestKind("work"),))
    return RequestPlan("test", 0, ("h1",), ((SERVER, port),), kinds, requests, demands, **options)


def run_requests(generator: Generator, plan: RequestPlan) -> RequestResults:
    results = generator.load_requests(plan)
    generator.start(time.monotonic_ns() + LEAD_NS)
    return results


def cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def completed(generator: Generator, plan: RequestPlan) -> np.ndarray[Any, np.dtype[np.void]]:
    results = run_requests(generator, plan)
    wait_for(lambda: results.finished, PATIENCE_S)
    records = results.records()
    results.close()
    return records


@pytest.fixture
def rows(generator: Generator) -> Iterator[ServerRows]:
    """One server with one worker on h2."""
    made = generator.serve([HttpServer("h2")])
    assert made is not None
    yield made


def test_a_python_client_gets_what_it_asks_for(pair: Pair, rows: ServerRows) -> None:
    def ask() -> list[tuple[int, int, str | None]]:
        client = http.client.HTTPConnection(SERVER, 8000, timeout=PATIENCE_S)
        answers = []
        for method, target in (
            ("GET", "/work?cpu_us=100&io_us=20.5&cpu_us=3&bytes=300000"),
            ("HEAD", "/work?bytes=10"),
            ("GET", "/work"),
            ("GET", "/elsewhere"),
            ("GET", "/work?cpu_us=-1"),
            ("GET", "/work?cpu_ms=1"),
            ("GET", "/work?bytes=9999999999"),
            ("POST", "/work"),
        ):
            client.request(method, target)
            response = client.getresponse()
            answers.append((response.status, len(response.read()), response.getheader("Server-Id")))
        return answers

    assert inside(pair, ask) == [
        (200, 300_000, "0"),
        (200, 0, "0"),
        (200, 0, "0"),
        *[(404, 0, "0"), (400, 0, "0"), (400, 0, "0"), (400, 0, "0")],
        (405, 0, "0"),
    ]
    wait_for(lambda: rows.read()["completed"].item() == 3)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET /work HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200),
        (b"GET /work HTTP/1.0\r\n\r\n", 200),
        (b"GET /work HTTP/1.1\r\n\r\n", 400),  # RFC 9112, 3.2: a host is required
        (b"GET /work HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET /work HTTP/9.9\r\nHost: a\r\n\r\n", 505),
        (b"GET /work\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),  # a TLS hello
        (b"GET /work HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 9000 + b"\r\n\r\n", 431),
        (b"GET /work HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"GET /work HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400),
        (b"GET /work?" + b"cpu_us=0&" * 9 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ],
)
def test_a_wrong_request_is_answered_with_its_status(
    pair: Pair, rows: ServerRows, raw: bytes, status: int
) -> None:
    answer = inside(pair, lambda: exchange(raw))
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:80]


def test_requests_of_one_connection_are_answered_in_order(pair: Pair, rows: ServerRows) -> None:
    raw = b"".join(b"GET /work?bytes=%d HTTP/1.1\r\nHost: a\r\n\r\n" % (i + 1) for i in range(1000))
    answer = inside(pair, lambda: exchange(raw))
    lengths = [int(part.split(b"\r\n")[0]) for part in answer.split(b"Content-Length: ")[1:]]
    assert lengths == list(range(1, 1001))


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
    made = generator.serve([HttpServer("h2", workers=2, backlog=3)])
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


def test_a_rejected_connection_gets_a_reset(pair: Pair, generator: Generator) -> None:
    made = generator.serve([HttpServer("h2", workers=1, backlog=0)])
    assert made is not None

    def ask() -> str:
        with connect():
            wait_for(lambda: made.read()["busy"].item() == 1)
            with pytest.raises(ConnectionResetError), connect() as second:
                second.recv(1)
        return "reset"

    assert inside(pair, ask) == "reset"
    wait_for(lambda: made.read()["busy"].item() == 0)
    assert made.read()["rejected"].item() == 1


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
    assert results.records()["outcome"].tolist() == [RESET] * 3
    state = rows.read()[0]
    assert (state["busy"], state["heartbeat_ns"]) == (0, 0)
    results.close()
    assert completed(generator, plan_of([MS]))["outcome"].tolist() == [REFUSED]
    generator.change_server(0, "restart")
    assert completed(generator, plan_of([MS]))["outcome"].tolist() == [FINISHED]


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


def test_noise_is_answered_or_closed_and_never_a_crash(
    pair: Pair, generator: Generator, rows: ServerRows
) -> None:
    draw = np.random.default_rng(6)
    pieces = (
        *(b"GET ", b"/work", b"?cpu_us=1", b"&bytes=", b" HTTP/1.1\r\n", b"Host: a\r\n", b"\r\n"),
        *(b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"ffffffffffffffff\r\n"),
        *(b"\x00", b"\xff" * 9, b" ", b"%00", b"HEAD ", b"Connection: keep-alive\r\n", b"9" * 30),
    )

    def noise() -> bytes:
        if draw.random() < 0.5:
            return draw.bytes(int(draw.integers(1, 200)))
        return b"".join(pieces[i] for i in draw.integers(0, len(pieces), 12))

    def attack() -> set[bytes]:
        return {exchange(noise())[:12] for _ in range(3000)}

    statuses = {int(answer[9:12]) for answer in inside(pair, attack) if answer}
    assert statuses <= {200, 400, 404, 405, 413, 431, 505}
    assert 400 in statuses
    wait_for(lambda: rows.read()["busy"].item() == 0)
    assert completed(generator, plan_of([MS]))["outcome"].tolist() == [FINISHED]


def test_clients_that_vanish_leave_nothing_behind(pair: Pair, rows: ServerRows) -> None:
    abort = struct.pack("ii", 1, 0)

    def vanish() -> int:
        for sent in (b"", b"GET /wo", b"GET /work?cpu_us=1000&bytes=9 HTTP/1.1\r\nHost: a\r\n\r\n"):
            for _ in range(20):
                with connect() as client:
                    client.sendall(sent)
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, abort)
        return 60

    assert inside(pair, vanish) == 60
    wait_for(lambda: rows.read()["busy"].item() == 0)


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
    results = generator.load_requests(plan_of([400 * MS]))
    start_ns = time.monotonic_ns() + LEAD_NS
    generator.start(start_ns)
    generator.set_server(0, colocated=1, at_ns=start_ns + 100 * MS)
    wait_for(lambda: results.finished)
    results.close()
    # Alone at first, then with half of the processor: between 400 and 800 ms.
    assert 400 * MS < rows.read()["mean_service_ns"].item() < 800 * MS


def test_sharing_serves_all_at_once(generator: Generator) -> None:
    made = generator.serve([HttpServer("h2", scheduling="processor-sharing", slots=3)])
    assert made is not None
    results = run_requests(generator, plan_of([10_000 * MS] * 5))
    wait_for(lambda: made.read()["busy"].item() == 5)
    assert made.read()[["waiting", "workers_busy", "io"]].tolist() == [(2, 1, 0)]
    generator.stop()
    results.close()


def test_burnt_time_is_used_up(generator: Generator) -> None:
    made = generator.serve(
        [HttpServer("h2", workers=2, cpu="burnt", scheduling="processor-sharing", slots=8)]
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
    server = HttpServer("h2", cpu="burnt", scheduling="processor-sharing", backlog=0, slots=2)
    made = generator.serve([server])
    assert made is not None
    records = completed(generator, plan_of([200 * MS] * 2))
    # One after the other, the first would have ended after 200 ms.
    assert (records["end_ns"] - records["start_ns"]).min() >= 300 * MS
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
    made = generator.serve([HttpServer("h2", workers=8, backlog=4096)])
    assert made is not None
    records = completed(generator, plan_of(np.full(3000, MS // 10)))
    assert (records["outcome"] == FINISHED).all()
    wait_for(lambda: made.read()["busy"].item() == 0)
    assert made.read()[["accepted", "completed", "rejected"]].tolist() == [(3000, 3000, 0)]


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_is_served(pair: Pair, rows: ServerRows) -> None:
    shown = pair.run(0, f"curl -si http://{SERVER}:8000/work?cpu_us=2000&bytes=5")
    header, body = shown.split("\n\n")
    assert header.startswith("HTTP/1.1 200 OK")
    assert "Server-Id: 0" in header
    assert len(body) == 5


@pytest.mark.skipif(shutil.which("wrk") is None, reason="needs wrk")
def test_wrk_is_served(pair: Pair, generator: Generator) -> None:
    made = generator.serve([HttpServer("h2", workers=2)])
    assert made is not None
    shown = pair.run(0, f"wrk -t1 -c8 -d1s http://{SERVER}:8000/work?cpu_us=500&bytes=100")
    assert "Non-2xx" not in shown
    assert "Socket errors" not in shown
    counted = int(shown.split(" requests in ")[0].split()[-1])
    assert 0 < counted <= made.read()["completed"].item()


def test_applications_run_in_a_star(tmp_path: Path) -> None:
    with Star(3) as star, Generator(star.hosts(), star.names) as generator:
        generator.serve([HttpServer("h2", workers=4), HttpServer("h3", workers=4)])
        spec = {"name": "wiki", "requests_per_s": 300, "duration": "1s", "cpu": "1ms"}
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
    assert set(written["application"]) == {"wiki-page", "wiki-static"}
    assert written["bytes"].to_list() == plan.requests["bytes"].tolist()


@pytest.mark.skipif(
    not all(shutil.which(tool, path=TOOL_PATH) for tool in ("nginx", "wrk", "curl")),
    reason="needs nginx, wrk and curl",
)
def test_nginx_takes_the_place_of_a_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real_servers.main(real_servers.Args(out=tmp_path, seconds=1.0, requests_per_s=200.0))
    rows = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["rows"]
    assert [row["server"] for row in rows[:2]] == ["dcgym", "nginx"]
    for row in rows[:2]:
        assert row["finished"] == row["planned"] == 200
        assert row["page_bytes"] == 12_288
    # Round robin over seven servers of two balancers: about a seventh of 70 answers.
    assert rows[2]["dcgym"] + rows[2]["nginx"] == 70
    assert 0 < rows[2]["nginx"] < 35
    assert "nginx" in capsys.readouterr().out
