"""Backends by name: what they can do, the options they take, and how they are made."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import fields
from typing import Any

import pytest

import dcgym.backends  # noqa: F401  # registers the backends
from dcgym.backends.base import is_backend
from dcgym.backends.emulation.network.options import NetworkOptions
from dcgym.backends.emulation.pool.backend import EmulatedPool
from dcgym.backends.registry import (
    DEVICE_POOLS,
    NETWORKS,
    POOLS,
    checked_options,
    make_backend,
)
from dcgym.errors import ConfigError
from dcgym.tasks.balancing import make_scenario
from dcgym.tasks.network.protocol import NOTHING
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
    network = make_backend(
        NETWORKS, "emulation", DUMBBELL, 1, {"preflight": False, "flow_matrix": True}
    )
    assert is_backend(network) and network.name == "emulation"
    assert len(make_backend(NETWORKS, "emulation", DUMBBELL, 3).apply(NOTHING)) == 3
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
        make_backend(NETWORKS, name, DUMBBELL, 1, options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("simulation", {"preflight": False, "host_access": "read-only", "switch": "ebpf"}),
        ("simulation", {"host_access": "limited", "generator": "native", "probes": ()}),
        ("emulation", {"threads": 1}),
    ],
)
def test_a_backend_without_an_option_takes_what_asks_for_nothing(
    name: str, options: dict[str, Any]
) -> None:
    assert checked_options(NETWORKS[name], options) == {}
    make_backend(NETWORKS, name, DUMBBELL, 1, options).close()


@pytest.mark.parametrize(
    ("maker", "name", "value", "allowed"),
    [
        (NETWORKS["simulation"], "preflight", True, "False, or left out,"),
        (NETWORKS["simulation"], "switch", "ovs", "ebpf, or left out,"),
        (NETWORKS["simulation"], "generator", "iperf3", "native, or left out,"),
        (NETWORKS["simulation"], "host_access", "full", "limited or read-only, or left out,"),
        (NETWORKS["emulation"], "threads", 2, "1, or left out,"),
        (POOLS["simulation"], "server_program", {}, "left out"),
        (DEVICE_POOLS["simulation"], "transport", "tcp", "udp, or left out,"),
        (DEVICE_POOLS["simulation"], "work", "burnt", "timed, or left out,"),
    ],
)
def test_what_asks_for_something_is_refused(
    maker: Any, name: str, value: object, allowed: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        checked_options(maker, {name: value})
    assert (caught.value.field, caught.value.value) == (name, value)
    assert str(caught.value.allowed).startswith(f"{allowed} with the backend {maker.name}, which")


def test_every_option_of_pools_and_devices_has_a_value_that_asks_for_nothing() -> None:
    assert checked_options(POOLS["simulation"], {"server_program": None}) == {}
    given = {"transport": "udp", "work": "timed"}
    assert checked_options(DEVICE_POOLS["simulation"], given) == {}
    assert checked_options(DEVICE_POOLS["emulation"], given) == given


def test_a_real_pool_has_one_copy() -> None:
    scenario = make_scenario("testbed-7")
    with pytest.raises(ConfigError, match="num_envs: value 2"):
        make_backend(POOLS, "emulation", scenario, 2)
    with pytest.raises(ConfigError, match="threads: value 2"):
        make_backend(POOLS, "emulation", scenario, 1, {"threads": 2})


def test_asking_for_names_loads_nothing_compiled() -> None:
    code = (
        "import sys, dcgym.backends\n"
        "heavy = ('mininet', 'torch', 'ray', 'dcgym.native._native', 'dcgym.native._simulation')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr
