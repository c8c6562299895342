"""Probes, idle messages and faults of the generator's servers, seen from a balancer's end."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import pytest

from dcgym.errors import BackendError, ConfigError
from dcgym.traffic.generators.generator import Generator
from dcgym.traffic.http import HttpServer, cpu_and_io
from tests.support.http_rig import (
    CLIENT,
    FAILED,
    FINISHED,
    MS,
    PATIENCE_S,
    SERVER,
    completed,
    inside,
    plan_of,
    run_requests,
)
from tests.support.pairs import Pair
from tests.support.waiting import wait_for
from tests.support.windows import best_of

pytestmark = pytest.mark.emulation

PORT, MAGIC, VERSION = 47, 0xDC4D, 1
PROBE, ANSWER, IDLE = 1, 2, 3
FORMAT = "!HBBHHQQII"
Result = TypeVar("Result")


class Told(NamedTuple):
    """A message of a server."""

    kind: int
    server: int
    vip: int
    serial: int
    latency_ns: int
    in_flight: int


def probe(serial: int, server: int = 0, **fields: int) -> bytes:
    wanted = {"magic": MAGIC, "version": VERSION, "kind": PROBE} | fields
    return struct.pack(FORMAT, *wanted.values(), server, 3, serial, 0, 0, 0)


class Balancer:
    """A balancer's end: it sends what it is told to, and keeps what comes."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((CLIENT, PORT))

    def send(self, *messages: bytes) -> None:
        for message in messages:
            self._socket.sendto(message, (SERVER, PORT))

    def receive(self, count: int) -> list[Told]:
        return [self._next(PATIENCE_S) for _ in range(count)]

    def _next(self, patience_s: float) -> Told:
        assert select.select([self._socket], [], [], patience_s)[0], "no message came"
        magic, version, kind, *rest, reserved = struct.unpack(FORMAT, self._socket.recv(2048))
        assert (magic, version, reserved) == (MAGIC, VERSION, 0)
        return Told(kind, *rest)

    def __enter__(self) -> Balancer:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def as_balancer(pair: Pair, work: Callable[[Balancer], Result]) -> Result:
    def run() -> Result:
        with Balancer() as balancer:
            return work(balancer)

    return inside(pair, run)


def serve(generator: Generator, **messages: Any) -> Any:
    rows = generator.serve([HttpServer("h2", backlog=1000)])
    generator.set_messages([CLIENT], **messages)
    return rows


def ask_seven(balancer: Balancer) -> list[Told]:
    balancer.send(probe(7))
    return balancer.receive(1)


def serve_three(pair: Pair, generator: Generator) -> tuple[Any, Told]:
    """Serve three requests that come at once; return the server's row, and what it says then."""
    rows = serve(generator)
    assert as_balancer(pair, ask_seven) == [Told(ANSWER, 0, 3, 7, 0, 0)]
    completed(generator, plan_of([20 * MS] * 3))
    return rows, as_balancer(pair, ask_seven)[0]


def ask_loaded(pair: Pair, generator: Generator, rows: Any) -> Told:
    """Return what the server says of five requests under way."""
    run_requests(generator, plan_of([60_000 * MS] * 5))
    wait_for(lambda: rows.read()[0]["busy"] == 5)
    (loaded,) = as_balancer(pair, ask_seven)
    generator.stop()
    return loaded


def test_a_probe_gets_load_and_latency(pair: Pair, generator: Generator) -> None:
    rows, idle = serve_three(pair, generator)
    assert idle.in_flight == 0 and idle.latency_ns >= 20 * MS
    loaded = ask_loaded(pair, generator, rows)
    assert loaded.in_flight == 5 and loaded.latency_ns >= 20 * MS


@pytest.mark.timing
def test_a_probe_gets_the_latency_of_requests_that_met_as_many(
    pair: Pair, generator: Generator
) -> None:
    # Three at once on one processor: they met 0, 1 and 2 others and took 20, 40 and 60 ms.
    rows, idle = best_of(
        lambda: serve_three(pair, generator), lambda found: found[1].latency_ns, 40 * MS - 1
    )
    assert idle.latency_ns < 40 * MS
    # Of samples the nearest to 5 in flight is the one that met 2. It came some microseconds after
    # the first, and so took a little less than 60 ms; the one that met 1 took 40.
    assert ask_loaded(pair, generator, rows).latency_ns > 50 * MS


def test_a_server_that_lies_says_what_it_is_told_to(pair: Pair, generator: Generator) -> None:
    rows = serve(generator)
    run_requests(generator, plan_of([60_000 * MS] * 4))
    wait_for(lambda: rows.read()[0]["busy"] == 4)
    found = []
    for factor in (0.0, 2.5, 1.0):
        generator.set_fault(0, "false-reports", factor)
        found += as_balancer(pair, lambda one: (one.send(probe(1)), one.receive(1))[1])
    assert [told.in_flight for told in found] == [0, 10, 4]
    # Its row tells the truth.
    assert rows.read()[0]["busy"] == 4
    generator.stop()


