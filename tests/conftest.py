from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.emulation.network.options import NetworkOptions
from dcgym.native import missing_parts, packets_available, simulation_available
from dcgym.topologies import Topology, make_topology
from dcgym.traffic.generators.generator import Generator, GeneratorView
from dcgym.traffic.http import HttpServer, ServerRows
from tests.support.pairs import Pair

MARKERS = ("emulation", "native", "simulation")
MakeNetwork = Callable[..., EmulationNetwork]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import only files that name the marker when a single one is asked for."""
    marker = config.option.markexpr
    if marker in ("alone", "docs", "soak") and collection_path.suffix == ".py":
        return f"mark.{marker}" not in collection_path.read_text(encoding="utf-8") or None
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what loads learning libraries into this process.

    Of several workers the first one has it then, while the others take its further tests: to import
    torch, Stable-Baselines3 and RLlib takes ten seconds, and Ray starts once. Printed programs
    (tests/docs) have processes of their own.
    """

    def is_later(item: pytest.Item) -> bool:
        return item.get_closest_marker("learning") is None or item.path.parent.name == "docs"

    items.sort(key=is_later)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot run, with the reason; the markers say what that is."""
    is_beside_others = (
        hasattr(item.config, "workerinput") and item.config.option.markexpr != "alone"
    )
    if item.get_closest_marker("alone") and is_beside_others:
        pytest.fail("this test runs beside its kind only: -m alone, or leave out -n", pytrace=False)
    needs = {name for name in MARKERS if item.get_closest_marker(name) is not None}
    if needs == {"simulation"} and not (simulation_available() and packets_available()):
        pytest.skip("the compiled simulation is not built; run 'make setup'")
    if not needs - {"simulation"}:
        return
    if os.geteuid() != 0:
        pytest.skip("needs root for network namespaces and BPF")
    if missing := missing_parts():
        pytest.skip(f"not built: {', '.join(missing)}; run 'make setup'")


@pytest.fixture
def make() -> Iterator[MakeNetwork]:
    """Make started networks that end with the test."""
    made: list[EmulationNetwork] = []

    def make_started(topology: Topology | str | dict[str, Any], **options: Any) -> EmulationNetwork:
        # A second each that most tests have no use for.
        options = {"preflight": False, **options}
        network = EmulationNetwork(make_topology(topology), NetworkOptions(**options))
        made.append(network)
        network.start()
        return network

    yield make_started
    for network in made:
        network.close()


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
