"""HTTP servers of the generator as other programs meet them: bytes in, bytes out."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import struct
from pathlib import Path

import numpy as np
import pytest

from dcgym.traffic.generators.generator import Generator
from dcgym.traffic.http import (
    HttpServer,
    ServerRows,
    cpu_and_io,
)
from experiments.speed import real_servers
from tests.support.http_rig import (
    FINISHED,
    MS,
    PATIENCE_S,
    SERVER,
    completed,
    connect,
    exchange,
    inside,
    plan_of,
)
from tests.support.pairs import Pair
from tests.support.waiting import wait_for

pytestmark = pytest.mark.emulation

TOOL_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


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


def test_a_wrong_request_is_answered_with_its_status(pair: Pair, rows: ServerRows) -> None:
    asked = [
        (b"GET /work HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200),
        (b"GET /work HTTP/1.0\r\n\r\n", 200),
        # RFC 9112, 3.2.2: as clients send it that believe in a proxy.
        (b"GET http://10.0.0.2:8000/work?bytes=3 HTTP/1.1\r\nHost: a\r\n\r\n", 200),
        (b"GET HTTP://a/work HTTP/1.1\r\nHost: a\r\n\r\n", 200),
        (b"GET http://a/elsewhere HTTP/1.1\r\nHost: a\r\n\r\n", 404),
        (b"GET http://a?bytes=3 HTTP/1.1\r\nHost: a\r\n\r\n", 404),
        (b"GET http:///work HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET http://user@a/work HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET http://a/work HTTP/1.1\r\n\r\n", 400),
        (b"GET /work HTTP/1.1\r\n\r\n", 400),  # RFC 9112, 3.2: a host is required
        (b"GET /work HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET /work HTTP/9.9\r\nHost: a\r\n\r\n", 505),
        (b"GET /work\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),  # a TLS hello
        (b"GET /work HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 9000 + b"\r\n\r\n", 431),
        (b"GET /work HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"GET /work HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400),
        (b"GET /work?" + b"cpu_us=0&" * 9 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ]
    # In a row at one server: none of them harms the next.
    answers = inside(pair, lambda: [exchange(raw)[:13] for raw, _ in asked])
    assert answers == [b"HTTP/1.1 %d " % status for _, status in asked]


def test_requests_of_one_connection_are_answered_in_order(pair: Pair, rows: ServerRows) -> None:
    raw = b"".join(b"GET /work?bytes=%d HTTP/1.1\r\nHost: a\r\n\r\n" % (i + 1) for i in range(1000))
    answer = inside(pair, lambda: exchange(raw))
    lengths = [int(part.split(b"\r\n")[0]) for part in answer.split(b"Content-Length: ")[1:]]
    assert lengths == list(range(1, 1001))


def test_a_rejected_connection_gets_a_reset(pair: Pair, generator: Generator) -> None:
    made = generator.serve([HttpServer("h2", backlog=0)])
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


def test_a_client_that_waits_too_long_is_closed_and_one_amid_a_request_reset(
    pair: Pair, generator: Generator
) -> None:
    made = generator.serve([HttpServer("h2", idle_timeout_ns=1000 * MS)])
    assert made is not None

    def ask() -> bytes:
        with connect() as client:
            client.sendall(b"GET /work HTTP/1.1\r\nHost: a\r\n\r\n")
            answer = b""
            while part := client.recv(65_536):
                answer += part
        with connect() as client:
            client.sendall(b"GET /work HT")
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        return answer

    assert inside(pair, ask).startswith(b"HTTP/1.1 200 ")
    assert made.read()["completed"].item() == 1


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_is_served_as_if_by_a_proxy(pair: Pair, rows: ServerRows) -> None:
    proxied = f"curl -s -x http://{SERVER}:8000 http://elsewhere/work?bytes=5 -w %{{http_code}}"
    assert pair.run(0, proxied)[-3:] == "200"
    assert rows.read()["completed"].item() == 1


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


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_is_served(pair: Pair, rows: ServerRows) -> None:
    shown = pair.run(0, f"curl -si http://{SERVER}:8000/work?cpu_us=2000&bytes=5")
    header, body = shown.split("\n\n")
    assert header.startswith("HTTP/1.1 200 OK")
    assert "Server-Id: 0" in header
    assert len(body) == 5


@pytest.mark.skipif(shutil.which("wrk") is None, reason="needs wrk")
def test_wrk_is_served(pair: Pair, generator: Generator) -> None:
    made = generator.serve([HttpServer("h2", cpu_and_io(2))])
    assert made is not None
    shown = pair.run(
        0, f"wrk -t1 -c8 -d1s --timeout 30s http://{SERVER}:8000/work?cpu_us=500&bytes=100"
    )
    assert "Non-2xx" not in shown
    assert "Socket errors" not in shown
    counted = int(shown.split(" requests in ")[0].split()[-1])
    assert 0 < counted <= made.read()["completed"].item()


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
