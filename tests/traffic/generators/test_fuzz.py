"""The generator's own parsers, fed what no owner would send: it answers one line, and lives on."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcgym.traffic import Flow, Plan
from dcgym.traffic.generators.generator import Generator, plan_file
from dcgym.traffic.plans.records import FLOW_DTYPE
from tests.support.pairs import Pair

pytestmark = pytest.mark.emulation

FUZZ = settings(
    max_examples=150,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
WORD = st.one_of(
    st.sampled_from(["hosts", "probes", "plan", "start", "stop", "-", "\n", "0", "1", "10.0.0.1"]),
    st.integers(-(2**65), 2**65).map(str),
    st.text(max_size=20),
)
PLAN = Plan(
    "test",
    0,
    (
        Flow("h1", "h2", size_bytes=1000, repetitions=3, gap_ns=1),
        Flow("h2", "h1", "udp", rate_bps=1_000_000, duration_ns=1000),
        Flow("h1", "h2", size_bytes=10, after=0),
    ),
)


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[Generator]:
    pair = Pair()
    with Generator(pair.hosts()) as made:
        yield made
    pair.close()


def ask(generator: Generator, request: bytes, *fds: int) -> bytes:
    """Send a request past all checks of Python's side; the reply is one line."""
    socket.send_fds(generator._socket, [request], fds)
    reply = generator._socket.recv(1 << 20)
    assert reply.startswith((b"ok", b"error ")), reply
    assert b"\n" not in reply and len(reply) < 4096
    return reply


@FUZZ
@given(request=st.binary(min_size=1, max_size=60))
def test_random_requests(fuzzed: Generator, request: bytes) -> None:
    ask(fuzzed, request)


@FUZZ
@given(words=st.lists(WORD, min_size=1, max_size=8), separator=st.sampled_from([" ", "\n"]))
def test_requests_of_known_words(fuzzed: Generator, words: list[str], separator: str) -> None:
    request = separator.join(words).encode("utf-8", "surrogatepass")
    ask(fuzzed, request or b" ")


def run_file(generator: Generator, pair: Pair, content: bytes, n_flows: int) -> bytes:
    """Load a plan's file, and run it for a moment where it is taken."""
    rows = "".join(f"{i} {namespace} {ip}\n" for i, namespace, ip in pair.hosts())
    assert ask(generator, f"hosts\n{rows}".encode()) == b"ok 2"
    fd = os.memfd_create("plan")
    os.write(fd, content)
    reply = ask(generator, f"plan {n_flows}\n- -".encode(), fd)
    os.close(fd)
    if reply.startswith(b"ok"):
        ask(generator, f"start {time.monotonic_ns()}".encode())
        ask(generator, b"stop")
    return reply


@FUZZ
@given(content=st.binary(max_size=400), n_flows=st.integers(0, 2**64))
def test_random_plans(fuzzed: Generator, pair: Pair, content: bytes, n_flows: int) -> None:
    reply = run_file(fuzzed, pair, content, n_flows)
    whole = min(n_flows, len(content) // FLOW_DTYPE.itemsize)
    # Random bytes are a plan only where they are none at all.
    assert reply.startswith(b"ok") == (n_flows == 0) or whole > 0


@FUZZ
@given(
    changes=st.lists(
        st.tuples(
            st.integers(0, 29), st.sampled_from([0, 1, 2, 2**60, 2**60 + 1, 2**63, 2**64 - 1])
        ),
        max_size=3,
    ),
    flips=st.lists(st.tuples(st.integers(0, 239), st.integers(0, 255)), max_size=3),
)
def test_mutated_plans(
    fuzzed: Generator,
    pair: Pair,
    changes: list[tuple[int, int]],
    flips: list[tuple[int, int]],
) -> None:
    fd = plan_file(PLAN, ["h1", "h2"])
    content = bytearray(os.pread(fd, 1 << 16, 0))
    os.close(fd)
    for word, value in changes:
        content[8 * word : 8 * word + 8] = value.to_bytes(8, "little")
    for place, value in flips:
        content[place] = value
    reply = run_file(fuzzed, pair, bytes(content), len(PLAN))
    if bytes(content) == PLAN.to_generator(["h1", "h2"]):
        assert reply == b"ok 3"
    if not reply.startswith(b"ok"):
        assert b"in flow" in reply, reply


def test_a_number_of_flows_beyond_the_file_takes_no_memory(fuzzed: Generator, pair: Pair) -> None:
    def resident_bytes() -> int:
        with open(f"/proc/{fuzzed.pid}/status", encoding="ascii") as status:
            return int(status.read().split("VmHWM:")[1].split()[0]) * 1024

    before = resident_bytes()
    assert b"shorter than it says" in run_file(fuzzed, pair, bytes(80), 2**24)
    assert resident_bytes() - before < 50_000_000


@pytest.mark.parametrize("rate_bps", [2**60, 2**50])
def test_a_rate_beyond_any_machine_hinders_nothing_else(
    fuzzed: Generator, pair: Pair, rate_bps: int
) -> None:
    flow = Flow("h1", "h2", "udp", rate_bps=rate_bps)
    content = Plan("test", 0, (flow,)).to_generator(["h1", "h2"])
    assert run_file(fuzzed, pair, content, 1) == b"ok 1"
