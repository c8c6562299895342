"""Fidelity on the real kernel: the preflight, and an overloaded machine that says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dcgym.backends.fidelity import judge
from dcgym.backends.records import FIDELITY
from dcgym.topologies import make_topology
from dcgym.traffic import make_plan
from tests.support.networks import begin
from tests.support.windows import best_of

pytestmark = pytest.mark.emulation

BUSY_PER_CORE = 6


@pytest.fixture
def overload() -> Iterator[None]:
    """Keep every processor busy several times over."""
    count = BUSY_PER_CORE * len(os.sched_getaffinity(0))
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    yield
    for process in busy:
        process.kill()
        process.wait()


def run_episode(backend: Any, seconds: float) -> dict[str, Any]:
    begin(backend, make_plan("pairs", backend.topology, 0))
    deadline_ns = time.monotonic_ns()
    for _ in range(round(seconds / 0.01)):
        deadline_ns += 10_000_000
        backend.advance(deadline_ns)
        backend.snapshot()
    verdict: dict[str, Any] = backend.records(FIDELITY).to_dict()
    return verdict


def claim(backend: Any, topology: dict[str, str]) -> None:
    """Let the audit believe that the running network is another one."""
    network = backend.backend
    network._network = replace(network._network, topology=make_topology(topology))


def test_ports_send_no_more_than_their_rate_and_all_is_measured(share: Any) -> None:
    verdict = run_episode(share("dumbbell"), 1.0)
    figures = verdict["figures"]
    assert figures["rate_excess"] == 0
    assert 0 <= figures["cpu_idle_share"] <= 1
    assert {"overrun_ms_p99", "generator_silence_ms"} <= set(figures)
    assert figures["generator_wait_us"] >= 0
    assert not any(name.startswith("preflight") for name in figures)


def test_an_overloaded_machine_is_invalid(share: Any, overload: None) -> None:
    verdict = run_episode(share("dumbbell"), 1.5)
    assert verdict["status"] == "invalid"
    assert any("processor" in reason for reason in verdict["reasons"])


def test_a_generator_that_gets_half_of_its_time_is_not_ok(share: Any) -> None:
    backend = share("dumbbell")
    is_over = threading.Event()

    def starve() -> None:
        while not is_over.is_set():
            for number in (signal.SIGSTOP, signal.SIGCONT):
                signal.pidfd_send_signal(backend.lab.generator_process, number)
                time.sleep(0.04)

    thread = threading.Thread(target=starve)
    thread.start()
    try:
        verdict = run_episode(backend, 1.0)
    finally:
        is_over.set()
        thread.join()
    # Every look in the second half of a pause finds the generator over 20 ms behind.
    assert verdict["figures"]["generator_silent_share"] > 0.1
    assert verdict["status"] == "invalid"


@pytest.mark.timing
def test_a_port_that_is_slower_than_its_link_is_not_ok(make: Any) -> None:
    backend = make("dumbbell")
    claim(backend, {"name": "dumbbell", "rate": "12.5Mbit"})
    verdict = best_of(
        lambda: run_episode(backend, 2.5),
        lambda found: abs(found["figures"]["rate_deficit"] - 0.2),
        0.02,
    )
    # It sends at 10 Mbit/s: a fifth less, and CUBIC keeps its queue full from the first second on.
    assert verdict["figures"]["rate_deficit"] == pytest.approx(0.2, abs=0.02)
    assert verdict["status"] == "invalid"


def preflight(make: Any, claimed: dict[str, str] | None = None) -> dict[str, float]:
    """Return what the preflight of a new dumbbell says, which it believes to be another one."""
    backend = make("dumbbell", preflight=True)
    if claimed is not None:
        claim(backend, claimed)
    figures: dict[str, float] = run_episode(backend, 0.1)["figures"]
    backend.close()
    return figures


@pytest.mark.timing
def test_the_preflight_confirms_a_network(make: Any) -> None:
    limits = {"rate_error": 0.02, "queue_error": 1e-9, "mark_error": 0.05, "rtt_excess_ms": 10}
    figures = best_of(
        lambda: preflight(make),
        lambda found: max(found[f"preflight_{name}"] / most for name, most in limits.items()),
        0.999,
    )
    for name, most in limits.items():
        assert figures[f"preflight_{name}"] < most, name


OTHER = {"name": "dumbbell", "rate": "12.5Mbit", "queue": "500KB", "mark": "90KB"}


def test_the_preflight_measures_what_links_have(make: Any) -> None:
    """Where a machine is late, links are slower and queues empty sooner, never the other way."""
    figures = preflight(make, OTHER)
    least = {"rate": 0.18, "queue": 0.19, "mark": 0.6}
    for name, error in least.items():
        assert figures[f"preflight_{name}_error"] > error, name
    assert judge(figures).status == "invalid"


@pytest.mark.timing
def test_the_preflight_finds_links_that_are_not_as_configured(make: Any) -> None:
    # 10 Mbit/s, 400 KB and 30 KB are what it is: a fifth less, a fifth less, two thirds less.
    errors = {"rate": (0.2, 0.02), "queue": (0.2, 0.01), "mark": (2 / 3, 0.06)}
    figures = best_of(
        lambda: preflight(make, OTHER),
        lambda found: max(
            abs(found[f"preflight_{name}_error"] - error) / slack
            for name, (error, slack) in errors.items()
        ),
        1.0,
    )
    for name, (error, slack) in errors.items():
        assert figures[f"preflight_{name}_error"] == pytest.approx(error, abs=slack), name
    assert np.isfinite(figures["preflight_rtt_excess_ms"])
