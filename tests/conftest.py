from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from collections.abc import Generator as Wrapper
from pathlib import Path
from typing import Any

import pytest

from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.native import available, missing_parts
from dcgym.testing import OneNetwork
from dcgym.topologies import Topology
from dcgym.traffic.generators.generator import Generator, GeneratorView
from dcgym.traffic.http import HttpServer, ServerRows
from tests.support.machine import MACHINE
from tests.support.networks import Lender, started
from tests.support.pairs import Pair
from tests.support.windows import NOT_JUDGED

MARKERS = ("emulation", "native", "simulation")
# Ray starts ten processes, and a busy machine takes minutes for what else takes seconds.
RAY_S = 900.0
MakeNetwork = Callable[..., EmulationNetwork]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import only files that name the marker when nothing without it is asked for."""
    marker, *others = config.option.markexpr.split() or [""]
    is_needed = marker in ("docs", "ray", "soak", "timing") and "or" not in others
    if is_needed and collection_path.suffix == ".py":
        return f"mark.{marker}" not in collection_path.read_text(encoding="utf-8") or None
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what loads learning libraries into this process, and end with Ray.

    Of several workers the first one has it then, while the others take its further tests: to import
    torch, Stable-Baselines3 and RLlib takes ten seconds. Printed programs (tests/docs) have
    processes of their own.
    """

    def place(item: pytest.Item) -> tuple[bool, bool]:
        is_later = item.get_closest_marker("learning") is None or item.path.parent.name == "docs"
        return item.get_closest_marker("ray") is not None, is_later

    items.sort(key=place)
    for item in items:
        if item.get_closest_marker("ray") is not None and item.get_closest_marker("soak") is None:
            item.add_marker(pytest.mark.timeout(RAY_S), append=False)


def pytest_collection_finish() -> None:
    """Leave out what lives as long as this process when garbage is looked for."""
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot run, with the reason; the markers say what that is."""
    if item.get_closest_marker("timing") and hasattr(item.config, "workerinput"):
        pytest.fail("this test measures times: it runs alone, without -n", pytrace=False)
    needs = {name for name in MARKERS if item.get_closest_marker(name) is not None}
    if needs == {"simulation"} and not (available("_simulation") and available("_packets")):
        pytest.skip("the compiled simulation is not built; run 'make setup'")
    if needs - {"simulation"} and os.geteuid() != 0:
        pytest.skip("needs root for network namespaces and BPF")
    if needs - {"simulation"} and (missing := missing_parts()):
        pytest.skip(f"not built: {', '.join(missing)}; run 'make setup'")
    if item.get_closest_marker("timing") and (reasons := MACHINE.begin()):
        pytest.skip(NOT_JUDGED + "; ".join(reasons))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Wrapper[None, object, object]:
    """Judge a timing test only where the machine kept up.

    The windows of `best_of` have each a verdict of their own, and count for a test that passes.
    """
    if pyfuncitem.get_closest_marker("timing") is None:
        return (yield)
    try:
        result = yield
    except (Exception, pytest.fail.Exception) as error:
        if reasons := MACHINE.reasons():
            said = str(error).partition("\n")[0]
            pytest.skip(f"{NOT_JUDGED}{'; '.join(reasons)} ({said})")
        raise
    if not MACHINE.judged and (reasons := MACHINE.reasons()):
        pytest.skip(NOT_JUDGED + "; ".join(reasons))
    return result


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Find tests that start Ray beside others: its processes fill the machine, and outlive them."""
    ray = sys.modules.get("ray")
    if ray is None or item.get_closest_marker("ray") is not None:
        return
    if ray.is_initialized():
        ray.shutdown()
        pytest.fail("this test starts Ray and has no marker 'ray'", pytrace=False)


@pytest.fixture
def make() -> Iterator[MakeNetwork]:
    """Make started networks that end with the test."""
    made: list[OneNetwork] = []

    def make_started(topology: Topology | str | dict[str, Any], **options: Any) -> OneNetwork:
        made.append(started(topology, **options))
        return made[-1]

    yield make_started
    for network in made:
        network.close()


@pytest.fixture(scope="module")
def lender() -> Iterator[Lender]:
    made = Lender()
    yield made
    made.close()


@pytest.fixture
def share(lender: Lender) -> Iterator[MakeNetwork]:
    """Lend started networks that the tests of a file use one after another.

    For tests that begin with a reset. Those that leave on a network what no reset takes away have
    one of their own (`make`).
    """
    yield lender.lend
    lender.take_back()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


@pytest.fixture
def generator(pair: Pair) -> Iterator[Generator]:
    with Generator(pair.hosts()) as made:
        yield made


@pytest.fixture
def view(generator: Generator) -> Iterator[GeneratorView]:
    made = GeneratorView(generator.shm_fd)
    yield made
    made.close()


@pytest.fixture
def rows(generator: Generator) -> ServerRows:
    """Open an HTTP server with one worker on h2, and return its state."""
    made = generator.serve([HttpServer("h2")])
    assert made is not None
    return made