def test_what_is_no_probe_of_this_server_gets_no_answer(pair: Pair, generator: Generator) -> None:
    serve(generator)
    noise = (b"", b"x", probe(1)[:-1], probe(1) + b"x", probe(1, server=1), probe(1, magic=5))
    noise += (probe(1, version=2), probe(1, kind=ANSWER))

    def ask(balancer: Balancer) -> list[Told]:
        balancer.send(*noise, probe(9))
        return balancer.receive(1)

    results = generator.load_requests(plan_of([MS]))
    generator.start(time.monotonic_ns())
    assert [told.serial for told in as_balancer(pair, ask)] == [9]
    wait_for(lambda: results.header()["unknown_messages"] == len(noise))
    results.close()


def test_messages_get_lost_and_answers_come_twice(pair: Pair, generator: Generator) -> None:
    serve(generator, loss=0.25, copies=0.5)
    results = generator.load_requests(plan_of([MS]))
    generator.start(time.monotonic_ns())
    count = 2000
    as_balancer(pair, lambda one: one.send(*(probe(1 + i) for i in range(count)), b"the end"))
    wait_for(lambda: results.header()["unknown_messages"] == 1)
    # Three quarters of the probes arrive, with 1.5 answers each, a quarter of which get lost.
    arrived = 0.75 * count
    header = results.header()
    assert header["message_answers"] == pytest.approx(1.5 * arrived, rel=0.1)
    expected = 0.25 * count + 0.25 * 1.5 * arrived
    assert header["messages_lost"] == pytest.approx(expected, rel=0.15)
    results.close()


def test_messages_are_held_as_long_as_they_should(pair: Pair, generator: Generator) -> None:
    serve(generator, delay_ns=(20 * MS, 30 * MS))

    def ask(balancer: Balancer) -> float:
        began = time.monotonic()
        balancer.send(probe(1))
        balancer.receive(1)
        return time.monotonic() - began

    assert as_balancer(pair, ask) >= 0.04


def test_an_idle_server_registers_with_a_listener(pair: Pair, generator: Generator) -> None:
    serve(generator)

    def listen(balancer: Balancer) -> list[Told]:
        completed(generator, plan_of([MS]))
        # Nobody wants to know yet.
        generator.set_listeners([0])
        for _ in range(2):
            completed(generator, plan_of([MS]))
        found = balancer.receive(2)
        balancer.send(probe(5))
        return found + balancer.receive(1)

    found = as_balancer(pair, listen)
    assert found[:2] == [Told(IDLE, 0, 0, 0, 0, 0)] * 2 and found[2].kind == ANSWER


def test_an_idle_server_registers_for_addresses_that_it_answers(
    pair: Pair, generator: Generator
) -> None:
    serve(generator, members=([], [0], [0]))

    def listen(balancer: Balancer, *frontends: int) -> set[int]:
        generator.set_listeners(frontends)
        for _ in range(20):
            completed(generator, plan_of([MS]))
        return {told.vip for told in balancer.receive(20)}

    assert as_balancer(pair, lambda one: listen(one, 0, 1)) == {1}
    assert as_balancer(pair, lambda one: listen(one, 0, 1, 2)) == {1, 2}


def test_a_server_that_fails_fast_answers_with_503(pair: Pair, generator: Generator) -> None:
    rows = serve(generator)
    generator.set_fault(0, "fail-fast", 1.0)
    failed = completed(generator, plan_of([60_000 * MS] * 5))
    assert failed["outcome"].tolist() == [FAILED] * 5 and set(failed["status"]) == {503}
    assert rows.read()[0]["rejected"] == 5
    # "reset" forgets it.
    generator.change_server(0, "reset")
    assert completed(generator, plan_of([MS]))["outcome"].tolist() == [FINISHED]


def test_a_gray_failure_makes_ten_times_the_work(generator: Generator) -> None:
    generator.serve([HttpServer("h2", cpu_and_io(8))])
    generator.set_fault(0, "gray-failure", 1.0)
    record = completed(generator, plan_of([10 * MS]))[0]
    assert record["end_ns"] - record["start_ns"] >= 100 * MS


def test_a_killed_server_answers_nothing_until_it_is_back(pair: Pair, generator: Generator) -> None:
    serve(generator)
    generator.change_server(0, "kill")
    as_balancer(pair, lambda one: one.send(probe(1)))
    generator.change_server(0, "restart")
    found = as_balancer(pair, lambda one: (one.send(probe(2)), one.receive(1))[1])
    assert [told.serial for told in found] == [2]


def test_wrong_messages_faults_and_listeners_are_refused(generator: Generator) -> None:
    serve(generator)
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"loss": 1.5}, "loss: value 1.5"),
        ({"delay_ns": (5, 1)}, "delay_ns: value 1"),
    )
    for options, message in wrong:
        with pytest.raises(ConfigError, match=message):
            generator.set_messages([CLIENT], **options)
    with pytest.raises(ConfigError, match="fault: value 'sleep'"):
        generator.set_fault(0, "sleep", 1.0)
    with pytest.raises(ConfigError, match="value: value 2"):
        generator.set_fault(0, "fail-fast", 2.0)
    with pytest.raises(BackendError, match="no front end 1"):
        generator.set_listeners([1])
