"""Real clients, broken packets and half-closed connections at an emulated pod; for `make soak`."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
import pytest

from dcgym.backends.emulation.pool.backend import EmulatedPool
from dcgym.backends.records import SUMMARY
from dcgym.tasks.balancing import make_scenario
from dcgym.tasks.balancing.protocol import NOTHING, PoolCommands
from dcgym.traffic.sizes import exponential

pytestmark = [pytest.mark.emulation, pytest.mark.soak]

SECOND = 10**9
CHANGES = 500
MUTANTS = 20_000
CONNECTIONS = 20
BODY_BYTES = 100_000
PROGRAMS = Path(__file__).parents[2] / "support" / "clients"


@pytest.fixture
def pool() -> Iterator[EmulatedPool]:
    """A pod of seven servers that has little traffic of its own."""
    small = make_scenario("testbed-7", load=0.1, service=exponential("20ms"))
    made = EmulatedPool(small, horizon_ns=90 * SECOND)
    made.reset([1])
    made.apply(PoolCommands(rules="sed"))
    yield made
    made.close()


def while_weights_change(
    pool: EmulatedPool, host: str, *argv: str, least: int = CHANGES
) -> tuple[str, int]:
    """Run a client to its end under ever new weights; return what it printed and their number."""
    draws = np.random.default_rng(1)
    changes = 0
    with ThreadPoolExecutor(1) as one:
        client = one.submit(pool.execute, host, *argv, timeout_s=60.0)
        while not client.done() or changes < least:
            pool.apply(PoolCommands(weights=draws.uniform(0.1, 10, (1, 2, 7))))
            changes += 1
            wait([client], timeout=0.01)
        return client.result(), changes


def check_untouched(pool: EmulatedPool) -> None:
    """No connection moved, and the pod's own flows were served."""
    pool.advance(int(pool.apply(NOTHING)[0]) + SECOND)
    summary = pool.records(SUMMARY)
    assert (summary.pcc_violations, summary.lost) == (0, 0)
    assert summary.completed > 0


def number(pattern: str, report: str) -> int:
    """Return the number that a report has at a pattern's group."""
    found = re.search(pattern, report)
    assert found, report
    return int(found.group(1))


def check_curl(report: str) -> None:
    assert report.count("200 1234\n") == 300 and report.count("\n") == 300, report


def check_wrk(report: str) -> None:
    assert "Non-2xx" not in report and "Socket errors" not in report, report
    assert number(r"(\d+) requests in", report) > 1000


def check_ab(report: str) -> None:
    assert number(r"Complete requests: +(\d+)", report) == 5000
    assert number(r"Failed requests: +(\d+)", report) == 0
    assert "Non-2xx" not in report


def check_h2load(report: str) -> None:
    assert "5000 succeeded, 0 failed, 0 errored, 0 timeout" in report, report


def check_siege(report: str) -> None:
    assert number(r'"successful_transactions":\s+(\d+)', report) > 1000
    assert number(r'"failed_transactions":\s+(\d+)', report) == 0


def check_hey(report: str) -> None:
    assert "Error distribution" not in report, report
    statuses = re.findall(r"\[(\d+)\]\s+(\d+) responses", report)
    assert [status for status, _ in statuses] == ["200"] and int(statuses[0][1]) > 1000


def check_python(report: str) -> None:
    assert number(r"(\d+) whole answers", report) > 1000
    assert number(r"(\d+) errors", report) == 0


CLIENTS: dict[str, tuple[tuple[str, ...], Callable[[str], None]]] = {
    "curl": (
        (
            "sh",
            "-c",
            r"for i in $(seq 300); do "
            r"curl -sSo /dev/null -w '%{http_code} %{size_download}\n' URL; done",
        ),
        check_curl,
    ),
    "wrk": (("wrk", "-t1", "-c16", "-d8s", "URL"), check_wrk),
    "ab": (("ab", "-q", "-k", "-l", "-c", "8", "-n", "5000", "URL"), check_ab),
    "h2load": (("h2load", "--h1", "-c", "8", "-n", "5000", "URL"), check_h2load),
    "siege": (
        ("sh", "-c", "HOME=$(mktemp -d) siege --json-output -b -c 4 -t 8S URL"),
        check_siege,
    ),
    "hey": (("hey", "-z", "8s", "-c", "8", "URL"), check_hey),
    "python": ((sys.executable, str(PROGRAMS / "keep_alive.py"), "8", "8", "URL"), check_python),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_clients_notice_nothing_of_new_weights(pool: EmulatedPool, name: str) -> None:
    argv, check = CLIENTS[name]
    program = name if name != "python" else sys.executable
    if shutil.which(program) is None:
        pytest.skip(f"{name} is not installed; run 'make soak'")
    ((address, port),) = pool.targets
    url = f"http://{address}:{port}/work?cpu_us=100&bytes=1234"
    quoted = f"'{url}'" if argv[0] == "sh" else url
    report, changes = while_weights_change(
        pool, "c1", *(part.replace("URL", quoted) for part in argv)
    )
    check(report)
    assert changes >= CHANGES
    check_untouched(pool)


def test_half_closed_connections_get_whole_answers(pool: EmulatedPool) -> None:
    """RFC 9293, section 3.6: who has closed may still receive, here for three seconds."""
    ((address, port),) = pool.targets
    program = str(PROGRAMS / "half_closed.py")
    arguments = (address, str(port), str(CONNECTIONS), str(BODY_BYTES))
    report, _ = while_weights_change(pool, "c1", sys.executable, program, *arguments)
    assert report.split() == [str(BODY_BYTES)] * CONNECTIONS
    check_untouched(pool)


def test_broken_packets_harm_nobody(pool: EmulatedPool) -> None:
    """A host sends packets of all kinds with bytes changed, cut and added, as it downloads."""
    ((address, port),) = pool.targets
    sender = f"{sys.executable} {PROGRAMS / 'send_mutants.py'} {address} {port} {MUTANTS}"
    url = f"http://{address}:{port}/work?cpu_us=100&bytes=1234"
    report, _ = while_weights_change(
        pool, "c2", "sh", "-c", f"{sender} 2>&1 & wrk -t1 -c16 -d8s '{url}'; wait"
    )
    check_wrk(report)
    assert number(r"(\d+) frames sent", report) == MUTANTS
    check_untouched(pool)
