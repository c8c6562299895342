"""Backends by name: what they can do, the options they take, and how they are made."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import fields
from typing import Any

import pytest

import dcgym.backends  # noqa: F401  # registers the backends
from dcgym.backends.base import Network
from dcgym.backends.emulation.network.options import NetworkOptions
from dcgym.backends.emulation.pool.backend import EmulatedPool
from dcgym.backends.registry import NETWORKS, POOLS, make_network, make_networks, make_pool
from dcgym.errors import ConfigError
from dcgym.tasks.balancing import make_scenario
from dcgym.topologies import make_topology

DUMBBELL = make_topology("dumbbell")


def test_the_backends_are_known_with_their_capabilities() -> None:
    assert NETWORKS["emulation"].capabilities.real_time
    assert not NETWORKS["emulation"].capabilities.deterministic
    assert POOLS["emulation"].capabilities.copies == 1
    assert set(POOLS["emulation"].capabilities.rules) < set(POOLS["simulation"].capabilities.rules)
    assert POOLS["simulation"].capabilities.deterministic


def test_the_emulation_names_the_options_that_it_has() -> None:
    assert NETWORKS["emulation"].options == {field.name for field in fields(NetworkOptions)}
    taken = set(inspect.signature(EmulatedPool).parameters) - {"scenario", "n_envs"}
    assert POOLS["emulation"].options == taken


def test_a_network_is_made_by_name_and_starts_nothing() -> None:
    network = make_network("emulation", DUMBBELL, {"preflight": False, "flow_matrix": True})
    assert isinstance(network, Network)
    assert network.topology is DUMBBELL and network.name == "emulation"
    assert make_networks("emulation", DUMBBELL, 3).n_envs == 3
    network.close()


@pytest.mark.parametrize(
    ("name", "options", "field"),
    [
        ("emulaton", {}, "backend"),
        ("emulation", {"swich": "ovs"}, "swich"),
        ("emulation", {"switch": "p4"}, "switch"),
    ],
)
def test_what_is_not_allowed_is_refused_in_one_line(
    name: str, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{field}: value") as caught:
        make_network(name, DUMBBELL, options)
    assert "\n" not in str(caught.value)


def test_a_real_pool_has_one_copy() -> None:
    scenario = make_scenario("testbed-7")
    with pytest.raises(ConfigError, match="num_envs: value 2"):
        make_pool("emulation", scenario, 2)
    with pytest.raises(ConfigError, match="threads: value 2"):
        make_pool("emulation", scenario, 1, {"threads": 2})


def test_asking_for_names_loads_nothing_compiled() -> None:
    code = (
        "import sys, dcgym.backends\n"
        "heavy = ('mininet', 'torch', 'ray', 'dcgym.native._native', 'dcgym.native._simulation')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr
