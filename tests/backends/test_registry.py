"""Backends by name: what they can do, the options they take, and how they are made."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec

import dcgym
import dcgym.backends  # registers the backends
from dcgym.backends.base import Network, is_backend
from dcgym.backends.emulation.options import NetworkOptions
from dcgym.backends.ensemble import networks
from dcgym.backends.needs import NetworkNeeds, PoolNeeds
from dcgym.backends.options import BackendOptions
from dcgym.backends.registry import DEVICE_POOLS, NETWORKS, POOLS, Maker, make_backend, own_options
from dcgym.errors import ConfigError
from dcgym.native import available
from dcgym.registry import Registry
from dcgym.suites.sweep import set_argument
from dcgym.tasks.balancing import make_scenario
from dcgym.tasks.network.protocol import NOTHING
from dcgym.testing import FakeBackend
from dcgym.topologies import make_topology
from dcgym.traffic.http.programs import ServerProgram, nginx

DUMBBELL = NetworkNeeds(topology=make_topology("dumbbell"))
TESTBED = PoolNeeds(scenario=make_scenario("testbed-7"))

needs_twin = pytest.mark.skipif(
    not available("_simulation"), reason="the compiled simulation is not built"
)


def test_the_backends_are_known_with_their_capabilities() -> None:
    assert NETWORKS["emulation"].capabilities.real_time
    assert not NETWORKS["emulation"].capabilities.deterministic
    assert POOLS["emulation"].capabilities.copies == 1
    assert set(POOLS["emulation"].capabilities.rules) < set(POOLS["simulation"].capabilities.rules)
    assert POOLS["simulation"].capabilities.deterministic


def test_a_network_is_made_by_name_and_starts_nothing() -> None:
    network = make_backend(NETWORKS, "emulation", DUMBBELL, 1, {"preflight": False})
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
    ("makers", "name", "options"),
    [
        (NETWORKS, "simulation", {"preflight": False, "host_access": "read-only"}),
        (NETWORKS, "simulation", {"host_access": "limited", "generator": "native"}),
        (NETWORKS, "simulation", {"switch": "ebpf", "preflight": True}),
        (NETWORKS, "emulation", {"threads": 1}),
        (POOLS, "simulation", {"server_program": None}),
        (POOLS, "simulation", {"consistency": "rule", "hook": "tc"}),
        (DEVICE_POOLS, "simulation", {"transport": "udp", "work": "timed", "hook": "tc"}),
    ],
)
def test_a_backend_without_an_option_takes_what_asks_for_nothing(
    makers: Registry[Any], name: str, options: dict[str, Any]
) -> None:
    assert own_options(makers, name, options) == {}
    [other] = {*makers} - {name}
    assert own_options(makers, other, options) == options


@pytest.mark.parametrize(
    ("makers", "backend", "name", "value", "allowed"),
    [
        (NETWORKS, "simulation", "switch", "ovs", "ebpf, or left out,"),
        (NETWORKS, "simulation", "generator", "iperf3", "native, or left out,"),
        (NETWORKS, "simulation", "host_access", "full", "limited or read-only, or left out,"),
        (NETWORKS, "emulation", "threads", 2, "1, or left out,"),
        (POOLS, "simulation", "server_program", {}, "left out"),
        (DEVICE_POOLS, "simulation", "transport", "tcp", "udp, or left out,"),
        (POOLS, "simulation", "consistency", "cookie", "rule, or left out,"),
        (POOLS, "simulation", "hook", "xdp", "tc, or left out,"),
        (DEVICE_POOLS, "simulation", "work", "burnt", "timed, or left out,"),
    ],
)
def test_what_asks_for_something_is_refused(
    makers: Registry[Any], backend: str, name: str, value: object, allowed: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        own_options(makers, backend, {name: value})
    assert (caught.value.field, caught.value.value) == (name, value)
    assert str(caught.value.allowed).startswith(f"{allowed} with the backend {backend}, which")


def test_a_real_pool_has_one_copy() -> None:
    with pytest.raises(ConfigError, match="num_envs: value 2"):
        make_backend(POOLS, "emulation", TESTBED, 2)
    with pytest.raises(ConfigError, match="threads: value 2"):
        make_backend(POOLS, "emulation", TESTBED, 1, {"threads": 2})


@needs_twin
def test_options_stand_in_the_backend_or_beside_it() -> None:
    """The pool's threads do not change its bits, and can be chosen in both places."""
    found = []
    for asked in (
        {"backend": {"name": "simulation", "threads": 2}},
        {"backend": "simulation", "threads": 2, "server_program": None},
        {"threads": 1},
    ):
        env = dcgym.make_vec_env({"env": "LoadBalancing-v1", **asked}, 3)
        found.append(env.reset(seed=1)[0].tobytes())
        env.close()
    assert len({*found}) == 1


def test_options_of_the_emulation_come_to_its_networks() -> None:
    said = {"switch": "ovs", "generator": "iperf3", "host_access": "read-only"}
    for config in ({"backend": {"name": "emulation", **said}}, said):
        env = dcgym.make_env(config)
        network = env.unwrapped.session.system.backend
        assert network.options == NetworkOptions(**said)
        env.close()


POOL = {"env": "LoadBalancing-v1", "backend": "emulation", "scenario": "testbed-7"}
OVER_UDP = TESTBED.scenario.changed(transport="udp").to_dict()
# Its flows look for their server packet by packet.
HASHED = {**POOL, "env": "CentralLoadBalancing-v1", "consistency": "none", "rule": "ecmp"}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"backend": {"switch": "ovs"}}, "backend.name: value None"),
        ({"backend": {"name": "emulaton"}}, "backend: value 'emulaton'"),
        ({"backend": {"name": "emulation", "swich": "ovs"}}, "swich: value 'ovs'"),
        ({"backend": {"name": "emulation", "probes": []}}, "probes: value "),
        ({"backend": {"name": "emulation", "switch": "p4"}}, "switch: value 'p4'"),
        ({"backend": {"name": "emulation", "switch": "ovs"}, "switch": "ebpf"}, "switch: .*once"),
        ({"backend": {"name": "dcgym.testing:FakeBackend", "size": 3}}, "backend: value"),
        ({"backend": "dcgym.testing:FakeBackend", "switch": "ovs"}, "switch: .* without a name"),
        ({"backend": FakeBackend, "threads": 2}, "threads: value 2 .* without a name"),
        ({"switch": "ovs", "env": "PathBalancing-v2"}, "backend: .* weighs paths"),
        ({"generator": "iperf3", "env": "FlowControl-v1"}, "backend: .*flow_control"),
        ({"switch": "ovs", "events": [{"at": "1s", "link": ["s1", "s2"], "action": "down"}]}, "ev"),
        (POOL | {"server_program": "apache"}, "server"),
        (POOL | {"hook": "nic"}, "hook: value 'nic'"),
        (POOL | {"consistency": "quic"}, "consistency: value 'quic'"),
        (POOL | {"consistency": "cookie", "scenario": OVER_UDP}, "consistency: .* over UDP"),
        (POOL | {"consistency": "none"}, "rule: value 'weighted'.*ecmp, wcmp"),
        (POOL | {"consistency": "none", "rule": "ecmp"}, "others: value 'sed'"),
        (HASHED | {"lead_in": "1s"}, "lead_in: value '1s'"),
    ],
)
def test_wrong_options_are_refused_in_one_line(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=f"^{said}") as caught:
        dcgym.make_env(config)
    assert "\n" not in str(caught.value)


def test_what_makes_a_backend_gets_the_options_of_its_mapping() -> None:
    backend = {"name": "dcgym.testing:FakeBackend", "probes": [["h1", "h4"]]}
    env = dcgym.make_env(
        backend=backend, probes=[["h1", "h4"]], features=["backlog", "probe_rtt"], switch="ebpf"
    )
    env.reset(seed=1)
    env.close()


def test_a_server_program_is_said_by_its_name_or_its_fields() -> None:
    program = {"command": ["true"]}
    for said in ("nginx", {"name": "nginx", "page_bytes": 100}, nginx().to_dict(), program):
        config = {"env": "LoadBalancing-v1", "backend": "emulation", "scenario": "testbed-7"}
        dcgym.make_env({**config, "server_program": said}).close()


def test_the_specification_of_an_environment_holds_the_options() -> None:
    options = {"server_program": nginx(page_bytes=100)}
    env = gym.make("dcgym/LoadBalancing-v1", backend={"name": "emulation", **options})
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    program = again.unwrapped.settings.backend["server_program"]
    assert ServerProgram.read(program) == nginx(page_bytes=100)
    env.close()
    again.close()


def test_an_option_of_a_backend_can_be_swept() -> None:
    env = {"env": "dcgym/LoadBalancing-v1", "backend": "simulation"}
    swept = set_argument(env, "backend.threads", 2)
    assert swept["backend"] == {"name": "simulation", "threads": 2}
    assert set_argument(env, "threads", 2)["threads"] == 2
    with pytest.raises(ConfigError, match="swept"):
        set_argument(env, "swept", 2)


def test_a_backend_from_outside_has_options_of_its_own() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Chosen(BackendOptions):
        size: int = 1

    sizes = []

    def make(needs: NetworkNeeds, n_envs: int, options: Chosen) -> Network:
        sizes.append(options.size)
        return networks(n_envs, lambda: FakeBackend(needs.topology))

    own: Registry[Maker[NetworkNeeds, Network]] = Registry("network backends", "backend")
    own.add("own", Maker("own", FakeBackend.capabilities, Chosen, make))
    make_backend(own, "own", DUMBBELL, 2, {"size": "3"})
    assert sizes == [3]
    with pytest.raises(ConfigError, match=r"options: value frozenset"):
        Maker("own", FakeBackend.capabilities, frozenset(), make)  # type: ignore[type-var]


def test_asking_for_names_loads_nothing_compiled() -> None:
    code = (
        "import sys, dcgym.backends\n"
        "heavy = ('mininet', 'torch', 'ray', 'dcgym.native._native', 'dcgym.native._simulation')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr
